"""SQLite and memory, step by step through the same random history; and mistakes that this finds."""

from collections.abc import Callable
from pathlib import Path

import pytest

from onefold.core.ports import AsyncStore, Store
from onefold.drive import OneThread
from onefold.stores.sqlite import SqliteStore
from onefold.testing.clock import FakeClock
from onefold.testing.model import compare
from onefold.testing.wrong import Right, scans, times, writes


def sqlite(folder: Path, clock: FakeClock) -> Store:
    return SqliteStore(folder / "ledger.db", synchronous="normal", clock=clock)


def sqlite_awaited(folder: Path, clock: FakeClock) -> AsyncStore:
    return OneThread(SqliteStore(folder / "ledger.db", synchronous="normal", clock=clock))


@pytest.mark.store("sqlite")
@pytest.mark.parametrize("open", [sqlite, sqlite_awaited])
def test_sqlite_replies_as_memory_does(open):
    compare(open)


@pytest.mark.parametrize(
    "wrong",
    [
        writes.AcceptsTheFuture,
        writes.UpdateInserts,
        writes.EmptyIsNothing,
        times.KeepsOldTimes,
        times.IdleBelowNothing,
        times.HidesExpired,
        times.RemovesAnyVersion,
        scans.ScanSkipsTies,
        scans.ScanForgetsDone,
        scans.FoldsScopes,
        scans.TrimsSpaces,
    ],
)
def test_a_store_that_differs_is_found(wrong: Callable[[FakeClock], Store]):
    with pytest.raises(AssertionError):
        compare(lambda folder, clock: wrong(clock), shrink=False)


def test_a_right_store_is_no_different():
    compare(lambda folder, clock: Right(clock), examples=20)


def test_a_difference_is_shown_as_the_shortest_way_to_it():
    with pytest.raises(AssertionError) as raised:
        compare(lambda folder, clock: times.NoFence(clock))

    told = "\n".join(raised.value.__notes__)
    assert "state.fill(" in told
    assert "state.teardown()" in told
