"""A store beside real life: servers that die and return, forks, threads, event loops and cancellations."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import pytest

from onefold import AsyncLedger, Key, Ledger
from onefold.core.entry import Seen
from onefold.core.errors import Unreachable, Unsettled
from onefold.stores import aconnect, connect
from onefold.stores.shells import Blocking
from tests.launchers.fixtures import OwnServer, launched
from tests.launchers.server import Launched
from tests.processes.stores.sqlite.neighbours import FORKING, in_child
from tests.servers.stores.relational.databases import Database, ledgers
from tests.servers.stores.words import inserts, token
from tests.waiting import wait_for

KEY = Key("life", 1)


@pytest.fixture
def server(own_server: OwnServer, database: Database) -> Launched:
    return launched(own_server, database.name)


@pytest.fixture
def home(server: Launched, database: Database) -> str:
    return database.home(server)


# ----- the server dies


def test_a_store_recovers_by_itself_when_the_server_returns(server, home, opened):
    store = opened(home)
    before = [store.call(Key("life", n)) for n in range(5)]
    server.kill()
    with pytest.raises(Unreachable, match=r"cannot be reached|did not answer"):
        store.call(Key("life", "while it is down"))
    server.restart()

    assert before == ["ran"] * 5
    assert [store.call(Key("life", n)) for n in range(5)] == ["done"] * 5
    assert store.call(Key("life", "after")) == "ran"


def test_an_effect_during_which_the_server_died_and_returned_is_settled(server, home):
    with closing(Ledger(home)) as ledger:

        def effect() -> str:
            server.kill()
            server.restart()
            return "sent"

        outcome = ledger.call(KEY, effect)
        again = ledger.call(KEY, effect)

    assert (outcome.state, outcome.receipt) == ("ran", "sent")
    assert (again.state, again.receipt) == ("done", "sent")


def test_a_batch_that_cannot_be_settled_is_told_to_have_happened(server, home):
    with closing(Ledger(home)) as ledger:
        claims = ledger.claim_many([Key("life", n) for n in range(3)])
        server.kill()

        with pytest.raises(Unsettled) as raised:
            ledger.settle_many([(claim, "sent") for claim in claims])

    assert raised.value.ran == "yes"


def test_a_session_that_was_ended_by_an_operator_is_replaced(opened, database, url, sql):
    store = opened(url)
    store.call(KEY)
    [[number]] = store.ask(database.who)
    sql(database.end.format(number))

    assert store.call(Key("life", 2)) == "ran"


# ----- processes, threads and loops


@pytest.mark.filterwarnings(FORKING)
def test_a_forked_child_has_a_session_of_its_own_and_leaves_the_parents_alone(database, url):
    with closing(ledgers(database).Blocking(url)) as store:
        mine = store.ask(database.who)

        def work() -> object:
            own = store.ask(database.who)
            store.close()
            return own

        theirs = in_child(work)
        still = store.ask(database.who)

    assert theirs != mine
    assert still == mine


@pytest.mark.filterwarnings(FORKING)
def test_a_child_that_was_forked_while_the_parent_was_asking_is_not_stuck(url):
    with closing(connect(url)) as store:
        assert isinstance(store, Blocking)
        store.get([])

        with store.client._lock:  # as another thread of the parent would hold it
            asked = in_child(lambda: list(store.get([KEY])))
            in_child(store.close)

    assert asked == [Seen(None)]


def test_threads_share_one_session_and_one_of_them_wins(database, url, sql):
    with closing(Ledger(url)) as ledger:

        def work(worker: int) -> list[int]:
            return [n for n in range(20) if ledger.call(Key("life", n), lambda: worker).state == "ran"]

        with ThreadPoolExecutor(8) as pool:
            won = [n for mine in pool.map(work, range(8)) for n in mine]
        sessions = sql(database.sessions)

    assert sorted(won) == list(range(20))
    assert sessions == [(1,)]


def test_a_store_follows_from_one_event_loop_to_the_next(database, url, sql):
    store = aconnect(url)

    async def ask(token_of: str) -> str | None:
        return token((await store.swap(inserts([Key("life", token_of)])))[0])

    told = [asyncio.run(ask(name)) for name in ("one", "two", "three")]
    asyncio.run(store.close())
    wait_for(lambda: sql(database.sessions) == [(0,)])  # they may take a moment to end

    assert told == ["ann"] * 3


def test_a_cancelled_claim_leaves_a_ledger_that_can_be_used(database, url, sql, other):
    async def main() -> tuple[str, str]:
        ledger = AsyncLedger(url)
        await ledger.look(KEY)
        other.do(database.lock)
        claiming = asyncio.create_task(_claimed(ledger))
        await asyncio.to_thread(wait_for, lambda: sql(database.waiting) == [(1,)])
        claiming.cancel()
        other.do(database.unlock)
        with pytest.raises(asyncio.CancelledError):
            await claiming
        first = await _claimed(ledger)
        entry = await ledger.look(KEY)
        await ledger.close()
        assert entry is not None
        return first, entry.state

    first, state = asyncio.run(main())

    # A server may carry out what was sent to it after its caller was gone, and after the caller had looked.
    # Then the key is held until that lease ends. The ledger answers in any case.
    assert first in ("won", "busy")
    assert state == "held"


async def _claimed(ledger: AsyncLedger) -> str:
    return (await ledger.claim(KEY, effect="idempotent")).state
