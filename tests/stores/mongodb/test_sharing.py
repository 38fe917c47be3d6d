"""One handle for many: threads share a pool; a forked child and every event loop have their own."""

import asyncio
import gc
import os
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress

import pytest

from onefold import AsyncLedger, Ledger
from onefold.core.key import Key

pytest.importorskip("pymongo", reason="pymongo is not installed: it comes with the test servers")

from onefold.stores.mongodb import aconnect, connect
from tests.stores.mongodb.ledgers import NEW, claims, keys, stored, tokens
from tests.stores.sqlite.neighbours import FORKING, in_child, in_children

pytestmark = [pytest.mark.store("mongodb"), pytest.mark.filterwarnings(FORKING)]


@pytest.fixture
def store(mongodb_url):
    with closing(connect(mongodb_url)) as store:
        yield store


# ----- forks


def test_a_forked_child_does_not_talk_on_its_parents_connections(store):
    first = [stored(reply) for reply in store.swap(claims(keys(30)))]
    theirs = in_child(lambda: [seen.entry for seen in store.get(keys(30))])
    ours = [stored(seen) for seen in store.get(keys(30))]

    assert theirs == ours == first


def test_a_parent_and_its_children_claim_at_once_and_each_key_has_one_winner(store):
    store.get([NEW])
    names = keys(100)

    def claim_all() -> list[bytes]:
        mine = str(os.getpid())
        won = []
        for start in range(0, 100, 20):
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
    assert len(tokens(store.get(names))) == 100


def test_a_child_that_closes_leaves_the_parents_connections_alone(store):
    store.get([NEW])
    in_child(store.close)

    assert tokens(store.swap(claims([NEW]))) == ["ann"]


def test_a_child_of_a_parent_that_is_in_the_middle_of_a_call_does_not_wait_for_it(store):
    store.get([NEW])
    with store.client._lock:  # as if another thread were connecting at the moment of the fork
        assert in_child(lambda: tokens(store.swap(claims([NEW], "child")))) == ["child"]


# ----- threads


def test_of_many_who_make_the_collections_at_once_nobody_fails(mongodb_url):
    def first_use(number: int) -> list[str | None]:
        with closing(connect(mongodb_url)) as store:
            return tokens(store.swap(claims(keys(3, f"maker {number}"), f"t{number}")))

    with ThreadPoolExecutor(8) as pool:
        told = list(pool.map(first_use, range(8)))

    assert told == [[f"t{number}"] * 3 for number in range(8)]


def test_effects_in_many_threads_each_run_once(mongodb_url):
    ran: list[int] = []
    with closing(Ledger(mongodb_url)) as ledger:

        def deliver(number: int) -> str:
            return ledger.call(Key("orders", number % 50), lambda: ran.append(number % 50), wait=30).state

        with ThreadPoolExecutor(16) as pool:
            states = list(pool.map(deliver, range(200)))

    assert sorted(ran) == list(range(50))
    assert (states.count("ran"), states.count("done")) == (50, 150)


def test_a_race_for_one_new_key_has_one_winner_whatever_the_server_makes_of_it(mongodb_url):
    """Two upserts of one key can meet in the server; the one that it refuses is told who was first."""
    with closing(connect(mongodb_url)) as store, ThreadPoolExecutor(16) as pool:
        store.get([NEW])
        for name in keys(20, "raced"):
            told = list(
                pool.map(lambda token, name=name: store.swap(claims([name], token))[0], "abcdefghijklmnop")
            )
            assert len({stored(reply).token for reply in told}) == 1


# ----- event loops


def test_tasks_of_one_loop_share_one_store(mongodb_url):
    async def main() -> None:
        store = aconnect(mongodb_url)
        batches = [store.swap(claims(keys(10, f"task {number}"), f"t{number}")) for number in range(20)]
        told = await asyncio.gather(*batches)
        assert [set(tokens(replies)) for replies in told] == [{f"t{number}"} for number in range(20)]
        await store.close()

    asyncio.run(main())


def test_a_store_follows_to_the_next_event_loop(mongodb_url):
    store = aconnect(mongodb_url)

    async def claim(token: str) -> list[str | None]:
        told = tokens(await store.swap(claims([NEW], token)))
        await store.close()
        return told

    assert asyncio.run(claim("ann")) == asyncio.run(claim("bob")) == ["ann"]


@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
def test_even_if_it_was_not_closed_on_the_one_before(mongodb_url):
    store = aconnect(mongodb_url)

    async def claim(token: str) -> list[str | None]:
        return tokens(await store.swap(claims([NEW], token)))

    assert asyncio.run(claim("ann")) == asyncio.run(claim("bob")) == ["ann"]
    asyncio.run(store.close())
    gc.collect()  # while Python's warnings of what was left open are expected


def test_a_cancelled_call_leaves_a_store_that_answers_the_next_one_rightly(mongodb_url):
    async def main() -> None:
        store = aconnect(mongodb_url)
        await store.get([NEW])
        for number in range(20):
            call = asyncio.create_task(store.swap(claims(keys(10, f"turn {number}"))))
            for _ in range(number % 6):
                await asyncio.sleep(0)
            call.cancel()
            with suppress(asyncio.CancelledError):
                await call
            [seen] = await store.get([NEW])
            assert seen.entry is None
            assert set(tokens(await store.swap(claims(keys(10, f"turn {number}"))))) == {"ann"}
        await store.close()

    asyncio.run(main())


def test_an_async_ledger_runs_each_effect_once(mongodb_url):
    ran: list[int] = []

    async def main() -> list[str]:
        ledger = AsyncLedger(mongodb_url)

        async def deliver(number: int) -> str:
            async def effect() -> None:
                ran.append(number)

            return (await ledger.call(Key("orders", number), effect, wait=30)).state

        states = await asyncio.gather(*(deliver(number % 25) for number in range(100)))
        await ledger.close()
        return list(states)

    states = asyncio.run(main())
    assert sorted(ran) == list(range(25))
    assert (states.count("ran"), states.count("done")) == (25, 75)
