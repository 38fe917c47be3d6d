"""One handle for many: threads share a connection; a forked child and every event loop have their own."""

import asyncio
import gc
import os
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from functools import partial

import pytest

from onefold import AsyncLedger, Ledger
from onefold.core.entry import Change, Seen
from onefold.core.key import Key
from onefold.testing.contract.words import entry

pytest.importorskip("redis", reason="redis is not installed: it comes with the test servers")

from onefold.stores.redis import aconnect, connect
from tests.stores.redis.ledgers import NEW, Server, claims, keys, stored, tokens
from tests.stores.sqlite.neighbours import FORKING, in_child, in_children

pytestmark = [pytest.mark.store("redis"), pytest.mark.filterwarnings(FORKING)]


@pytest.fixture
def store(redis_url):
    with closing(connect(redis_url)) as store:
        yield store


def connections(server) -> int:
    """Count who is connected to the database of whoever asks."""
    mine = int(server.client_info()["db"])
    return [int(client["db"]) for client in server.client_list()].count(mine)


# ----- forks


def test_a_forked_child_does_not_talk_on_its_parents_connection(store):
    first = [stored(reply) for reply in store.swap(claims(keys(30)))]
    theirs = in_child(lambda: [seen.entry for seen in store.get(keys(30))])
    ours = [stored(seen) for seen in store.get(keys(30))]

    assert theirs == ours == first


def test_a_parent_and_its_children_claim_at_once_and_each_key_has_one_winner(store):
    store.get([NEW])
    names = keys(200)

    def claim_all() -> list[bytes]:
        mine = str(os.getpid())
        won = []
        for start in range(0, 200, 20):
            changes = claims(names[start : start + 20], mine)
            replies = store.swap(changes)
            won += [
                change.key.id
                for change, reply in zip(changes, replies, strict=True)
                if stored(reply).token == mine
            ]
        return won

    won = in_children([claim_all] * 3)

    assert sorted(id for mine in won for id in mine) == [name.id for name in names]
    assert len(tokens(store.get(names))) == 200


def test_a_child_that_closes_leaves_the_parents_connection_alone(redis_url, store):
    store.get([NEW])
    with Server(redis_url) as server:
        before = server.client_list()
        in_child(store.close)
        assert [client["id"] for client in server.client_list()] == [client["id"] for client in before]
    assert tokens(store.swap(claims([NEW]))) == ["ann"]


def test_a_child_of_a_parent_that_is_in_the_middle_of_a_call_does_not_wait_for_it(store):
    store.get([NEW])
    with store.client._lock:  # as if another thread were inside a call at the moment of the fork
        assert in_child(lambda: tokens(store.swap(claims([NEW], "child")))) == ["child"]


# ----- threads


def test_threads_share_one_connection_and_each_hears_its_own_answer(redis_url, store):
    start = threading.Barrier(8)

    def work(number: int) -> bool:
        start.wait()
        mine = keys(25, f"thread {number}")
        told = [stored(reply) for _ in range(4) for reply in store.swap(claims(mine, f"t{number}"))]
        return {kept.token for kept in told} == {f"t{number}"} and told[:25] == told[75:]

    with Server(redis_url) as server:
        before = connections(server)
        with ThreadPoolExecutor(8) as pool:
            assert all(pool.map(work, range(8)))
        assert connections(server) == before + 1


def test_a_thousand_effects_in_many_threads_each_run_once(redis_url):
    ledger = Ledger(redis_url)
    ran: list[int] = []

    def deliver(number: int) -> str:
        return ledger.call(Key("orders", number % 250), lambda: ran.append(number % 250), wait=30).state

    with ThreadPoolExecutor(16) as pool:
        states = list(pool.map(deliver, range(1000)))

    assert sorted(ran) == list(range(250))
    assert (states.count("ran"), states.count("done")) == (250, 750)
    ledger.close()


# ----- event loops


def test_tasks_of_one_loop_share_one_connection(redis_url):
    async def main() -> None:
        store = aconnect(redis_url)
        with Server(redis_url) as server:
            before = connections(server)
            batches = [store.swap(claims(keys(10, f"task {number}"), f"t{number}")) for number in range(20)]
            told = await asyncio.gather(*batches)
            assert [set(tokens(replies)) for replies in told] == [{f"t{number}"} for number in range(20)]
            assert connections(server) == before + 1
        await store.close()

    asyncio.run(main())


def test_a_store_follows_to_the_next_event_loop(redis_url):
    store = aconnect(redis_url)

    async def claim(token: str) -> list[str | None]:
        told = tokens(await store.swap(claims([NEW], token)))
        await store.close()
        return told

    assert asyncio.run(claim("ann")) == asyncio.run(claim("bob")) == ["ann"]


@pytest.mark.filterwarnings(
    "ignore:unclosed:ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"
)
def test_even_if_it_was_not_closed_on_the_one_before(redis_url):
    store = aconnect(redis_url)

    async def claim(token: str) -> list[str | None]:
        return tokens(await store.swap(claims([NEW], token)))

    assert asyncio.run(claim("ann")) == asyncio.run(claim("bob")) == ["ann"]
    asyncio.run(store.close())
    gc.collect()  # while Python's warnings of what was left open are expected


def test_a_cancelled_call_leaves_a_store_that_answers_the_next_one_rightly(redis_url):
    async def main() -> None:
        store = aconnect(redis_url)
        await store.get([NEW])
        for number in range(30):
            call = asyncio.create_task(store.swap(claims(keys(40, f"turn {number}"))))
            for _ in range(number % 6):
                await asyncio.sleep(0)
            call.cancel()
            with suppress(asyncio.CancelledError):
                await call
            [seen] = await store.get([NEW])
            assert seen.entry is None
            assert set(tokens(await store.swap(claims(keys(40, f"turn {number}"), "ann")))) == {"ann"}
        await store.close()

    asyncio.run(main())


def test_an_async_ledger_runs_each_effect_once(redis_url):
    ran: list[int] = []

    async def main() -> list[str]:
        ledger = AsyncLedger(redis_url)

        async def effect(number: int) -> None:
            ran.append(number)

        calls = [
            ledger.call(Key("orders", number % 50), partial(effect, number % 50), wait=30)
            for number in range(200)
        ]
        outcomes = await asyncio.gather(*calls)
        await ledger.close()
        return [outcome.state for outcome in outcomes]

    states = asyncio.run(main())
    assert sorted(ran) == list(range(50))
    assert (states.count("ran"), states.count("done")) == (50, 150)


# ----- leases by the server's clock


def test_a_lease_that_ran_out_is_taken_over_on_the_version_that_was_seen(store):
    held = stored(store.swap(claims([NEW], lease=0.001))[0])
    [seen] = store.get([NEW])
    while isinstance(seen, Seen) and seen.idle < 0.001:
        [seen] = store.get([NEW])
    [taken] = store.swap([Change(NEW, held.version, entry("held", "bob"))])
    [late] = store.swap([Change(NEW, held.version, entry("done", "ann"))])

    assert stored(taken).token == stored(late).token == "bob"
