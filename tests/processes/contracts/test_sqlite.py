"""SQLite keeps the contract where real time passes: threads that wait for its locks, and its own clock.

All other promises are kept in tests/fast/contracts.
"""

from pathlib import Path

import pytest

from onefold.core.ports import Store
from onefold.drive import Merged
from onefold.stores.sqlite import SqliteStore
from onefold.testing.contract import FakeClock, StoreContract, contract_tests
from tests.fast.contracts.test_stores import RACES


class TestSqlite(StoreContract):
    name = "sqlite"

    def open(self, folder: Path, clock: FakeClock) -> Store:
        return SqliteStore(folder / "ledger.db", clock=clock)

    reopen = open


class TestMergedSqlite(StoreContract):
    name = "sqlite"

    def open(self, folder: Path, clock: FakeClock) -> Store:
        return Merged(SqliteStore(folder / "ledger.db", clock=clock), clock)

    reopen = open


for _racing in (TestSqlite, TestMergedSqlite):
    for _other in set(contract_tests()).difference(RACES):
        setattr(_racing, _other, None)


@pytest.mark.slow
class TestSqliteByTheWallClock(StoreContract):
    """As a store with a clock of its own sees the contract: nobody can set it, and real time passes."""

    name = "sqlite"
    own_clock = True

    def open(self, folder: Path, clock: FakeClock) -> Store:
        return SqliteStore(folder / "ledger.db")

    reopen = open
