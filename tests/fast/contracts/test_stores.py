"""Every store that is built, in both colours, and what is put in front of stores: all keep one contract."""

import sqlite3
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import apsw
import pytest
import sqlalchemy

from onefold.core.ports import AsyncStore, Store
from onefold.drive import AsyncMerged, Inline, Merged, OneThread
from onefold.stores.memory import MemoryStore
from onefold.stores.sqlite import SqliteStore
from onefold.stores.sqlite.joined import JoinedStore, adapt
from onefold.testing.contract import FakeClock, StoreContract
from onefold.testing.flaky import AsyncFlaky, Flaky


class TestMemory(StoreContract):
    name = "memory"

    def open(self, folder: Path, clock: FakeClock) -> Store:
        self.store = MemoryStore(clock)
        return self.store

    def reopen(self, folder: Path, clock: FakeClock) -> Store:
        return self.store


class TestMemoryAwaited(StoreContract):
    name = "memory"

    def open(self, folder: Path, clock: FakeClock) -> AsyncStore:
        self.store = Inline(MemoryStore(clock))
        return self.store

    def reopen(self, folder: Path, clock: FakeClock) -> AsyncStore:
        return self.store


class TestSqlite(StoreContract):
    name = "sqlite"

    def open(self, folder: Path, clock: FakeClock) -> Store:
        return SqliteStore(folder / "ledger.db", clock=clock)

    reopen = open


class TestSqliteAwaited(StoreContract):
    name = "sqlite"

    def open(self, folder: Path, clock: FakeClock) -> AsyncStore:
        return OneThread(SqliteStore(folder / "ledger.db", clock=clock))

    reopen = open


# ----- inside a caller's transaction, which belongs to one thread and ends with its connection


class Joined(StoreContract):
    shared = False
    closing: ExitStack

    @pytest.fixture(autouse=True)
    def connections_are_closed(self) -> Iterator[None]:
        with ExitStack() as self.closing:
            yield


class TestJoinedToSqlite3(Joined):
    name = "sqlite"

    def open(self, folder: Path, clock: FakeClock) -> Store:
        connection = self.closing.enter_context(closing(sqlite3.connect(folder / "own.db")))
        return JoinedStore(adapt(connection), clock)


class TestJoinedToApsw(Joined):
    name = "sqlite"

    def open(self, folder: Path, clock: FakeClock) -> Store:
        connection = self.closing.enter_context(closing(apsw.Connection(str(folder / "own.db"))))
        return JoinedStore(adapt(connection), clock)


class TestJoinedToSqlalchemy(Joined):
    name = "sqlite"

    def open(self, folder: Path, clock: FakeClock) -> Store:
        engine = sqlalchemy.create_engine(f"sqlite:///{folder / 'own.db'}")
        self.closing.callback(engine.dispose)
        return JoinedStore(adapt(self.closing.enter_context(engine.connect())), clock)


# ----- what is put in front of a store


class TestMerged(StoreContract):
    name = "memory"

    def open(self, folder: Path, clock: FakeClock) -> Store:
        self.store = MemoryStore(clock)
        return self.reopen(folder, clock)

    def reopen(self, folder: Path, clock: FakeClock) -> Store:
        return Merged(self.store, clock)


class TestMergedAwaited(StoreContract):
    name = "memory"

    def open(self, folder: Path, clock: FakeClock) -> AsyncStore:
        self.store = MemoryStore(clock)
        return self.reopen(folder, clock)

    def reopen(self, folder: Path, clock: FakeClock) -> AsyncStore:
        return AsyncMerged(Inline(self.store), clock.awaited)


class TestMergedSqlite(StoreContract):
    name = "sqlite"

    def open(self, folder: Path, clock: FakeClock) -> Store:
        return Merged(SqliteStore(folder / "ledger.db", clock=clock), clock)

    reopen = open


RACES = ("test_of_handles_that_insert_at_once_one_wins", "test_of_handles_that_swap_at_once_one_wins")
"""Their threads wait for locks of a file in real time, if the store blocks: see tests/processes/contracts."""

for _blocking in (TestSqlite, TestMergedSqlite):
    for _race in RACES:
        setattr(_blocking, _race, None)


class TestMergedSqliteAwaited(StoreContract):
    name = "sqlite"

    def open(self, folder: Path, clock: FakeClock) -> AsyncStore:
        return AsyncMerged(OneThread(SqliteStore(folder / "ledger.db", clock=clock)), clock.awaited)

    reopen = open


class TestFlakyWithoutFaults(StoreContract):
    name = "memory"

    def open(self, folder: Path, clock: FakeClock) -> Store:
        self.store = MemoryStore(clock)
        return self.reopen(folder, clock)

    def reopen(self, folder: Path, clock: FakeClock) -> Store:
        return Flaky(self.store, clock=clock)


class TestFlakyWithoutFaultsAwaited(StoreContract):
    name = "memory"

    def open(self, folder: Path, clock: FakeClock) -> AsyncStore:
        self.store = MemoryStore(clock)
        return self.reopen(folder, clock)

    def reopen(self, folder: Path, clock: FakeClock) -> AsyncStore:
        return AsyncFlaky(Inline(self.store), clock=clock.awaited)
