"""A store beside real life: servers that die and return, forks, threads, event loops and cancellations."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import psycopg
import pytest

from onefold import AsyncLedger, Key, Ledger, Terms
from onefold.core.entry import Seen
from onefold.core.errors import Unreachable, Unsettled
from onefold.stores.postgresql import aconnect, connect
from onefold.stores.shells import Blocking
from tests.servers.fixtures import OwnServer, launched
from tests.servers.server import Launched
from tests.stores.postgresql import ledgers
from tests.stores.postgresql.ledgers import option
from tests.stores.words import inserts, token

pytestmark = pytest.mark.store("postgresql")

KEY = Key("life", 1)
WAITING = "SELECT count(*) FROM pg_stat_activity WHERE application_name = %s AND wait_event_type = 'Lock'"


@pytest.fixture
def server(own_server: OwnServer) -> Launched:
    return launched(own_server, "postgresql")


# ----- the server dies


def test_a_store_recovers_by_itself_when_the_server_returns(server, opened):
    store = opened(server.url)
    before = [store.call(Key("life", n)) for n in range(5)]
    server.kill()
    with pytest.raises(Unreachable, match=r"cannot be reached|did not answer"):
        store.call(Key("life", "while it is down"))
    server.restart()

    assert before == ["ran"] * 5
    assert [store.call(Key("life", n)) for n in range(5)] == ["done"] * 5
    assert store.call(Key("life", "after")) == "ran"


def test_an_effect_during_which_the_server_died_and_returned_is_settled(server):
    with closing(Ledger(server.url)) as ledger:

        def effect() -> str:
            server.kill()
            server.restart()
            return "sent"

        outcome = ledger.call(KEY, effect)
        again = ledger.call(KEY, effect)

    assert (outcome.state, outcome.receipt) == ("ran", "sent")
    assert (again.state, again.receipt) == ("done", "sent")


def test_a_batch_that_cannot_be_settled_is_told_to_have_happened(server):
    with closing(Ledger(server.url)) as ledger:
        claims = ledger.claim_many([Key("life", n) for n in range(3)])
        server.kill()

        with pytest.raises(Unsettled) as raised:
            ledger.settle_many([(claim, "sent") for claim in claims])

    assert raised.value.ran == "yes"


def test_an_effect_whose_settling_is_refused_is_told_to_have_happened(postgresql_url, sql):
    with closing(Ledger(postgresql_url)) as ledger:

        def effect() -> str:
            sql("DROP TABLE onefold_entries CASCADE")
            return "sent"

        with pytest.raises(Unsettled) as raised:
            ledger.call(KEY, effect)

    assert (raised.value.ran, raised.value.receipt) == ("yes", "sent")


def test_a_session_that_was_ended_by_an_operator_is_replaced(opened, postgresql_url, sql):
    store = opened(f"{postgresql_url}&application_name=ended_by_hand")
    store.call(KEY)
    sql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'ended_by_hand'")

    assert store.call(Key("life", 2)) == "ran"


# ----- the session


def test_a_database_with_another_isolation_by_default_changes_nothing(opened, postgresql_url):
    store = opened(option(postgresql_url, default_transaction_isolation="serializable"))
    [[[level]]] = _ask(store, "SELECT current_setting('transaction_isolation')")

    assert level == "read committed"


def _ask(store, sql: str):
    if isinstance(store, ledgers.Awaited):
        return store._runner.run(store.store.client.execute_many([(sql, ())]))
    return store.store.client.execute_many([(sql, ())])


# ----- processes, threads and loops


@pytest.fixture
def sessions(sql) -> Callable[[str], int]:
    """Count the sessions of a name that are still open; those that were closed may take a moment to end."""

    def count(name: str) -> int:
        [[number]] = sql("SELECT count(*) FROM pg_stat_activity WHERE application_name = %s", name)
        return int(number)

    return count


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
def test_a_forked_child_has_a_session_of_its_own_and_leaves_the_parents_alone(postgresql_url):
    with closing(connect(postgresql_url)) as store:
        [[[mine]]] = store.client.execute_many([("SELECT pg_backend_pid()", ())])

        def work() -> bool:
            [[[own]]] = store.client.execute_many([("SELECT pg_backend_pid()", ())])
            store.close()
            return bool(own != mine)

        differs = in_a_child(work)
        [[[still]]] = store.client.execute_many([("SELECT pg_backend_pid()", ())])

    assert differs
    assert still == mine


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_child_that_was_forked_while_the_parent_was_asking_is_not_stuck(postgresql_url):
    with closing(connect(postgresql_url)) as store:
        store.get([])

        with store.client._lock:  # as another thread of the parent would hold it
            asks = in_a_child(lambda: list(store.get([KEY])) == [Seen(None)])
            closes = in_a_child(lambda: closed(store))

    assert (asks, closes) == (True, True)


def closed(store: Blocking) -> bool:
    store.close()
    return True


def test_threads_share_one_session_and_one_of_them_wins(postgresql_url, sessions):
    with closing(Ledger(f"{postgresql_url}&application_name=threads")) as ledger:

        def work(worker: int) -> list[int]:
            return [n for n in range(20) if ledger.call(Key("life", n), lambda: worker).state == "ran"]

        with ThreadPoolExecutor(8) as pool:
            won = [n for mine in pool.map(work, range(8)) for n in mine]
        open_sessions = sessions("threads")

    assert sorted(won) == list(range(20))
    assert open_sessions == 1


def test_a_store_follows_from_one_event_loop_to_the_next(postgresql_url, sessions):
    store = aconnect(f"{postgresql_url}&application_name=loops")

    async def ask(token_of: str) -> str | None:
        return token((await store.swap(inserts([Key("life", token_of)])))[0])

    told = [asyncio.run(ask(name)) for name in ("one", "two", "three")]
    asyncio.run(store.close())
    until(lambda: sessions("loops") == 0)

    assert told == ["ann"] * 3


def until(holds: Callable[[], bool]) -> None:
    """Wait for a condition that must come; the time limit of the test ends it otherwise."""
    while not holds():
        os.sched_yield()


def test_a_cancelled_claim_leaves_a_ledger_that_can_be_used(postgresql_url, sql, sessions):
    async def main() -> tuple[str, str]:
        ledger = AsyncLedger(f"{postgresql_url}&application_name=cancelled")
        await ledger.look(KEY)
        with closing(psycopg.connect(postgresql_url)) as other:
            other.execute("LOCK TABLE onefold_entries IN ACCESS EXCLUSIVE MODE")
            claiming = asyncio.create_task(_claimed(ledger))
            await asyncio.to_thread(until, lambda: sql(WAITING, "cancelled") == [(1,)])
            claiming.cancel()
            other.rollback()
            with pytest.raises(asyncio.CancelledError):
                await claiming
        first = await _claimed(ledger)
        entry = await ledger.look(KEY)
        await ledger.close()
        assert entry is not None
        return first, entry.state

    assert asyncio.run(main()) == ("won", "held")


async def _claimed(ledger: AsyncLedger) -> str:
    return (await ledger.claim(KEY, effect="idempotent")).state


def test_heartbeats_keep_a_claim_alive_by_the_servers_clock(postgresql_url):
    terms = Terms(lease=0.3)
    with closing(Ledger(postgresql_url)) as ledger, closing(Ledger(postgresql_url)) as rival:
        claim = ledger.claim(KEY, effect="idempotent", terms=terms)
        first = ledger.look(KEY)
        assert first is not None
        until(lambda: (now := ledger.look(KEY)) is not None and now.written > first.written + 2 * terms.lease)
        state = rival.claim(KEY, effect="idempotent", terms=terms).state
        claim.settle("done")

    assert state == "busy"
