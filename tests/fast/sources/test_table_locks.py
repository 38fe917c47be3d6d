"""Locks on tables in an SQLite file: waited for by the runtime's clock, and not for ever."""

from __future__ import annotations

from pathlib import Path

import apsw
import pytest

from onefold.core.errors import Locked
from onefold.runtime import Runtime, using
from onefold.tables import Database


class Clocked(Runtime):
    """A runtime whose time passes only when something waits; after some waits a lock is given up."""

    def __init__(self, holder: apsw.Connection, after: int | None = None) -> None:
        super().__init__()
        self.now = 0.0
        self.waits = 0
        self._holder = holder
        self._after = after

    def monotonic(self) -> float:
        return self.now

    def wait(self, seconds: float) -> None:
        self.now += seconds
        self.waits += 1
        if self.waits == self._after:
            self._holder.execute("COMMIT")


@pytest.fixture
def holder(tmp_path: Path) -> apsw.Connection:
    """Another connection, which holds the lock of the file."""
    connection = apsw.Connection(str(tmp_path / "rows.db"))
    connection.execute("CREATE TABLE things (name TEXT)")
    connection.execute("BEGIN IMMEDIATE")
    return connection


def written(tmp_path: Path, runtime: Runtime, options: str = "") -> Database:
    database = Database(f"sqlite:///{tmp_path / 'rows.db'}{options}", patience=5.0)
    with using(runtime), database.transaction() as connection:
        database.run(connection, "INSERT INTO things VALUES ('a')")
    return database


def test_a_lock_that_is_given_up_in_time_is_waited_for_by_the_clock_of_the_runtime(tmp_path, holder):
    runtime = Clocked(holder, after=3)

    written(tmp_path, runtime)

    assert runtime.waits == 3
    assert holder.execute("SELECT name FROM things").fetchall() == [("a",)]


def test_a_lock_that_is_held_for_longer_is_given_up_and_nothing_is_written(tmp_path, holder):
    runtime = Clocked(holder)

    with pytest.raises(Locked):
        written(tmp_path, runtime)

    assert runtime.now == pytest.approx(5.0, abs=0.01)
    holder.execute("COMMIT")
    assert holder.execute("SELECT name FROM things").fetchall() == []


@pytest.mark.parametrize(
    ("options", "level"), [("", 2), ("?synchronous=normal", 1), ("?synchronous=full", 2)]
)
def test_a_table_is_synced_as_its_url_says(tmp_path, holder, options, level):
    holder.execute("COMMIT")
    database = written(tmp_path, Runtime(), options)

    with database.transaction(write=False) as connection:
        assert database.run(connection, "PRAGMA synchronous")[1] == [(level,)]
