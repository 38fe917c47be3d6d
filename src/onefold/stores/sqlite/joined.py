"""A ledger inside the caller's own transaction: the mark and the effect commit together, or neither does.

It works on the connection it is given and on nothing else, begins a transaction where the caller has
none, and never commits: the caller does. It opens no file, so it cannot meet a second copy of SQLite.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Protocol

import apsw

from onefold.core.entry import Change, Reply, Seen, State
from onefold.core.errors import Locked, Misconfigured, Unreachable
from onefold.core.flow import Found
from onefold.core.key import Key
from onefold.runtime import now
from onefold.stores.sql import migrations
from onefold.stores.sqlite import plan
from onefold.stores.sqlite.file import Apsw
from onefold.stores.sqlite.plan import Row

_LOCKED = (apsw.SQLITE_BUSY, apsw.SQLITE_LOCKED)


class Connection(plan.Client, Protocol):
    """A caller's connection, behind one face."""

    @property
    def in_transaction(self) -> bool: ...


class JoinedStore:
    """Entries on a caller's connection; every write waits for the caller's commit."""

    def __init__(self, connection: Connection, clock: Callable[[], float] = now) -> None:
        self._connection = connection
        self._clock = clock

    def get(self, keys: Sequence[Key]) -> Sequence[Seen]:
        with self._ready():
            return plan.get(self._connection, keys, self._clock())

    def swap(self, changes: Sequence[Change]) -> Sequence[Reply]:
        with self._ready():
            return plan.swap(self._connection, changes, self._clock())

    def scan(
        self, scope: str | None, states: Sequence[State], due: bool, after: str | None, limit: int
    ) -> tuple[Sequence[Found], str | None]:
        with self._ready():
            now = self._clock()
            return plan.scan(self._connection, scope, states, now if due else float("inf"), after, limit, now)

    def close(self) -> None:
        """Nothing to let go of: the connection is the caller's."""

    def mark(self, name: str) -> None:
        """Set a point to go back to, if the effect fails."""
        with self._ready():
            self._connection.rows(f'SAVEPOINT "{name}"')

    def go_back(self, name: str) -> None:
        """Undo everything since the point, the effect's own writes too."""
        with _translated():
            self._connection.rows(f'ROLLBACK TO "{name}"')
            self._connection.rows(f'RELEASE "{name}"')

    def keep(self, name: str) -> None:
        """Drop the point and keep what was done since."""
        with _translated():
            self._connection.rows(f'RELEASE "{name}"')

    @contextmanager
    def _ready(self) -> Iterator[None]:
        """Be inside a transaction that can write, with the tables there; a rollback may have taken them."""
        with _translated():
            if not self._connection.in_transaction:
                self._connection.rows("BEGIN IMMEDIATE")
            if plan.schema_version(self._connection) != len(migrations("sqlite")):
                plan.migrate(self._connection, "the joined database")
            yield


def adapt(connection: object) -> Connection:
    """Give a caller's connection the one face that the plan knows."""
    if isinstance(connection, sqlite3.Connection):
        return _Stdlib(connection)
    if isinstance(connection, apsw.Connection):
        return _JoinedApsw(connection)
    if type(connection).__module__.startswith("sqlalchemy.engine"):
        return _alchemy(connection)
    raise Misconfigured(
        f"a ledger cannot join a {type(connection).__module__}.{type(connection).__qualname__}: "
        "give a connection of sqlite3, apsw or SQLAlchemy, or of psycopg (of a Session: session.connection())"
    )


class _Stdlib:
    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    @property
    def in_transaction(self) -> bool:
        return self._connection.in_transaction

    def rows(self, sql: str, bound: Sequence[Any] = ()) -> list[Row]:
        # The caller may have asked for rows and texts of another shape.
        cursor, wanted = self._connection.cursor(), self._connection.text_factory
        cursor.row_factory, self._connection.text_factory = None, str
        try:
            return cursor.execute(sql, bound).fetchall()
        finally:
            self._connection.text_factory = wanted

    def change(self, sql: str, bound: Sequence[Any]) -> bool:
        return self._connection.execute(sql, bound).rowcount > 0


class _JoinedApsw(Apsw):
    @property
    def in_transaction(self) -> bool:
        return bool(self.connection.in_transaction)

    def rows(self, sql: str, bound: Sequence[Any] = ()) -> list[Row]:
        cursor = self.connection.cursor()
        cursor.row_trace = lambda _, row: row  # the caller may have asked for rows of another shape
        return cursor.execute(sql, bound).fetchall()


class _Alchemy:
    def __init__(self, connection: Any) -> None:
        self._connection = connection

    @property
    def in_transaction(self) -> bool:
        # The driver begins later than SQLAlchemy does, and a savepoint outside of a transaction would commit.
        return bool(self._connection.connection.dbapi_connection.in_transaction)

    def rows(self, sql: str, bound: Sequence[Any] = ()) -> list[Row]:
        result = self._connection.exec_driver_sql(sql, tuple(bound))
        return [tuple(row) for row in result] if result.returns_rows else []

    def change(self, sql: str, bound: Sequence[Any]) -> bool:
        return bool(self._connection.exec_driver_sql(sql, tuple(bound)).rowcount > 0)


def _alchemy(connection: Any) -> _Alchemy:
    dialect = getattr(getattr(connection, "dialect", None), "name", "unknown")
    if dialect != "sqlite" or not hasattr(connection, "exec_driver_sql"):
        raise Misconfigured(
            "a ledger joins SQLAlchemy connections to SQLite so far, "
            f"not this {type(connection).__name__} ({dialect}): give engine.connect()"
        )
    return _Alchemy(connection)


@contextmanager
def _translated() -> Iterator[None]:
    """Turn a lock that was not had into ours; everything else is the caller's own error."""
    try:
        yield
    except (sqlite3.OperationalError, apsw.Error) as error:
        _raise(error, error)
    except Exception as error:
        cause = getattr(error, "orig", None)  # SQLAlchemy wraps the driver's error
        if not isinstance(cause, sqlite3.OperationalError):
            raise
        _raise(error, cause)


def _raise(error: Exception, cause: Exception) -> None:
    code: int = getattr(cause, "sqlite_errorcode", 0) or getattr(cause, "result", 0)
    if code & 0xFF in _LOCKED:
        raise Locked("another connection is writing to the joined database; nothing was written") from error
    raise Unreachable(f"the joined database did not answer: {cause}") from error
