"""TLS to a MongoDB: with `tls=true`, the certificate and the host name are checked."""

from urllib.parse import urlsplit

import pytest

pytest.importorskip("pymongo", reason="pymongo is not installed: it comes with the test servers")

from onefold import Key
from onefold.core.errors import Misconfigured
from onefold.stores.mongodb import aconnect, connect
from tests.servers.stores.colours import Awaited, Blocking, opened_in
from tests.servers.stores.tls import AUTHORITY, tls_before

pytestmark = pytest.mark.store("mongodb")

opened = opened_in(lambda url: Blocking(connect(url)), lambda url: Awaited(aconnect(url)))


def secure(url: str, port: int, options: str) -> str:
    parts = urlsplit(url)
    query = "&".join(filter(None, [parts.query, "tls=true&serverSelectionTimeoutMS=3000", options]))
    return parts._replace(netloc=f"localhost:{port}", query=query).geturl()


def test_a_server_is_used_whose_certificate_is_for_its_host_name(opened, mongodb_url):
    with tls_before(urlsplit(mongodb_url).port, "local") as port:
        store = opened(secure(mongodb_url, port, f"tlsCAFile={AUTHORITY}"))

        assert store.call(Key("mail", 1)) == "ran"


@pytest.mark.parametrize(
    ("certificate", "options", "sentence"),
    [
        ("other", f"tlsCAFile={AUTHORITY}", "for another host name"),
        ("local", "", "not trusted: name the file"),
    ],
)
def test_a_certificate_that_proves_nothing_is_refused(opened, mongodb_url, certificate, options, sentence):
    with tls_before(urlsplit(mongodb_url).port, certificate) as port:
        store = opened(secure(mongodb_url, port, options))

        with pytest.raises(Misconfigured, match=sentence):
            store.call(Key("mail", 1))
