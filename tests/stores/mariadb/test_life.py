"""A store beside real life: servers that die and return, forks, threads, event loops and cancellations."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import pytest

from onefold import AsyncLedger, Key, Ledger
from onefold.core.entry import Seen
from onefold.core.errors import Unreachable, Unsettled
from onefold.stores.mariadb import aconnect, connect
from onefold.stores.mariadb.plan import Statement
from onefold.stores.shells import Blocking
from tests.servers.fixtures import OwnServer, launched
from tests.servers.mariadb import connected
from tests.servers.server import Launched
from tests.stores.mariadb.ledgers import at, dialled
from tests.stores.words import inserts, token

pytestmark = pytest.mark.store("mariadb")

KEY = Key("life", 1)
WHO = Statement("SELECT CONNECTION_ID()")


@pytest.fixture
def server(own_server: OwnServer) -> Launched:
    server = launched(own_server, "mariadb")
    with connected(server.url) as cursor:
        cursor.execute("CREATE DATABASE life")
    return server


@pytest.fixture
def home(server: Launched) -> str:
    return at(server.url, path="/life")


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


def test_a_look_after_the_server_returned_is_answered_at_once(server, home, opened):
    store = opened(home)
    store.call(KEY)
    server.restart()

    assert store.get([KEY])[0].entry.state == "done"


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


def test_a_session_that_was_ended_by_an_operator_is_replaced(opened, mariadb_url, sql):
    store = opened(mariadb_url)
    store.call(KEY)
    [[number]] = store.ask(WHO.sql)
    sql(f"KILL {number}")

    assert store.call(Key("life", 2)) == "ran"


def test_a_look_that_an_operator_interrupts_is_told_and_the_next_one_is_answered(opened, mariadb_url, sql):
    store = opened(mariadb_url)
    [[number]] = store.ask(WHO.sql)
    store.ask("SET SESSION lock_wait_timeout = 60")
    with closing(dialled(mariadb_url)) as other, ThreadPoolExecutor(1) as pool:
        other.query("LOCK TABLES onefold_entries WRITE")
        waiting = pool.submit(store.swap, inserts([KEY]))
        until(lambda: sql(WAITING, number) == [(1,)])
        sql(f"KILL QUERY {number}")
        with pytest.raises(Unreachable, match=r"nothing was written: .*somebody interrupted it"):
            waiting.result()

    assert token(store.swap(inserts([KEY]))[0]) == "ann"


WAITING = (
    "SELECT COUNT(*) FROM information_schema.processlist WHERE id = %s AND state LIKE 'Waiting for table%%'"
)


# ----- processes, threads and loops


def in_a_child(work: Callable[[], bool]) -> bool:
    """Fork, do this in the child, and say whether it was right."""
    pid = os.fork()
    if pid == 0:
        try:
            os._exit(0 if work() else 1)
        except BaseException:
            os._exit(2)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_has_a_session_of_its_own_and_leaves_the_parents_alone(mariadb_url):
    with closing(connect(mariadb_url)) as store:
        mine = store.client.execute_many([WHO])

        def work() -> bool:
            own = store.client.execute_many([WHO])
            store.close()
            return bool(own != mine)

        differs = in_a_child(work)
        still = store.client.execute_many([WHO])

    assert differs
    assert still == mine


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_awaits_on_a_session_of_its_own(mariadb_url):
    store = aconnect(mariadb_url)

    async def main() -> tuple[bool, bool]:
        mine = await store.client.execute_many([WHO])

        def work() -> bool:
            return bool(asyncio.run(store.client.execute_many([WHO])) != mine)

        differs = await asyncio.to_thread(in_a_child, work)
        still = await store.client.execute_many([WHO])
        await store.close()
        return differs, bool(still == mine)

    assert asyncio.run(main()) == (True, True)


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_child_that_was_forked_while_the_parent_was_asking_is_not_stuck(mariadb_url):
    with closing(connect(mariadb_url)) as store:
        store.get([])

        with store.client._lock:  # as another thread of the parent would hold it
            asks = in_a_child(lambda: list(store.get([KEY])) == [Seen(None)])
            closes = in_a_child(lambda: closed(store))

    assert (asks, closes) == (True, True)


def closed(store: Blocking) -> bool:
    store.close()
    return True


def test_threads_share_one_session_and_one_of_them_wins(mariadb_url, sql):
    with closing(Ledger(mariadb_url)) as ledger:

        def work(worker: int) -> list[int]:
            return [n for n in range(20) if ledger.call(Key("life", n), lambda: worker).state == "ran"]

        with ThreadPoolExecutor(8) as pool:
            won = [n for mine in pool.map(work, range(8)) for n in mine]
        sessions = sql("SELECT COUNT(*) FROM information_schema.processlist WHERE db = DATABASE()")

    assert sorted(won) == list(range(20))
    assert sessions == [(2,)]  # and the one that asks this


def test_a_store_follows_from_one_event_loop_to_the_next(mariadb_url, sql):
    store = aconnect(mariadb_url)

    async def ask(token_of: str) -> str | None:
        return token((await store.swap(inserts([Key("life", token_of)])))[0])

    told = [asyncio.run(ask(name)) for name in ("one", "two", "three")]
    asyncio.run(store.close())
    until(lambda: sql("SELECT COUNT(*) FROM information_schema.processlist WHERE db = DATABASE()") == [(1,)])

    assert told == ["ann"] * 3


def until(holds: Callable[[], bool]) -> None:
    """Wait for a condition that must come; the time limit of the test ends it otherwise."""
    while not holds():
        os.sched_yield()


def test_a_cancelled_claim_leaves_a_ledger_that_can_be_used(mariadb_url, sql):
    async def main() -> tuple[str, str]:
        ledger = AsyncLedger(mariadb_url)
        await ledger.look(KEY)
        with closing(dialled(mariadb_url)) as other:
            other.query("LOCK TABLES onefold_entries WRITE")
            claiming = asyncio.create_task(_claimed(ledger))
            await asyncio.to_thread(until, lambda: sql(ANYBODY_WAITS) == [(1,)])
            claiming.cancel()
            other.query("UNLOCK TABLES")
            with pytest.raises(asyncio.CancelledError):
                await claiming
        first = await _claimed(ledger)
        entry = await ledger.look(KEY)
        await ledger.close()
        assert entry is not None
        return first, entry.state

    assert asyncio.run(main()) == ("won", "held")


ANYBODY_WAITS = (
    "SELECT COUNT(*) FROM information_schema.processlist "
    "WHERE db = DATABASE() AND state LIKE 'Waiting for table%'"
)


async def _claimed(ledger: AsyncLedger) -> str:
    return (await ledger.claim(KEY, effect="idempotent")).state
