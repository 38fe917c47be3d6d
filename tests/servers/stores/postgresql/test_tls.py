"""TLS to a PostgreSQL: a URL that asks for it gets a server whose certificate and host name are checked."""

from contextlib import closing
from urllib.parse import urlsplit

import pytest

from onefold import Key
from onefold.core.errors import Misconfigured, OnefoldError
from onefold.stores.postgresql import connect
from onefold.stores.postgresql.waiting import parameters
from onefold.tables import Database
from tests.servers.stores.tls import AUTHORITY, postgresql, tls_before

pytestmark = pytest.mark.store("postgresql")

KEY = Key("mail", 1)


def secure(url: str, port: int, **options: object) -> str:
    parts = urlsplit(url)
    login = parts.netloc.rpartition("@")[0]
    query = "&".join([parts.query, *(f"{name}={value}" for name, value in options.items())])
    return parts._replace(netloc=f"{login}@localhost:{port}", query=query.strip("&")).geturl()


@pytest.mark.parametrize("mode", ["require", "verify-full"])
def test_a_server_is_used_whose_certificate_is_for_its_host_name(opened, postgresql_url, mode):
    with tls_before(urlsplit(postgresql_url).port, "local", postgresql) as port:
        store = opened(secure(postgresql_url, port, sslmode=mode, sslrootcert=AUTHORITY))

        assert store.call(KEY) == "ran"


@pytest.mark.parametrize("mode", ["require", "verify-full"])
def test_a_certificate_for_another_host_name_is_refused(opened, postgresql_url, mode):
    with tls_before(urlsplit(postgresql_url).port, "other", postgresql) as port:
        store = opened(secure(postgresql_url, port, sslmode=mode, sslrootcert=AUTHORITY))

        with pytest.raises(Misconfigured, match="for another host name"):
            store.call(KEY)


def test_a_url_that_requires_tls_gets_no_server_that_nobody_vouches_for(opened, postgresql_url):
    with tls_before(urlsplit(postgresql_url).port, "local", postgresql) as port:
        store = opened(secure(postgresql_url, port, sslmode="require"))

        with pytest.raises(
            Misconfigured, match="not trusted: name the file of its authority with sslrootcert="
        ):
            store.call(KEY)


def test_a_connection_says_itself_how_it_is_protected(postgresql_url):
    def protection(url: str) -> object:
        with closing(connect(url)) as store:
            store.get([KEY])
            return store.client.protection()

    assert protection(postgresql_url) == ("127.0.0.1", "plain")
    with tls_before(urlsplit(postgresql_url).port, "local", postgresql) as port:
        # The default, `prefer`, takes TLS from anybody.
        assert protection(secure(postgresql_url, port)) == ("127.0.0.1", "encrypted")
        trusted = secure(postgresql_url, port, sslmode="require", sslrootcert=AUTHORITY)
        assert protection(trusted) == ("127.0.0.1", "verified")


def test_tables_of_the_user_are_reached_under_the_same_rule(postgresql_url):
    with tls_before(urlsplit(postgresql_url).port, "other", postgresql) as port:
        url = secure(postgresql_url, port, sslmode="require", sslrootcert=AUTHORITY)

        with (
            closing(Database(url)) as database,
            pytest.raises(OnefoldError, match="does not match host name"),
            database.transaction(),
        ):
            pass


def test_a_url_that_does_not_ask_for_tls_leaves_it_to_libpq():
    assert "sslmode" not in parameters("postgresql://db.example.org/shop")
    assert parameters("postgresql://db.example.org/shop?ssl=true")["sslmode"] == "verify-full"
