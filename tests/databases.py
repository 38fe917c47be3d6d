"""A user's database for tests, of every kind, looked into by a connection beside what is tested.

Clients of servers are imported where they are used: fast tests use SQLite and run without them.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apsw
import pytest

from onefold.stores import connect
from onefold.tables import Kind, kind_of

SQLITE, POSTGRESQL, MARIADB = (
    pytest.param(kind, marks=pytest.mark.store(kind)) for kind in ("sqlite", "postgresql", "mariadb")
)
"""Parameters of a fixture that gives a place. A fast test has a file of SQLite, others have a server."""


class Place:
    """A database with a ledger in it. Statements commit at once."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.kind: Kind = kind_of(url)
        self.store = connect(url)
        self._alone = threading.Lock()
        self.store.get([])  # makes the ledger
        match self.kind:
            case "sqlite":
                # The same copy of SQLite as the code under test: one file, one library.
                self._connection: Any = apsw.Connection(url.removeprefix("sqlite:///"))
                self._connection.set_busy_timeout(5000)
                self._connection.execute("PRAGMA synchronous = off")  # tests write many rows one by one
            case "postgresql":
                import psycopg

                self._connection = psycopg.connect(url, autocommit=True)
            case _:
                from onefold.tables.mariadb import DRIVER

                self._connection = DRIVER.connect(url, 5.0)
                self._connection.autocommit(True)

    def run(self, sql: str, *args: Any) -> list[tuple[Any, ...]]:
        with self._alone:
            return self._run(sql, *args)

    def _run(self, sql: str, *args: Any) -> list[tuple[Any, ...]]:
        if self.kind == "sqlite":
            return list(self._connection.cursor().execute(sql, args))
        if self.kind == "mariadb":
            import pymysql.cursors

            with pymysql.cursors.Cursor(self._connection) as cursor:
                cursor.execute(sql.replace("?", "%s"), args)
                return list(cursor.fetchall())
        cursor = self._connection.execute(sql.replace("?", "%s"), args)
        return list(cursor.fetchall()) if cursor.description else []

    def close(self) -> None:
        self._connection.close()
        self.store.close()


def opened(request: pytest.FixtureRequest, folder: Path) -> Iterator[Place]:
    """Give a place of the kind that the fixture is asked for, for one test."""
    kind = request.param
    url = f"sqlite:///{folder}/shop.db" if kind == "sqlite" else request.getfixturevalue(f"{kind}_url")
    place = Place(url)
    try:
        yield place
    finally:
        place.close()
