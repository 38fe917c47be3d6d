"""Joined on PostgreSQL, through psycopg and SQLAlchemy: the mark and the caller's rows commit together.

Whatever the ledger could not do leaves the caller's transaction usable, with the caller's own settings.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from typing import Any

import psycopg
import pytest
import sqlalchemy
from psycopg.rows import dict_row

from onefold import AsyncLedger, Busy, Key, Ledger, Refused, Terms
from onefold.core.entry import Change, Entry
from onefold.core.errors import Locked, Misconfigured, Unreachable
from onefold.stores import join
from tests.stores.postgresql.ledgers import option

pytestmark = pytest.mark.store("postgresql")

KEY = Key("joined", 1)


class Caller:
    """A caller's own connection: how it does things, and commits."""

    def __init__(self, connection: Any, do: Callable[[str], Any]) -> None:
        self.connection = connection
        self.do = do

    def commit(self) -> None:
        self.connection.commit()

    def rollback(self) -> None:
        self.connection.rollback()

    def insert(self, number: int) -> str:
        self.do(f"INSERT INTO flats VALUES ({number})")
        return f"flat {number}"

    def setting(self, name: str) -> str:
        [value] = self.do(f"SHOW {name}").fetchone()
        return str(value)


@pytest.fixture(params=["psycopg", "sqlalchemy"])
def caller(request: pytest.FixtureRequest, postgresql_url: str, sql) -> Iterator[Caller]:
    """Lend a connection that waits for locks only for a moment."""
    sql("CREATE TABLE flats (n int)")
    url = option(postgresql_url, lock_timeout="60ms")
    with ExitStack() as stack:
        if request.param == "psycopg":
            connection: Any = stack.enter_context(closing(psycopg.connect(url)))
            yield Caller(connection, connection.execute)
        else:
            engine = sqlalchemy.create_engine(url.replace("postgresql:", "postgresql+psycopg:"))
            stack.callback(engine.dispose)
            connection = stack.enter_context(engine.connect())
            yield Caller(connection, connection.exec_driver_sql)


@pytest.fixture
def flats(sql) -> Callable[[], list[int]]:
    """Read what was committed, from outside."""
    return lambda: [n for (n,) in sql("SELECT n FROM flats ORDER BY n")]


@pytest.fixture
def other(postgresql_url: str) -> Iterator[psycopg.Connection]:
    """Another worker's connection."""
    with closing(psycopg.connect(option(postgresql_url, lock_timeout="60ms"))) as connection:
        yield connection


# ----- together


def test_effect_and_mark_commit_together(caller, flats):
    ledger = Ledger.on(caller.connection)

    outcome = ledger.call(KEY, lambda: caller.insert(1))
    before = flats()
    caller.commit()

    assert (outcome.state, before, flats()) == ("ran", [], [1])
    assert ledger.call(KEY, lambda: caller.insert(1)).receipt == "flat 1"
    caller.commit()
    assert flats() == [1]


def test_effect_and_mark_roll_back_together_and_so_do_the_tables(caller, flats, sql):
    ledger = Ledger.on(caller.connection)
    ledger.call(KEY, lambda: caller.insert(1))

    caller.rollback()

    assert sql("SELECT to_regclass('onefold_entries')") == [(None,)]
    assert ledger.call(KEY, lambda: caller.insert(1)).state == "ran"
    caller.commit()
    assert flats() == [1]


def test_a_ledger_that_only_wrote_its_mark_commits_with_the_caller(caller, sql):
    with Ledger.on(caller.connection).claim(KEY):
        pass

    caller.commit()

    assert sql("SELECT state FROM onefold_entries") == [("done",)]


def test_an_effect_that_fails_is_undone_and_its_attempt_is_counted(caller, flats):
    ledger = Ledger.on(caller.connection)

    def fails() -> None:
        caller.insert(2)
        raise Refused("not a flat")

    caller.insert(1)
    with pytest.raises(Refused):
        ledger.call(KEY, fails)
    caller.commit()
    entry = ledger.look(KEY)

    assert flats() == [1]
    assert entry is not None
    assert (entry.state, entry.attempt) == ("free", 1)


