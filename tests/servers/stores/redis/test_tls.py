"""TLS to a Redis: the certificate and the host name are checked, whichever version of the client is there."""

from urllib.parse import urlsplit

import pytest

from onefold import Key
from onefold.core.errors import Misconfigured
from tests.servers.stores.tls import AUTHORITY, tls_before

pytest.importorskip("redis", reason="redis is not installed: it comes with the test servers")

from onefold.stores.redis import aconnect, connect
from onefold.stores.redis.address import address
from tests.servers.stores.colours import Awaited, Blocking, opened_in

pytestmark = pytest.mark.store("redis")

KEY = Key("mail", 1)

opened = opened_in(lambda url: Blocking(connect(url)), lambda url: Awaited(aconnect(url)))


def secure(url: str, port: int, options: str = f"?ca={AUTHORITY}") -> str:
    parts = urlsplit(url)
    return f"rediss://:{parts.password}@localhost:{port}{parts.path}{options}"


def test_a_server_is_used_whose_certificate_is_for_its_host_name(opened, redis_url):
    with tls_before(urlsplit(redis_url).port, "local") as port:
        store = opened(secure(redis_url, port))

        assert store.call(KEY) == "ran"


def test_a_certificate_for_another_host_name_is_refused(opened, redis_url):
    with tls_before(urlsplit(redis_url).port, "other") as port:
        store = opened(secure(redis_url, port))

        with pytest.raises(Misconfigured, match="for another host name"):
            store.call(KEY)


def test_a_certificate_of_an_unknown_authority_is_refused(opened, redis_url):
    with tls_before(urlsplit(redis_url).port, "local") as port:
        store = opened(secure(redis_url, port, ""))

        with pytest.raises(Misconfigured, match="certificate that is not trusted"):
            store.call(KEY)


@pytest.mark.parametrize("scheme", ["rediss", "valkeys"])
def test_the_checks_are_asked_for_and_not_left_to_the_defaults_of_the_client(scheme):
    told = address(f"{scheme}://db.example.org").settings

    # redis-py checks no host names by itself before version 6.
    assert (told["ssl_cert_reqs"], told["ssl_check_hostname"]) == ("required", True)


def test_without_tls_nothing_is_said_about_certificates():
    assert not [name for name in address("redis://db.example.org").settings if name.startswith("ssl")]
