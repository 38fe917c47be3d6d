"""Entries in an SQLite file of Onefold's own, through the SQLite that `apsw` carries.

One connection per process, opened at first use and closed before a fork; several processes may share the
file. It must not open a file that another copy of SQLite in this process has open.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

import apsw

from onefold.core.entry import UNKNOWN, Change, Reply, Seen, State
from onefold.core.errors import Locked, Misconfigured, OnefoldError, Unreachable
from onefold.core.flow import Found
from onefold.core.key import Key
from onefold.drive.guard import Guard
from onefold.runtime import current, now
from onefold.runtime.locks import LockWait
from onefold.runtime.process import PROCESS
from onefold.stores.sql import migrations
from onefold.stores.sqlite import plan
from onefold.stores.sqlite.plan import Row

A = TypeVar("A")
T = TypeVar("T")

LOCK_TIMEOUT = 5.0
"""Seconds to wait for another process's write before giving up."""

CACHE = 16 * 1024
"""KiB of pages that a connection may keep, so that a large ledger seldom reads its index again."""


class Apsw:
    """An `apsw` connection."""

    def __init__(self, connection: apsw.Connection, identity: Identity | None = None) -> None:
        self.connection = connection
        self.identity = identity
        self._changes = connection.changes
        self._execute = self.do = connection.cursor().execute

    def rows(self, sql: str, bound: Sequence[Any] = ()) -> list[Row]:
        return self._execute(sql, bound).fetchall()

    def change(self, sql: str, bound: Sequence[Any]) -> bool:
        self._execute(sql, bound)
        return self._changes() > 0


class SqliteStore:
    """A ledger in one file. Opens it at first use, and anew after a fork.

    A relative path is resolved here, because a process may change its working directory later.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        create: bool = True,
        synchronous: str = "full",
        clock: Callable[[], float] = now,
        lock_timeout: float = LOCK_TIMEOUT,
    ) -> None:
        if synchronous not in ("full", "normal"):
            raise Misconfigured(f"synchronous is {synchronous!r}: write full (the default) or normal")
        if str(path) in ("", ":memory:") or "\0" in str(path):
            raise Misconfigured(f"{str(path)!r} names no file; a ledger in memory is memory:")
        self.path = _absolute(Path(path))
        self._create = create
        self._synchronous = synchronous
        self._clock = clock
        self._lock_timeout = lock_timeout
        self._forget()

    def _forget(self) -> None:
        self._process = PROCESS.number
        self._guard = Guard(rest=self._close)
        self._client: Apsw | None = None

    def get(self, keys: Sequence[Key]) -> Sequence[Seen]:
        return self._on_file(self._get, keys)

    def swap(self, changes: Sequence[Change]) -> Sequence[Reply]:
        return self._on_file(self._swap, changes)

    def _get(self, client: Apsw, keys: Sequence[Key]) -> Sequence[Seen]:
        self._check_identity(client)
        return plan.get(client, keys, self._clock())

    def _swap(self, client: Apsw, changes: Sequence[Change]) -> Sequence[Reply]:
        client.do("BEGIN IMMEDIATE")
        self._check_identity(client)  # after the lock was waited for: as late as possible
        replies = plan.swap(client, changes, self._clock())
        return replies if self._commit(client) else [UNKNOWN] * len(changes)

    def _check_identity(self, client: Apsw) -> None:
        """Refuse to work in a file that is not at its path any more: others would start a second ledger."""
        if _identity(self.path) != client.identity:
            raise Misconfigured(
                f"{self.path} was deleted or replaced while this process had it open; nothing was written: "
                "stop all processes that use it, put the original file back, then start them again"
            )

    def _commit(self, client: Apsw) -> bool:
        """Commit; False if nobody can tell whether it did."""
        try:
            client.do("COMMIT")
        except apsw.IOError:
            # A failed sync must not be repeated as if it could succeed: what the disk has is unknown.
            self._drop(client)
            return False
        return True

    def scan(
        self, scope: str | None, states: Sequence[State], due: bool, after: str | None, limit: int
    ) -> tuple[Sequence[Found], str | None]:
        def page(client: Apsw, now: float) -> tuple[Sequence[Found], str | None]:
            self._check_identity(client)
            return plan.scan(client, scope, states, now if due else float("inf"), after, limit, now)

        return self._on_file(page, self._clock())

    def close(self) -> None:
        if self._process != PROCESS.number:
            self._leave_parent()
        with self._guard:
            self._close()

    def _close(self) -> None:
        """Close the connection. A fork does so first: SQLite's own locks must not be carried into a child."""
        if self._client is not None:
            self._client.connection.close()
        self._client = None

    def query(self, sql: str) -> list[Row]:
        """Read something about the file itself, for `doctor`."""
        return self._on_file(Apsw.rows, sql)

    def _on_file(self, work: Callable[[Apsw, A], T], asked: A) -> T:
        """Do work on the connection, one thread at a time; SQLite's errors become ours.

        A transaction that the work did not end, by an error or an interrupt, is rolled back here, or else by
        the next call: a second interrupt may strike before the rollback.
        """
        if self._process != PROCESS.number:
            self._leave_parent()
        with self._guard:
            try:
                self._end_transaction()
                return work(self._client or self._open(), asked)
            except apsw.Error as error:
                raise _ours(error, str(self.path), self._lock_timeout) from error
            finally:
                self._end_transaction()

    def _end_transaction(self) -> None:
        client = self._client
        if client is not None and client.connection.in_transaction:
            _roll_back(client)

    def _leave_parent(self) -> None:
        """After a fork, do not touch the parent's connection and guard, if it could not close them first."""
        _INHERITED.append(self._client)
        self._forget()

    def _drop(self, client: Apsw) -> None:
        with suppress(apsw.Error):
            client.connection.close()
        self._client = None

    def _open(self) -> Apsw:
        try:
            _check_file(self.path, self._create, self._lock_timeout)
            if self._create and not self.path.exists():
                self._found()
        except OSError as error:
            raise Misconfigured(f"{self.path} cannot be opened: {error.strerror}") from error
        self._client = self._connect(self.path)
        return self._client

    def _found(self) -> None:
        """Make the file under another name and give it its own when it is whole.

        Who is killed while making it then leaves no empty file, which looks like a ledger that was lost.
        """
        draft = self.path.with_name(f".{self.path.name}.{current().token()[:16]}")
        try:
            _make_private(draft)
            self._connect(draft).connection.close()
            _give_name(draft, self.path)
        finally:
            for ending in ("", "-wal", "-shm"):
                Path(f"{draft}{ending}").unlink(missing_ok=True)

    def _connect(self, path: Path) -> Apsw:
        flags = apsw.SQLITE_OPEN_READWRITE | (apsw.SQLITE_OPEN_CREATE if self._create else 0)
        connection = apsw.Connection(str(path), flags=flags)
        try:
            connection.set_busy_handler(LockWait(self._lock_timeout))
            if self._create:
                # Lasts in the file: whoever only looks must not change it for its owner.
                connection.execute("PRAGMA journal_mode = WAL")
            connection.execute(f"PRAGMA synchronous = {self._synchronous}")
            connection.execute(f"PRAGMA cache_size = {-CACHE}")  # negative: in KiB instead of pages
            client = Apsw(connection, _identity(path))
            self._migrate(client)
        except BaseException:
            connection.close()
            raise
        return client

    def _migrate(self, client: Apsw) -> None:
        version = plan.schema_version(client)
        if version == len(migrations("sqlite")):
            return
        if version == 0 and not self._create:
            raise Misconfigured(
                f"{self.path} is an SQLite database without a ledger in it: give another path"
            )
        client.connection.execute("BEGIN IMMEDIATE")
        try:
            plan.migrate(client, str(self.path))
        except BaseException:
            _roll_back(client)
            raise
        client.connection.execute("COMMIT")