def test_an_effect_whose_statement_fails_is_undone_and_the_rest_of_the_transaction_lives(caller, flats):
    ledger = Ledger.on(caller.connection)
    caller.insert(1)

    with pytest.raises(Exception, match="no_such_table"):
        ledger.call(KEY, lambda: caller.do("INSERT INTO no_such_table VALUES (1)"))
    caller.insert(2)
    caller.commit()

    assert flats() == [1, 2]
    assert [entry.attempt for _, entry in ledger.entries("joined", "free")] == [1]


def test_a_joined_effect_whose_attempts_are_used_up_is_parked_as_failed(caller):
    ledger = Ledger.on(caller.connection)

    def fails() -> None:
        raise ValueError("broken row")

    with pytest.raises(ValueError, match="broken row"):
        ledger.call(KEY, fails, terms=Terms(attempts=1))
    caller.commit()

    assert ledger.call(KEY, lambda: 1, terms=Terms(attempts=1)).state == "parked"


def test_many_joined_claims_in_one_transaction(caller, flats):
    ledger = Ledger.on(caller.connection)
    claims = ledger.claim_many([Key("joined", n) for n in range(50)])
    for n in range(50):
        caller.insert(n)
    ledger.settle_many([(claim, None) for claim in claims])
    caller.commit()

    assert len(flats()) == 50
    assert {one.state for one in ledger.claim_many([Key("joined", n) for n in range(50)])} == {"done"}


def test_joined_works_awaited_too(caller, flats):
    async def main() -> list[str]:
        ledger = AsyncLedger.on(caller.connection)

        async def effect() -> str:
            return str(caller.insert(1))

        async def fails() -> None:
            caller.insert(2)
            raise Refused("no")

        states: list[str] = [(await ledger.call(KEY, effect)).state, (await ledger.call(KEY, effect)).state]
        with pytest.raises(Refused):
            await ledger.call(Key("joined", 2), fails)
        await (await ledger.claim(Key("joined", 3))).release()
        return states

    assert asyncio.run(main()) == ["ran", "done"]
    caller.commit()
    assert flats() == [1]


# ----- competitors


def test_a_competitor_waits_for_the_row_and_then_hears_busy(caller, other, flats):
    first = Ledger.on(other)
    first.call(Key("joined", "tables"), lambda: None)
    other.commit()
    first.call(KEY, lambda: other.execute("INSERT INTO flats VALUES (7)") and None)
    ledger = Ledger.on(caller.connection)
    caller.insert(1)

    outcome = ledger.call(KEY, lambda: caller.insert(2))
    with pytest.raises(Busy):
        ledger.protect("joined", key=lambda: 1)(lambda: caller.insert(2))()
    other.rollback()

    assert outcome.state == "busy"
    assert ledger.call(KEY, lambda: caller.insert(3)).state == "ran"
    caller.commit()
    assert flats() == [1, 3]


def test_a_competitor_finds_done_what_was_committed_while_it_waited(postgresql_url, other, sql):
    first = Ledger.on(other)
    first.call(Key("joined", "tables"), lambda: None)
    other.commit()
    first.call(KEY, lambda: "first")
    with closing(psycopg.connect(f"{postgresql_url}&application_name=waits")) as connection:

        async def main() -> str:
            waiting = asyncio.create_task(
                asyncio.to_thread(Ledger.on(connection).call, KEY, lambda: "second")
            )
            await asyncio.to_thread(_until_locked, sql)
            other.commit()
            return str((await waiting).receipt)

        assert asyncio.run(main()) == "first"


def _until_locked(sql) -> None:
    waiting = (
        "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'waits' AND wait_event_type = 'Lock'"
    )
    while sql(waiting) != [(1,)]:
        pass


