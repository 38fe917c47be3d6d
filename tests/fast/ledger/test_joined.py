"""Joined: the mark and the effect commit together, or neither does; on real connections of three kinds."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import apsw
import pytest
import sqlalchemy

from onefold import AsyncLedger, Busy, Key, Ledger, Refused, Terms
from onefold.core.errors import Misconfigured, Rejected

pytestmark = pytest.mark.store("sqlite")
KEY = Key("joined", 1)


class Database:
    """A caller's own database: its connection, how it commits, and what stands in it afterwards."""

    def __init__(self, path: Path, connection: Any, execute: Callable[[str], Any], kind: str) -> None:
        self.path = path
        self.connection = connection
        self.execute = execute
        self.kind = kind

    def commit(self) -> None:
        self.execute("COMMIT") if self.kind == "apsw" else self.connection.commit()

    def rollback(self) -> None:
        self.execute("ROLLBACK") if self.kind == "apsw" else self.connection.rollback()

    def insert(self, value: int) -> str:
        self.execute(f"INSERT INTO flats VALUES ({value})")
        return f"flat {value}"

    def flats(self) -> list[int]:
        """Read what was committed, from outside."""
        with self.outside() as other:
            return [row[0] for row in other.execute("SELECT n FROM flats ORDER BY n").fetchall()]

    @contextmanager
    def outside(self) -> Iterator[Any]:
        """Open a second connection through the same copy of SQLite: two copies lose each other's locks."""
        other: Any = apsw.Connection(str(self.path)) if self.kind == "apsw" else sqlite3.connect(self.path)
        yield other
        other.close()


