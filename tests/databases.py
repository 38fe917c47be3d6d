"""A user's database for tests, of every kind, looked into by a connection beside what is tested."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import apsw
import psycopg
import pymysql
import pytest

from onefold.stores import connect
from onefold.tables import Kind, kind_of
from onefold.tables.mariadb import DRIVER as MARIADB

KINDS = [
    pytest.param("sqlite", marks=pytest.mark.store("sqlite")),
    pytest.param("postgresql", marks=pytest.mark.store("postgresql")),
    pytest.param("mariadb", marks=pytest.mark.store("mariadb")),
]


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
            case "postgresql":
                self._connection = psycopg.connect(url, autocommit=True)
            case _:
                self._connection = MARIADB.connect(url, 5.0)
                self._connection.autocommit(True)

    def run(self, sql: str, *args: Any) -> list[tuple[Any, ...]]:
        with self._alone:
            return self._run(sql, *args)

    def _run(self, sql: str, *args: Any) -> list[tuple[Any, ...]]:
        if self.kind == "sqlite":
            return list(self._connection.cursor().execute(sql, args))
        if self.kind == "mariadb":
            with pymysql.cursors.Cursor(self._connection) as cursor:
                cursor.execute(sql.replace("?", "%s"), args)
                return list(cursor.fetchall())
        cursor = self._connection.execute(sql.replace("?", "%s"), args)
        return list(cursor.fetchall()) if cursor.description else []

    def close(self) -> None:
        self._connection.close()
        self.store.close()


def opened(kind: str, request: pytest.FixtureRequest, folder: Any) -> Iterator[Place]:
    """Give a place of a kind, for one test."""
    url = f"sqlite:///{folder}/shop.db" if kind == "sqlite" else request.getfixturevalue(f"{kind}_url")
    place = Place(url)
    try:
        yield place
    finally:
        place.close()
