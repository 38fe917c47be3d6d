"""A ledger inside the caller's own PostgreSQL transaction: the mark and the effect commit together.

It works on the connection it is given, inside the transaction that psycopg begins by itself, and never
commits. A row that another transaction is writing is waited for, at most the lock timeout.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import psycopg

from onefold.core.errors import Misconfigured
from onefold.drive import run
from onefold.stores.postgresql.client import translated
from onefold.stores.postgresql.plan import PostgresPlan, Statement
from onefold.stores.postgresql.schema import prepare
from onefold.stores.shells import Blocking, Clients, Row

LOCK_TIMEOUT = "5s"


class JoinedLink:
    """A caller's connection: statements one after another, in the caller's transaction."""

    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        self._connection = connection

    def execute_many(self, statements: Sequence[Statement]) -> list[list[Row]]:
        return [self.rows(sql, args) for sql, args in statements]

    def rows(self, sql: str, args: Sequence[Any] = ()) -> list[Row]:
        with (
            translated("the joined database"),
            self._connection.cursor(row_factory=psycopg.rows.tuple_row) as cursor,
        ):
            cursor.execute(sql, args or None)
            return cursor.fetchall() if cursor.description else []

    def close(self) -> None:
        """Nothing to let go of: the connection is the caller's."""


class JoinedStore(Blocking):
    """Entries on a caller's connection; every write waits for the caller's commit."""

    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        if connection.autocommit:
            raise Misconfigured(
                "a ledger joins a transaction, and this connection is in autocommit mode: turn it off"
            )
        self._link = JoinedLink(connection)
        super().__init__(PostgresPlan(), self._link)

    def mark(self, name: str) -> None:
        """Set a point to go back to, if the effect fails."""
        self._link.rows(f"SET LOCAL lock_timeout = '{LOCK_TIMEOUT}'")
        run(prepare(True, "the joined database"), Clients(self._link))
        self._link.rows(f'SAVEPOINT "{name}"')

    def go_back(self, name: str) -> None:
        """Undo everything since the point, the effect's own writes too."""
        self._link.rows(f'ROLLBACK TO "{name}"')
        self._link.rows(f'RELEASE "{name}"')

    def keep(self, name: str) -> None:
        """Drop the point and keep what was done since."""
        self._link.rows(f'RELEASE "{name}"')
