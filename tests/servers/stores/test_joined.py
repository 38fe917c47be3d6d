"""Joined, through every library that can be: the mark and the caller's rows commit together.

Whatever the ledger could not do leaves the caller's transaction usable, with the caller's own settings.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial

import pytest

from onefold import AsyncLedger, Busy, Key, Ledger, Refused, Terms
from onefold.core.entry import Change, Entry
from onefold.core.errors import Locked, Misconfigured, Unreachable
from onefold.stores import connect, join
from tests.servers.stores.callers import SERVERS, WAITING, Caller, Site, Sql
from tests.servers.stores.relational.databases import DATABASES

KEY = Key("joined", 1)


@pytest.fixture(params=[pytest.param(name, marks=pytest.mark.store(SERVERS[name])) for name in SERVERS])
def site(request: pytest.FixtureRequest) -> Site:
    return Site(request.param, request.getfixturevalue(f"{SERVERS[request.param]}_url"))


@pytest.fixture
def sql(site: Site) -> Iterator[Sql]:
    """Ask the database around the ledger, which is there; every statement commits by itself."""
    with closing(connect(site.url)) as store:
        store.get([])
    with site.sql() as ask:
        ask("CREATE TABLE flats (n int)")
        yield ask


@pytest.fixture
def caller(site: Site, sql: Sql) -> Iterator[Caller]:
    with site.caller() as caller:
        yield caller


@pytest.fixture
def other(site: Site, sql: Sql) -> Iterator[Caller]:
    """Another worker's connection."""
    with site.caller() as caller:
        yield caller


@pytest.fixture
def flats(sql: Sql) -> Callable[[], list[int]]:
    """Read what was committed, from outside."""
    return lambda: [n for (n,) in sql("SELECT n FROM flats ORDER BY n")]


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


def test_effect_and_mark_roll_back_together(caller, flats):
    ledger = Ledger.on(caller.connection)
    ledger.call(KEY, lambda: caller.insert(1))

    caller.rollback()

    assert ledger.look(KEY) is None
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
    first = Ledger.on(other.connection)
    first.call(KEY, lambda: other.insert(7))
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


def test_a_competitor_finds_done_what_was_committed_while_it_waited(site, other, sql):
    first = Ledger.on(other.connection)
    first.call(KEY, lambda: "first")
    if site.library.startswith("sqlalchemy"):
        pytest.skip("its connection waits as its driver's does")
    with site.caller(patient=True) as caller:

        async def main() -> str:
            waiting = asyncio.create_task(
                asyncio.to_thread(Ledger.on(caller.connection).call, KEY, lambda: "second")
            )
            await asyncio.to_thread(_until_locked, sql, site.server)
            other.commit()
            return str((await waiting).receipt)

        assert asyncio.run(main()) == "first"


def _until_locked(sql: Sql, server: str) -> None:
    while sql(WAITING[server]) != [(1,)]:
        pass


def test_a_batch_that_meets_a_competitor_leaves_the_transaction_usable(caller, other, flats):
    first = Ledger.on(other.connection)
    first.call(Key("joined", 7), lambda: None)
    ledger = Ledger.on(caller.connection)
    caller.insert(1)

    with pytest.raises(Locked, match="another transaction holds what is asked for"):
        ledger.claim_many([Key("joined", n) for n in range(10)])
    caller.insert(2)
    caller.commit()

    assert flats() == [1, 2]
    assert ledger.look(Key("joined", 3)) is None


def test_a_failure_that_cannot_be_noted_still_raises_what_the_effect_raised(caller, other, flats):
    first = Ledger.on(other.connection)
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


# ----- what cannot be done


UNFIT = {"postgresql": ["a\0b", "\udcff"], "mariadb": ["\udcff"]}
"""Texts that a server cannot hold."""


@pytest.mark.parametrize(
    ("site", "text"),
    [
        pytest.param(library, text, marks=pytest.mark.store(server))
        for library, server in SERVERS.items()
        for text in UNFIT[server]
    ],
    indirect=["site"],
)
def test_a_text_that_cannot_be_stored_leaves_the_transaction_usable(caller, flats, text):
    store = join(caller.connection)
    caller.insert(1)

    with pytest.raises(Misconfigured):
        store.swap([Change(KEY, None, Entry("held", token="ann", source=text))])
    caller.insert(2)
    caller.commit()

    assert flats() == [1, 2]
    assert [seen.entry for seen in store.get([KEY])] == [None]


@pytest.fixture
def cut(site: Site, caller: Caller, sql: Sql) -> Callable[[], object]:
    """End the caller's session, as an operator would."""
    words = DATABASES[site.server]
    [number] = caller.do(words.who).fetchone()
    return partial(sql, words.end.format(number))


def test_a_connection_that_is_lost_takes_its_transaction_along(caller, sql, flats, cut):
    ledger = Ledger.on(caller.connection)

    def effect() -> None:
        caller.insert(1)
        cut()

    with pytest.raises(Exception, match=r"lost|not confirm|did not answer"):
        ledger.call(KEY, effect)

    assert flats() == []
    assert sql("SELECT count(*) FROM onefold_entries") == [(0,)]


def test_a_lost_connection_is_told_at_once_and_not_asked_again(caller, cut, caplog):
    store = join(caller.connection)
    store.get([KEY])
    cut()

    for _ in range(2):
        with pytest.raises(Unreachable, match="lost, and its transaction with it"):
            store.swap([Change(KEY, None, Entry("held", token="ann"))])
    assert caplog.messages == []