@pytest.fixture(params=["sqlite3", "apsw", "sqlalchemy"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Database]:
    path = tmp_path / "flats.db"
    first: Any = apsw.Connection(str(path)) if request.param == "apsw" else sqlite3.connect(path)
    first.execute("CREATE TABLE flats (n INTEGER)")
    first.close()
    if request.param == "sqlite3":
        connection: Any = sqlite3.connect(path, timeout=0.1)
        yield Database(path, connection, connection.execute, "sqlite3")
        connection.close()
    elif request.param == "apsw":
        connection = apsw.Connection(str(path))
        connection.set_busy_timeout(100)
        yield Database(path, connection, connection.execute, "apsw")
        connection.close()
    else:
        engine = sqlalchemy.create_engine(f"sqlite:///{path}", connect_args={"timeout": 0.1})
        with engine.connect() as connection:
            yield Database(path, connection, connection.exec_driver_sql, "sqlalchemy")
        engine.dispose()


def test_effect_and_mark_commit_together(database):
    ledger = Ledger.on(database.connection)

    outcome = ledger.call(KEY, lambda: database.insert(1))
    before = database.flats()
    database.commit()

    assert (outcome.state, before, database.flats()) == ("ran", [], [1])
    assert ledger.call(KEY, lambda: database.insert(1)).receipt == "flat 1"
    database.commit()
    assert database.flats() == [1]


def test_effect_and_mark_roll_back_together(database):
    ledger = Ledger.on(database.connection)
    ledger.call(KEY, lambda: database.insert(1))

    database.rollback()

    assert ledger.call(KEY, lambda: database.insert(1)).state == "ran"
    database.commit()
    assert database.flats() == [1]


def test_an_effect_that_fails_is_undone_and_its_attempt_is_counted(database):
    ledger = Ledger.on(database.connection)

    def fails() -> None:
        database.insert(2)
        raise Refused("not a flat")

    database.insert(1)
    with pytest.raises(Refused):
        ledger.call(KEY, fails)
    database.commit()
    entry = ledger.look(KEY)

    assert database.flats() == [1]
    assert entry is not None
    assert (entry.state, entry.attempt) == ("free", 1)


def test_a_joined_effect_whose_attempts_are_used_up_is_parked_as_failed(database):
    ledger = Ledger.on(database.connection)

    def fails() -> None:
        raise ValueError("broken row")

    with pytest.raises(ValueError, match="broken row"):
        ledger.call(KEY, fails, terms=Terms(attempts=1))
    database.commit()

    assert ledger.call(KEY, lambda: 1, terms=Terms(attempts=1)).state == "parked"


def test_a_joined_effect_that_is_rejected_is_rolled_back_and_parked_at_once(database):
    ledger = Ledger.on(database.connection)

    def rejects() -> None:
        database.insert(1)
        raise Rejected("no such city")

    with pytest.raises(Rejected):
        ledger.call(KEY, rejects)
    database.commit()

    entry = ledger.look(KEY)
    assert database.flats() == []
    assert entry is not None
    assert (entry.state, entry.why) == ("parked", "failed")


def test_a_competitor_waits_for_the_lock_and_then_hears_busy(database):
    ledger = Ledger.on(database.connection)
    with database.outside() as other:
        other.execute("BEGIN IMMEDIATE")
        busy = ledger.call(KEY, lambda: database.insert(1)).state
        with pytest.raises(Busy):
            ledger.protect("joined", key=lambda: 1)(lambda: database.insert(1))()
        other.execute("ROLLBACK")

    assert busy == "busy"
    assert ledger.call(KEY, lambda: database.insert(1)).state == "ran"


def test_a_block_on_a_connection_settles_with_the_callers_commit(database):
    ledger = Ledger.on(database.connection)
    with ledger.claim(KEY) as claim:
        database.insert(1)
        claim.settle("kept")
    with pytest.raises(ZeroDivisionError), ledger.claim(Key("joined", 2)):
        database.insert(2 // 0)
    with ledger.claim(KEY) as again:
        assert (again.state, again.receipt) == ("done", "kept")
    database.commit()

    assert database.flats() == [1]


def test_a_released_joined_claim_can_be_won_again(database):
    ledger = Ledger.on(database.connection)
    ledger.claim(KEY).release("not mine")
    database.commit()

    assert ledger.claim(KEY).won


def test_many_joined_claims_in_one_transaction(database):
    ledger = Ledger.on(database.connection)
    claims = ledger.claim_many([Key("joined", n) for n in range(1, 50)])
    for n in range(1, 50):
        database.insert(n)
    ledger.settle_many([(claim, None) for claim in claims])
    database.commit()

    assert len(database.flats()) == 49
    assert {one.state for one in ledger.claim_many([Key("joined", n) for n in range(1, 50)])} == {"done"}


def test_joined_works_awaited_too(database):
    async def main() -> list[str]:
        ledger = AsyncLedger.on(database.connection)

        async def effect() -> str:
            return str(database.insert(1))

        async def fails() -> None:
            database.insert(2)
            raise Refused("no")

        states: list[str] = [(await ledger.call(KEY, effect)).state, (await ledger.call(KEY, effect)).state]
        with pytest.raises(Refused):
            await ledger.call(Key("joined", 2), fails)
        await (await ledger.claim(Key("joined", 3))).release()
        return states

    assert asyncio.run(main()) == ["ran", "done"]
    database.commit()
    assert database.flats() == [1]


def test_an_awaited_competitor_hears_busy(database):
    async def main() -> str:
        return (await AsyncLedger.on(database.connection).claim(KEY)).state

    with database.outside() as other:
        other.execute("BEGIN IMMEDIATE")

        assert asyncio.run(main()) == "busy"
        other.execute("ROLLBACK")


def test_a_ledger_on_a_connection_takes_no_other_class_of_effect(database):
    with pytest.raises(Misconfigured, match="leave effect out"):
        Ledger.on(database.connection).call(KEY, lambda: 1, effect="keyed")


def test_a_foreign_connection_is_refused_with_what_would_do(tmp_path):
    with pytest.raises(Misconfigured, match="sqlite3, apsw or SQLAlchemy"):
        Ledger.on(object())