def test_a_batch_that_meets_a_competitor_leaves_the_transaction_usable(caller, other, flats):
    first = Ledger.on(other)
    first.call(Key("joined", "tables"), lambda: None)
    other.commit()
    first.call(Key("joined", 7), lambda: None)
    ledger = Ledger.on(caller.connection)
    caller.insert(1)

    with pytest.raises(Locked, match="another transaction holds what is asked for"):
        ledger.claim_many([Key("joined", n) for n in range(10)])
    caller.insert(2)
    caller.commit()

    assert flats() == [1, 2]
    assert ledger.look(Key("joined", 3)) is None


def test_two_callers_who_make_the_tables_at_once_do_not_fail(caller, other, flats):
    Ledger.on(other).call(Key("joined", "tables"), lambda: None)
    ledger = Ledger.on(caller.connection)
    caller.insert(1)

    busy = ledger.call(KEY, lambda: caller.insert(2)).state
    other.commit()

    assert busy == "busy"
    assert ledger.call(KEY, lambda: caller.insert(3)).state == "ran"
    caller.commit()
    assert flats() == [1, 3]


def test_a_failure_that_cannot_be_noted_still_raises_what_the_effect_raised(caller, other, flats):
    first = Ledger.on(other)
    first.call(Key("joined", "tables"), lambda: None)
    other.commit()
    ledger = Ledger.on(caller.connection)
    caller.insert(1)

    def fails_while_a_competitor_waits() -> None:
        caller.do("ROLLBACK TO SAVEPOINT before_the_mark")
        first.call(KEY, lambda: None)
        raise ValueError("broken row")

    caller.do("SAVEPOINT before_the_mark")
    with pytest.raises(ValueError, match="broken row") as raised:
        ledger.call(KEY, fails_while_a_competitor_waits)
    caller.rollback()

    assert any("onefold" in note for note in raised.value.__notes__)
    assert flats() == []


# ----- the caller's own ways


def test_the_callers_rows_keep_their_shape_and_the_ledger_its_own(postgresql_url):
    with closing(psycopg.connect(postgresql_url, row_factory=dict_row)) as connection:
        ledger = Ledger.on(connection)
        states = [ledger.call(KEY, lambda: "kept").state, ledger.call(KEY, lambda: "kept").receipt]
        found = [key.label for key, _ in ledger.entries("joined", "done")]
        row = connection.execute("SELECT 1 AS one").fetchone()
        connection.commit()

    assert (states, found, row) == (["ran", "kept"], ["1"], {"one": 1})