Identity = tuple[int, int]
"""The device and the inode of a file."""

_INHERITED: list[object] = []
"""Connections that came with a fork: closing one here could checkpoint under its owner, so they are kept."""


def _identity(path: Path) -> Identity | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _make_private(path: Path) -> None:
    # Entries hold receipts, which are not for other users. SQLite gives its log the mode of the file.
    os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))


def _give_name(draft: Path, path: Path) -> None:
    """Give a whole file its name, unless another process was first."""
    try:
        os.link(draft, path)
    except OSError:
        # Where files cannot have two names, the file is made in its place.
        with suppress(FileExistsError):
            _make_private(path)


def _absolute(path: Path) -> Path:
    try:
        return path.absolute()
    except FileNotFoundError:
        raise Misconfigured(
            f"{path} is relative to a working directory that was deleted: give an absolute path"
        ) from None


def _roll_back(client: Apsw) -> None:
    # Some errors, a full disk among them, have ended the transaction already; then they are the news.
    with suppress(apsw.Error):
        client.do("ROLLBACK")


def _check_file(path: Path, create: bool, patience: float) -> None:
    """Refuse a file that is missing, emptied or cut short, before SQLite takes it for a new one."""
    try:
        size = path.stat().st_size
    except FileNotFoundError:
        if create and path.parent.is_dir():
            return
        missing = f"{path} does not exist" if not create else f"the folder {path.parent} does not exist"
        raise Misconfigured(f"{missing}: there is no ledger to open") from None
    if size == 0:
        _wait_for_creator(path, patience)
        return
    with path.open("rb") as file:
        header = file.read(100)
    if not header.startswith(b"SQLite format 3\0"):
        raise Misconfigured(f"{path} is not an SQLite database: give another path, or move that file away")
    # A file is shorter than it says while its log is copied into it, and stays so if that is killed.
    # The log is removed last: so look for it first.
    if _size(Path(f"{path}-wal")):
        return
    size = path.stat().st_size
    pages, page = int.from_bytes(header[28:32], "big"), int.from_bytes(header[16:18], "big")
    if pages * (65536 if page == 1 else page) > size:
        raise Misconfigured(
            f"{path} is cut short: {size} bytes of a database of {pages} pages; restore it from a backup"
        )


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def _wait_for_creator(path: Path, patience: float) -> None:
    """Another process may be creating the file this very moment; an empty file that stays so is no ledger."""
    deadline = current().monotonic() + patience
    while path.stat().st_size == 0:
        if current().monotonic() > deadline:
            raise Misconfigured(
                f"{path} is empty (0 bytes), which a ledger never is: "
                "restore it from a backup, or delete it to start anew"
            )
        current().wait(0.01)


def _ours(error: apsw.Error, name: str, lock_timeout: float) -> OnefoldError:
    """Say in our words what SQLite said."""
    match error:
        case apsw.BusyError() | apsw.LockedError():
            return Locked(f"{name} was locked by another process for {lock_timeout:g} s; nothing was written")
        case apsw.FullError():
            return Unreachable(f"the disk that holds {name} is full; nothing was written")
        case apsw.ReadOnlyError():
            return Misconfigured(f"{name} cannot be written: the file or its folder is read-only")
        case apsw.CantOpenError():
            return Misconfigured(f"{name} cannot be opened: {error}")
        case apsw.NotADBError() | apsw.CorruptError():
            return Misconfigured(f"{name} is damaged ({error}): restore it from a backup")
        case _:
            return Unreachable(f"{name} did not answer: {error}")
