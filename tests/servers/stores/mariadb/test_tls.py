"""TLS to a MariaDB: with `ca` in the URL, the certificate and the host name are checked before a login."""

from contextlib import closing
from urllib.parse import urlsplit

import pytest

from onefold import Key
from onefold.core.errors import Misconfigured, OnefoldError
from onefold.tables import Database
from tests.servers.stores.tls import AUTHORITY, mariadb, tls_before

pytestmark = pytest.mark.store("mariadb")


def secure(url: str, port: int, authority: object) -> str:
    parts = urlsplit(url)
    login = parts.netloc.rpartition("@")[0]
    return parts._replace(netloc=f"{login}@localhost:{port}", query=f"ca={authority}").geturl()


@pytest.mark.parametrize(
    ("certificate", "authority", "sentence"),
    [("other", AUTHORITY, "for another host name"), ("local", "system", "not trusted: name the file")],
)
def test_a_certificate_that_proves_nothing_is_refused(opened, mariadb_url, certificate, authority, sentence):
    with tls_before(urlsplit(mariadb_url).port, certificate, mariadb) as port:
        store = opened(secure(mariadb_url, port, authority))

        with pytest.raises(Misconfigured, match=sentence):
            store.call(Key("mail", 1))


def test_tables_of_the_user_are_reached_under_the_same_rule(mariadb_url):
    with (
        tls_before(urlsplit(mariadb_url).port, "other", mariadb) as port,
        closing(Database(secure(mariadb_url, port, AUTHORITY))) as database,
        pytest.raises(OnefoldError, match="Hostname mismatch"),
        database.transaction(),
    ):
        pass