def test_the_callers_lock_timeout_is_its_own_again_afterwards(postgresql_url, sql):
    sql("CREATE TABLE flats (n int)")
    with closing(psycopg.connect(postgresql_url)) as connection:
        caller = Caller(connection, connection.execute)
        ledger = Ledger.on(connection)
        seen: list[str] = []

        def effect() -> None:
            seen.append(caller.setting("lock_timeout"))

        before = caller.setting("lock_timeout")
        ledger.call(KEY, effect)
        with pytest.raises(ZeroDivisionError):
            ledger.call(Key("joined", 2), lambda: 1 // 0)
        seen.append(caller.setting("lock_timeout"))
        connection.rollback()

    assert (before, seen) == ("0", ["0", "0"])


def test_a_connection_in_autocommit_mode_is_refused_outside_of_a_transaction(postgresql_url, sql):
    with closing(psycopg.connect(postgresql_url, autocommit=True)) as connection:
        ledger = Ledger.on(connection)
        with pytest.raises(
            Misconfigured, match="autocommit mode outside of one: turn it off, or call inside"
        ):
            ledger.call(KEY, lambda: None)
        with connection.transaction():
            inside = ledger.call(KEY, lambda: "kept").state

    assert inside == "ran"
    assert sql("SELECT state FROM onefold_entries") == [("done",)]


def test_a_transaction_that_failed_before_is_refused_with_what_to_do(caller):
    ledger = Ledger.on(caller.connection)
    with pytest.raises(Exception, match="no_such_table"):
        caller.do("SELECT * FROM no_such_table")

    with pytest.raises(Misconfigured, match="has failed before: roll it back, then ask again"):
        ledger.call(KEY, lambda: None)

    caller.rollback()
    assert ledger.call(KEY, lambda: None).state == "ran"


def test_a_connection_that_is_lost_takes_its_transaction_along(caller, sql, flats):
    ledger = Ledger.on(caller.connection)
    ledger.call(Key("joined", "tables"), lambda: None)
    caller.commit()
    [pid] = caller.do("SELECT pg_backend_pid()").fetchone()

    def effect() -> None:
        caller.insert(1)
        sql("SELECT pg_terminate_backend(%s, 5000)", pid)

    with pytest.raises(Exception, match=r"lost|not confirm|did not answer"):
        ledger.call(KEY, effect)

    assert flats() == []
    assert sql("SELECT count(*) FROM onefold_entries WHERE label = '1'") == [(0,)]


def test_a_lost_connection_is_told_at_once_and_not_asked_again(caller, sql, caplog):
    store = join(caller.connection)
    store.get([KEY])
    [pid] = caller.do("SELECT pg_backend_pid()").fetchone()
    sql("SELECT pg_terminate_backend(%s, 5000)", pid)

    with pytest.raises(Unreachable, match="lost, and its transaction with it"):
        store.swap([Change(KEY, None, Entry("held", token="ann"))])
    assert caplog.messages == []


@pytest.mark.parametrize("text", ["a\0b", "\udcff"])
def test_a_text_that_cannot_be_stored_leaves_the_transaction_usable(caller, flats, text):
    store = join(caller.connection)
    caller.insert(1)

    with pytest.raises(Misconfigured):
        store.swap([Change(KEY, None, Entry("held", token="ann", source=text))])
    caller.insert(2)
    caller.commit()

    assert flats() == [1, 2]
    assert [seen.entry for seen in store.get([KEY])] == [None]


def test_a_ledger_joins_inside_the_callers_own_savepoints(postgresql_url, sql):
    sql("CREATE TABLE flats (n int)")
    with closing(psycopg.connect(postgresql_url)) as connection:
        ledger = Ledger.on(connection)
        with connection.transaction():
            ledger.call(Key("joined", 1), lambda: None)
            with connection.transaction(force_rollback=True):
                ledger.call(Key("joined", 2), lambda: None)
            ledger.call(Key("joined", 3), lambda: None)

    assert sql("SELECT label FROM onefold_entries ORDER BY label") == [("1",), ("3",)]


@pytest.mark.parametrize("driver", ["psycopg2", "asyncpg"])
def test_other_drivers_of_sqlalchemy_are_refused_with_what_would_do(driver):
    class Dialect:
        name = "postgresql"

    Dialect.driver = driver  # type: ignore[attr-defined]

    class Connection(sqlalchemy.engine.Connection):
        def __init__(self) -> None:
            self.dialect = Dialect()  # type: ignore[assignment]

    with pytest.raises(Misconfigured, match=rf"uses {driver}: write postgresql\+psycopg://"):
        Ledger.on(Connection())


def test_an_awaited_connection_is_refused_with_what_would_do(postgresql_url):
    async def main() -> None:
        async with await psycopg.AsyncConnection.connect(postgresql_url) as connection:
            with pytest.raises(Misconfigured, match=r"give a psycopg.Connection, also to an AsyncLedger"):
                AsyncLedger.on(connection)

    asyncio.run(main())


def test_a_connection_of_the_callers_own_class_is_joined(postgresql_url):
    class Own(psycopg.Connection[Any]):
        """A connection of somebody's framework."""

    with closing(Own.connect(postgresql_url)) as connection:
        assert Ledger.on(connection).call(KEY, lambda: None).state == "ran"
        connection.rollback()
