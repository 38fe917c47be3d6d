"""Tables of the user's own: reaching their database, and writing SQL that names them safely.

Sources read such tables and sinks write them; neither knows which database it is. Nothing here decides what
is read or written. Connections are sync; whoever uses them from an event loop does so in a thread.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from importlib import import_module
from typing import Any, Literal, Protocol
from urllib.parse import quote

from onefold.core.errors import Misconfigured, OnefoldError, Unreachable
from onefold.core.redaction import check_login, scrubbed
from onefold.core.terms import Seconds

Kind = Literal["sqlite", "postgresql", "mariadb"]
Row = tuple[Any, ...]

SCHEMES: dict[str, Kind] = {
    "sqlite": "sqlite",
    "postgresql": "postgresql",
    "postgres": "postgresql",
    "mariadb": "mariadb",
    "mysql": "mariadb",
}

CLOSING: Seconds = 1.0
"""How long closing waits for a call that is under way."""

PATIENCE: Seconds = 5.0
"""How long to wait for another's lock before giving up; then nothing was written."""


class Driver(Protocol):
    """One kind of database: how it is reached, and what its errors mean."""

    def connect(self, url: str, patience: Seconds) -> Any:
        """Open a connection that commits nothing by itself, and waits so long for another's lock."""

    def begin(self, connection: Any, write: bool) -> None:
        """Begin a transaction; one that writes takes its lock at once, where there is one for all."""

    def run(self, connection: Any, sql: str, args: Sequence[Any]) -> tuple[list[str], list[Row]]:
        """Run one statement with bound values (`?`); return the names of its columns, and its rows."""

    def run_many(self, connection: Any, sql: str, rows: Sequence[Sequence[Any]]) -> None:
        """Run one statement for each row of values."""

    def columns(self, connection: Any, table: str) -> dict[str, str]:
        """Return the columns of a table, with the types they were declared with; empty if there is none."""

    def index(self, connection: Any, table: str, name: str) -> list[str | None]:
        """Return the columns of an index, None for each that is no column; empty if there is no index."""

    def commit(self, connection: Any) -> None: ...

    def roll_back(self, connection: Any) -> None: ...

    def close(self, connection: Any) -> None: ...

    def translating(self) -> AbstractContextManager[None]:
        """Turn what says that the database is away or locked into ours; the rest stays the driver's own."""


class Database:
    """The user's database: one connection, one transaction at a time, opened at first use."""

    def __init__(self, url: str, patience: Seconds = PATIENCE) -> None:
        self.kind = kind_of(url)
        if self.kind != "sqlite":
            check_login(url, f"the {self.kind}:// URL of a table")
        self._url = absolute(url) if self.kind == "sqlite" else url
        self._patience = patience
        self._driver = _driver(self.kind)
        self._forget()

    def _forget(self) -> None:
        self._pid = os.getpid()
        self._lock = threading.Lock()
        self._connection: Any = None

    @contextmanager
    def transaction(self, write: bool = True) -> Iterator[Any]:
        """Give a connection inside a transaction: leaving normally commits, raising rolls back."""
        if self._pid != os.getpid():
            _INHERITED.append(self._connection)  # it is the parent's: closing it here would close it there
            self._forget()
        with self._lock:
            try:
                connection = self._begun(write)
                yield connection
                with self._driver.translating():
                    self._driver.commit(connection)
            except BaseException:
                self._undo()  # an interrupt may have come right after it was begun
                raise

    def _begun(self, write: bool) -> Any:
        with self._driver.translating():
            if self._connection is None:
                self._connection = self._connected()
            try:
                self._driver.begin(self._connection, write)
            except BaseException:
                self._drop()
                raise
            return self._connection

    def _connected(self) -> Any:
        try:
            return self._driver.connect(self._url, self._patience)
        except OnefoldError:
            raise
        except Exception as error:  # a URL that cannot be read, a password that is not taken, a server away
            words = scrubbed(str(error), self._url).strip().splitlines() or [type(error).__name__]
            raise Unreachable(f"the {self.kind} database was not reached: {words[0]:.200}") from None

    def _undo(self) -> None:
        try:
            if self._connection is not None:
                self._driver.roll_back(self._connection)
        except Exception:  # a connection that is lost has rolled back; the first error is the news
            self._drop()

    def _drop(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            self._driver.close(connection)

    def run(self, connection: Any, sql: str, args: Sequence[Any] = ()) -> tuple[list[str], list[Row]]:
        """Run one statement inside a transaction."""
        with self._driver.translating():
            return self._driver.run(connection, sql, args)

    def run_many(self, connection: Any, sql: str, rows: Sequence[Sequence[Any]]) -> None:
        """Run one statement for each row of values, inside a transaction."""
        with self._driver.translating():
            self._driver.run_many(connection, sql, rows)

    def columns(self, connection: Any, table: str) -> dict[str, str]:
        """Return the columns of a table with their types; raise if there is no such table."""
        with self._driver.translating():
            found = self._driver.columns(connection, table)
        if not found:
            raise Misconfigured(f"there is no table {table} in this {self.kind} database: check its name")
        return found

    def index(self, connection: Any, table: str, name: str) -> list[str | None]:
        """Return the columns of an index, None for each that is no column; empty if there is no index."""
        with self._driver.translating():
            return self._driver.index(connection, table, name)

    def close(self) -> None:
        """Let go of the connection. A call that hangs keeps it, and nobody waits for that."""
        if not self._lock.acquire(timeout=CLOSING):
            return
        try:
            self._drop()
        finally:
            self._lock.release()


_INHERITED: list[object] = []
"""Connections that came with a fork: they are kept, so that nobody closes them."""


def kind_of(url: str) -> Kind:
    """Say which kind of database a URL names."""
    scheme = url.partition(":")[0].partition("+")[0]
    if scheme not in SCHEMES:
        # Only what looks like a scheme is quoted: the rest may begin with a user and a password.
        quoted = repr(scheme) if "://" in url and scheme.isalnum() and len(scheme) <= 20 else "the URL"
        raise Misconfigured(
            f"{quoted} names no database whose tables can be used: "
            "write sqlite:///file.db, postgresql://… or mariadb://…"
        )
    return SCHEMES[scheme]


def absolute(url: str) -> str:
    """Name a relative file of SQLite by its whole path: the process may change its folder later."""
    rest = url.removeprefix("sqlite:///")
    if rest == url or rest.startswith(("/", "?", ":memory:")) or not rest:
        return url
    return f"sqlite:///{quote(os.getcwd())}/{rest}"


def _driver(kind: Kind) -> Driver:
    try:
        driver: Driver = import_module(f"onefold.tables.{kind}").DRIVER
    except ImportError as error:
        raise Misconfigured(
            f'tables in {kind} need {error.name}, which is not installed: pip install "onefold[{kind}]"'
        ) from error
    return driver
