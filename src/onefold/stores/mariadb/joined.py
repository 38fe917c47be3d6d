"""A ledger inside the caller's own MariaDB transaction: the mark and the effect commit together.

It works on the connection it is given, inside the transaction that the caller's library begins, and never
commits it; tables, whose making would commit it, are made only where none is under way. What it cannot do it
undoes, so that the caller's transaction stays usable, unless the server has undone all of it (a deadlock). A
row that another transaction is writing is waited for, at most the lock timeout.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pymysql
from pymysql.constants import SERVER_STATUS
from pymysql.converters import decoders
from pymysql.cursors import Cursor

from onefold.core.entry import Change, Reply, Seen, State
from onefold.core.errors import Misconfigured, OnefoldError, Unreachable
from onefold.core.flow import Found
from onefold.core.key import Key
from onefold.drive import run
from onefold.stores.callers import LOST, NAME, Alchemy, Caller, losing
from onefold.stores.mariadb.errors import NO_SAVEPOINT, asking, number_of
from onefold.stores.mariadb.plan import MariaPlan, Statement
from onefold.stores.mariadb.schema import LOCK_SECONDS, prepare, schema_version
from onefold.stores.shells import Blocking, Clients, Row

WRITE = "onefold_write"

_ENDED = (
    f"the transaction in {NAME} has ended before its time: the server has undone it because of a deadlock, "
    "or a statement like CREATE TABLE has committed it; roll back and start again"
)
_OUTSIDE = (
    "a ledger joins a transaction, and this connection is in autocommit mode outside of one: "
    "turn it off, or call connection.begin() before"
)
_UNMADE = (
    f"{NAME} has no ledger in it, and making one would commit the transaction that is under way: use the "
    "ledger first in a transaction, or run what `onefold store sql mariadb:` prints"
)

# MariaDB's own words for a setting that lasts as long as a statement; for other servers a comment.
_WAITING = "/*M! SET STATEMENT innodb_lock_wait_timeout = {0}, lock_wait_timeout = {0} FOR */ "
_SETTINGS = Statement(f"SELECT @@in_transaction, LEAST(@@innodb_lock_wait_timeout, {LOCK_SECONDS})")

Connection = Any
"""PyMySQL has no types."""


class JoinedLink:
    """A caller's connection. Statements leave one by one: the caller need not allow several in a message."""

    def __init__(self, caller: Caller) -> None:
        self._caller = caller
        self.waiting = ""
        """Stands before what may wait for a row."""

    def execute_many(self, statements: Sequence[Statement]) -> list[list[Row]]:
        connection = self._caller.driver()
        _check(connection)
        texts = [self.waiting + one.text if one.args else one.text for one in statements]
        with losing(self._caller), asking(NAME), _plainly(connection):
            return [_executed(connection, text) for text in texts]

    def set_point(self, name: str) -> None:
        self.execute_many([Statement(f"SAVEPOINT `{name}`")])
        _check(self._caller.driver())  # its answer says whether there is a transaction

    def leave_point(self, name: str, back: bool) -> None:
        """Go back to a point, or only drop it."""
        steps = [Statement(f"ROLLBACK TO SAVEPOINT `{name}`")] if back else []
        try:
            self.execute_many([*steps, Statement(f"RELEASE SAVEPOINT `{name}`")])
        except OnefoldError as error:
            if error.__cause__ and number_of(error.__cause__) == NO_SAVEPOINT:
                raise Unreachable(_ENDED) from error
            raise

    def close(self) -> None:
        """Nothing to let go of: the connection is the caller's."""


def _executed(connection: Connection, text: str) -> list[Row]:
    # A cursor of our own: the caller may have asked for rows, or cursors, of another shape.
    with Cursor(connection) as cursor:
        cursor.execute(text)
        return list(cursor.fetchall())


def _check(connection: Connection) -> None:
    """Refuse a connection that would commit every statement by itself, or cannot carry every text."""
    if connection.get_autocommit() and not connection.server_status & SERVER_STATUS.SERVER_STATUS_IN_TRANS:
        raise Misconfigured(_OUTSIDE)
    if connection.charset != "utf8mb4" or not connection.use_unicode:
        raise Misconfigured(
            f"a ledger joins connections in utf8mb4, and this one uses {connection.charset}: "
            "open it with charset='utf8mb4', which is the default"
        )


@contextmanager
def _plainly(connection: Connection) -> Iterator[None]:
    """Read values as the driver does by default, whatever the caller reads them as."""
    own, connection.decoders = connection.decoders, decoders
    try:
        yield
    finally:
        connection.decoders = own


class _Pymysql:
    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def driver(self) -> Connection:
        if not self._connection.open:
            raise Unreachable(LOST)
        return self._connection

    def lose(self) -> None:
        """Nothing to do: the connection knows."""


def adapt(connection: Any) -> Caller:
    """Give a caller's connection one face."""
    if isinstance(connection, pymysql.Connection):
        return _Pymysql(connection)
    driver = getattr(getattr(connection, "dialect", None), "driver", None)
    if driver is None:
        raise Misconfigured(
            "a ledger cannot join an aiomysql.Connection yet: give a pymysql.Connection, "
            "also to an AsyncLedger"
        )
    if driver != "pymysql":
        raise Misconfigured(
            "a ledger joins SQLAlchemy connections to MariaDB through PyMySQL, and this one "
            f"uses {driver}: write mariadb+pymysql:// in the engine's URL"
        )
    return Alchemy(connection)


class JoinedStore(Blocking):
    """Entries on a caller's connection; every write waits for the caller's commit."""

    def __init__(self, caller: Caller) -> None:
        self._link = JoinedLink(caller)
        self._there = False
        super().__init__(MariaPlan(joined=True), self._link)

    def get(self, keys: Sequence[Key]) -> Sequence[Seen]:
        self._ready()
        return super().get(keys)

    def swap(self, changes: Sequence[Change]) -> Sequence[Reply]:
        self._ready()
        self._link.set_point(WRITE)
        try:
            return super().swap(changes)
        except OnefoldError as error:
            if str(error) != LOST:
                self._link.leave_point(WRITE, back=True)
            raise

    def scan(
        self, scope: str | None, states: Sequence[State], due: bool, after: str | None, limit: int
    ) -> tuple[Sequence[Found], str | None]:
        self._ready()
        return super().scan(scope, states, due, after, limit)

    def mark(self, name: str) -> None:
        """Set a point to go back to, if the effect fails."""
        self._ready()
        self._link.set_point(name)

    def go_back(self, name: str) -> None:
        """Undo everything since the point, the effect's own writes too."""
        self._link.leave_point(name, back=True)

    def keep(self, name: str) -> None:
        """Drop the point and keep what was done since."""
        self._link.leave_point(name, back=False)

    def _ready(self) -> None:
        """Have the tables there; no rollback takes them away again."""
        if self._there:
            return
        [[[inside, seconds]]] = self._link.execute_many([_SETTINGS])
        ports = Clients(self._link)
        if inside and not run(schema_version(), ports):
            raise Misconfigured(_UNMADE)
        run(prepare(not inside, NAME), ports)
        self._link.waiting = _WAITING.format(seconds)
        self._there = True
