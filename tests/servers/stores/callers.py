"""Callers whose transactions a ledger joins: each library that can be joined, behind one face.

A caller waits for locks for a moment only, so that tests of competitors need no time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from typing import Any, NamedTuple
from urllib.parse import quote

import pytest

SERVERS = {
    "psycopg": "postgresql",
    "sqlalchemy and psycopg": "postgresql",
    "pymysql": "mariadb",
    "sqlalchemy and pymysql": "mariadb",
}
"""Every library, and the server that it speaks to."""

WAITING = {
    "postgresql": "SELECT count(*) FROM pg_locks WHERE NOT granted",
    # Not innodb_trx: what it shows is not refreshed for somebody who asks all the time.
    "mariadb": "SELECT variable_value + 0 FROM information_schema.global_status "
    "WHERE variable_name = 'Innodb_row_lock_current_waits'",
}
"""How many wait for a lock, as each server tells it."""

Sql = Callable[[str], list[tuple[Any, ...]]]


class Caller:
    """A caller's own connection: how it does things, and commits."""

    def __init__(self, connection: Any, do: Callable[[str], Any]) -> None:
        self.connection = connection
        self.do = do

    def commit(self) -> None:
        self.connection.commit()

    def rollback(self) -> None:
        self.connection.rollback()

    def insert(self, number: int) -> str:
        self.do(f"INSERT INTO flats VALUES ({number})")
        return f"flat {number}"

    def setting(self, name: str) -> str:
        [value] = self.do(f"SHOW {name}").fetchone()
        return str(value)


class Site(NamedTuple):
    """A fresh place on a server, and the library with which callers come to it."""

    library: str
    url: str

    @property
    def server(self) -> str:
        return SERVERS[self.library]

    @contextmanager
    def sql(self) -> Iterator[Sql]:
        """Ask the database from outside; every statement commits by itself."""
        with closing(_connection(self.server, self.url, autocommit=True)) as connection:
            yield lambda text: _rows(_do(connection)(text))

    @contextmanager
    def caller(self, patient: bool = False) -> Iterator[Caller]:
        """Lend a connection of the caller's own; one that is patient waits for locks as long as is usual."""
        if self.library.startswith("sqlalchemy"):
            with _alchemy(self.server, self.url) as connection:
                yield Caller(connection, connection.exec_driver_sql)
        else:
            url, how = (self.url, {}) if patient else _impatient(self.server, self.url)
            with closing(_connection(self.server, url, **how)) as connection:
                yield Caller(connection, _do(connection))


def _connection(server: str, url: str, **how: Any) -> Any:
    if server == "postgresql":
        return pytest.importorskip("psycopg").connect(url, **how)
    return pytest.importorskip("pymysql").connect(**_parts(url), **how)


def _impatient(server: str, url: str) -> tuple[str, dict[str, Any]]:
    """Say how to connect so that locks are waited for only for a moment."""
    if server == "mariadb":
        return url, {"init_command": "SET SESSION innodb_lock_wait_timeout = 0"}
    return option(url, lock_timeout="60ms"), {}


@contextmanager
def _alchemy(server: str, url: str) -> Iterator[Any]:
    sqlalchemy = pytest.importorskip("sqlalchemy")
    driver = "pymysql" if server == "mariadb" else "psycopg"
    url, how = _impatient(server, url)
    engine = sqlalchemy.create_engine(url.replace(":", f"+{driver}:", 1), connect_args=how)
    with closing(engine.connect()) as connection:
        yield connection
    engine.dispose()


def _do(connection: Any) -> Callable[[str], Any]:
    def do(text: str) -> Any:
        cursor = connection.cursor()
        cursor.execute(text)
        return cursor

    return do


def _rows(cursor: Any) -> list[tuple[Any, ...]]:
    return list(cursor.fetchall()) if cursor.description else []


def _parts(url: str) -> dict[str, Any]:
    from onefold.stores.mariadb.address import address

    found = address(url)
    return {**found.settings, "database": found.database}


def option(url: str, **settings: object) -> str:
    """Add settings of a PostgreSQL session to a URL that has some."""
    return url + "".join(quote(f" -c{name}={value}", safe="") for name, value in settings.items())
