"""Tables in an SQLite file, through `apsw`: the same copy of SQLite that the ledger uses.

One file, one SQLite library: a process that also opens this file by `sqlite3` can lose its locks.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

import apsw

from onefold.core.errors import Locked, Misconfigured, Unreachable
from onefold.core.terms import Seconds
from onefold.runtime.locks import LockWait
from onefold.tables import Row


class Sqlite:
    """SQLite, behind the one face."""

    def connect(self, url: str, patience: Seconds) -> apsw.Connection:
        path = urlsplit(url).path
        if not url.startswith("sqlite:///") or len(path) < 2:
            raise Misconfigured(
                f"{url!r} names no file: write sqlite:///relative.db or sqlite:////absolute.db"
            )
        # Not created: a database without the table in it would be somebody's mistake.
        try:
            connection = apsw.Connection(unquote(path[1:]), flags=apsw.SQLITE_OPEN_READWRITE)
        except apsw.CantOpenError as error:
            raise Misconfigured(f"{unquote(path[1:])} cannot be opened: {error}; is it there?") from error
        connection.set_busy_handler(LockWait(patience))
        connection.execute("PRAGMA foreign_keys = ON")
        if dict(parse_qsl(urlsplit(url).query)).get("synchronous", "").lower() == "normal":
            # As in the URL of a ledger: both may be given the same URL, and then mean the same by it.
            connection.execute("PRAGMA synchronous = normal")
        return connection

    def begin(self, connection: apsw.Connection, write: bool) -> None:
        # A transaction that first reads and then writes may find that another wrote in between, and fail.
        connection.execute("BEGIN IMMEDIATE" if write else "BEGIN")

    def run(self, connection: apsw.Connection, sql: str, args: Sequence[Any]) -> tuple[list[str], list[Row]]:
        cursor = connection.cursor()
        cursor.execute(sql, tuple(args))
        try:
            names = [column[0] for column in cursor.get_description()]
        except apsw.ExecutionCompleteError:
            # Nothing more to come: no rows, and then nobody can say how they would be called.
            return [], []
        return names, [tuple(row) for row in cursor]

    def run_many(self, connection: apsw.Connection, sql: str, rows: Sequence[Sequence[Any]]) -> None:
        connection.cursor().executemany(sql, [tuple(row) for row in rows])

    def columns(self, connection: apsw.Connection, table: str) -> dict[str, str]:
        schema, _, name = table.rpartition(".")
        asked = "SELECT name, type FROM pragma_table_info(?, ?)"
        return {str(one): str(kind) for one, kind in connection.execute(asked, (name, schema or "main"))}

    def index(self, connection: apsw.Connection, table: str, name: str) -> list[str | None]:
        schema, _, _ = table.rpartition(".")
        asked = "SELECT name FROM pragma_index_info(?, ?) ORDER BY seqno"
        return [column for (column,) in connection.execute(asked, (name, schema or "main"))]

    def commit(self, connection: apsw.Connection) -> None:
        connection.execute("COMMIT")

    def roll_back(self, connection: apsw.Connection) -> None:
        if connection.in_transaction:
            connection.execute("ROLLBACK")

    def close(self, connection: apsw.Connection) -> None:
        with suppress(apsw.Error):
            connection.close()

    @contextmanager
    def translating(self) -> Iterator[None]:
        try:
            yield
        except (apsw.BusyError, apsw.LockedError) as error:
            raise Locked("the database was locked by another for too long; nothing was written") from error
        except (apsw.FullError, apsw.IOError, apsw.ReadOnlyError, apsw.CorruptError) as error:
            raise Unreachable(f"the database file cannot be used: {error}") from error


DRIVER = Sqlite()
