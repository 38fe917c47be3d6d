"""A ledger inside the caller's own PostgreSQL transaction: the mark and the effect commit together.

It works on the connection it is given, inside the transaction that the caller's library begins, and never
commits. What it cannot do it undoes, so that the caller's transaction stays usable. A row that another
transaction is writing is waited for, at most the lock timeout.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import psycopg
from psycopg.pq import TransactionStatus

from onefold.core.entry import Change, Reply, Seen, State
from onefold.core.errors import Misconfigured
from onefold.core.flow import Found
from onefold.core.key import Key
from onefold.drive import run
from onefold.stores.callers import NAME, Alchemy, Caller, losing
from onefold.stores.postgresql.errors import asking, sendable
from onefold.stores.postgresql.plan import PostgresPlan, Statement, look, writes
from onefold.stores.postgresql.schema import PATIENT_LOCKS, prepare
from onefold.stores.postgresql.waiting import has_rows
from onefold.stores.rows import found
from onefold.stores.shells import Blocking, Clients, Row, on_client

# The setting is the caller's: it is kept beside, and put back.
_BEFORE = (
    Statement("SAVEPOINT onefold_write"),
    Statement(
        "SELECT set_config('onefold.lock_timeout', current_setting('lock_timeout'), true), "
        f"set_config('lock_timeout', {PATIENT_LOCKS}, true)"
    ),
)
_AFTER = (
    Statement("SELECT set_config('lock_timeout', current_setting('onefold.lock_timeout'), true)"),
    Statement("RELEASE onefold_write"),
)
_UNDO = (Statement("ROLLBACK TO onefold_write"), Statement("RELEASE onefold_write"))

Connection = psycopg.Connection[Any]


class JoinedLink:
    """A caller's connection: statements leave in one pipeline, in the caller's transaction."""

    def __init__(self, caller: Caller) -> None:
        self._caller = caller

    def execute_many(self, statements: Sequence[Statement]) -> list[list[Row]]:
        connection: Connection = self._caller.driver()
        if connection.autocommit and self.status == TransactionStatus.IDLE:
            raise Misconfigured(
                "a ledger joins a transaction, and this connection is in autocommit mode outside of one: "
                "turn it off, or call inside `with connection.transaction():`"
            )
        sendable(statements)
        with losing(self._caller), asking(NAME):
            return _executed(connection, statements)

    @property
    def status(self) -> TransactionStatus:
        connection: Connection = self._caller.driver()
        return connection.info.transaction_status

    def close(self) -> None:
        """Nothing to let go of: the connection is the caller's."""


def _executed(connection: Connection, statements: Sequence[Statement]) -> list[list[Row]]:
    cursors = [_cursor(connection) for _ in statements]
    failed: list[Exception] = []
    try:
        with connection.pipeline():
            _send(cursors, statements, failed)
    except psycopg.Error as error:
        failed.append(error)
    if failed:
        raise failed[0]
    return [cursor.fetchall() if has_rows(cursor) else [] for cursor in cursors]


def _send(
    cursors: Sequence[psycopg.Cursor[Row]], statements: Sequence[Statement], failed: list[Exception]
) -> None:
    try:
        for cursor, (sql, args) in zip(cursors, statements, strict=True):
            cursor.execute(sql, args)
    except psycopg.Error as error:
        failed.append(error)  # raised later: the driver logs a warning about what is raised inside a pipeline


def _cursor(connection: Connection) -> psycopg.Cursor[Row]:
    """Make a cursor of our own: the caller may have asked for rows, or cursors, of another shape."""
    cursor = psycopg.Cursor(connection, row_factory=psycopg.rows.tuple_row)
    cursor.format = psycopg.pq.Format.BINARY
    return cursor


class _Psycopg:
    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def driver(self) -> Connection:
        return self._connection

    def lose(self) -> None:
        """Nothing to do: the connection knows."""


def adapt(connection: Any) -> Caller:
    """Give a caller's connection one face."""
    if isinstance(connection, psycopg.Connection):
        return _Psycopg(connection)
    if isinstance(connection, psycopg.AsyncConnection):
        raise Misconfigured(
            "a ledger cannot join a psycopg.AsyncConnection yet: give a psycopg.Connection, "
            "also to an AsyncLedger"
        )
    if connection.dialect.driver != "psycopg":
        raise Misconfigured(
            "a ledger joins SQLAlchemy connections to PostgreSQL through psycopg, and this one "
            f"uses {connection.dialect.driver}: write postgresql+psycopg:// in the engine's URL"
        )
    return Alchemy(connection)


class JoinedPlan(PostgresPlan):
    """The same statements inside a savepoint, and the look at all keys in the same pipeline.

    A look that fails puts the caller's transaction into an error, and only the savepoint leads out of it. So
    the look must come before the savepoint is released; it cannot wait until the losers are known.
    """

    async def swap(self, changes: Sequence[Change]) -> Sequence[Reply]:
        keys = [change.key for change in changes]
        asked = [*_BEFORE, *writes(changes), look(keys)]
        replies = await on_client("execute_many", [*asked, *_AFTER])
        return found(keys, replies[len(asked) - 1])


class JoinedStore(Blocking):
    """Entries on a caller's connection; every write waits for the caller's commit."""

    def __init__(self, caller: Caller) -> None:
        self._link = JoinedLink(caller)
        self._there = False
        super().__init__(JoinedPlan(), self._link)

    def get(self, keys: Sequence[Key]) -> Sequence[Seen]:
        self._ready()
        return super().get(keys)

    def swap(self, changes: Sequence[Change]) -> Sequence[Reply]:
        self._ready()
        with self._undone():
            return super().swap(changes)

    def scan(
        self, scope: str | None, states: Sequence[State], due: bool, after: str | None, limit: int
    ) -> tuple[Sequence[Found], str | None]:
        self._ready()
        return super().scan(scope, states, due, after, limit)

    def mark(self, name: str) -> None:
        """Set a point to go back to, if the effect fails."""
        self._ready()
        self._link.execute_many([Statement(f'SAVEPOINT "{name}"')])

    def go_back(self, name: str) -> None:
        """Undo everything since the point, the effect's own writes too."""
        self._link.execute_many([Statement(f'ROLLBACK TO "{name}"'), Statement(f'RELEASE "{name}"')])

    def keep(self, name: str) -> None:
        """Drop the point and keep what was done since."""
        self._link.execute_many([Statement(f'RELEASE "{name}"')])

    def _ready(self) -> None:
        """Have the tables there; a rollback may have taken them, unless they stood before the transaction."""
        status = self._link.status
        if status == TransactionStatus.INERROR:
            raise Misconfigured(
                "the transaction that the ledger is to join has failed before: roll it back, then ask again"
            )
        if not self._there:
            self._there = self._prepared() and status == TransactionStatus.IDLE

    def _prepared(self) -> bool:
        """Make the tables if they are missing; say whether they were there."""
        with self._undone():
            self._link.execute_many(_BEFORE)
            found = run(prepare(True, NAME, joined=True), Clients(self._link))
            self._link.execute_many(_AFTER)
            return found

    @contextmanager
    def _undone(self) -> Iterator[None]:
        """Undo what failed, so that the caller can go on."""
        try:
            yield
        except BaseException:
            if self._link.status == TransactionStatus.INERROR:
                self._link.execute_many(_UNDO)
            raise
