"""One handle for many: threads share what it holds; a forked child and every event loop have their own.

One table for the stores whose clients are like this; what only one of them promises stands in its folder.
"""

import asyncio
import gc
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from functools import partial

import pytest

from onefold import AsyncLedger, Ledger
from onefold.core.entry import Change
from onefold.core.key import Key
from onefold.stores import aconnect, connect
from onefold.stores.shells import Blocking
from onefold.testing.contract.words import entry
from tests.processes.stores.sqlite.neighbours import FORKING, in_child, in_children
from tests.servers.stores.words import NEW, claims, keys, stored, tokens

pytestmark = pytest.mark.filterwarnings(FORKING)

CLIENTS = {"redis": "redis", "mongodb": "pymongo"}


@pytest.fixture(params=[pytest.param(name, marks=pytest.mark.store(name)) for name in CLIENTS])
def url(request: pytest.FixtureRequest) -> str:
    client = CLIENTS[request.param]
    pytest.importorskip(client, reason=f"{client} is not installed: it comes with the test servers")
    return str(request.getfixturevalue(f"{request.param}_url"))


@pytest.fixture
def store(url: str) -> Iterator[Blocking]:
    opened = connect(url)
    assert isinstance(opened, Blocking)
    with closing(opened):
        yield opened


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
    with store.client._lock:  # as if another thread were inside a call at the moment of the fork
        assert in_child(lambda: tokens(store.swap(claims([NEW], "child")))) == ["child"]


# ----- threads


def test_of_many_who_make_the_ledger_at_once_nobody_fails(url):
    def first_use(number: int) -> list[str | None]:
        with closing(connect(url)) as store:
            return tokens(store.swap(claims(keys(3, f"maker {number}"), f"t{number}")))

    with ThreadPoolExecutor(8) as pool:
        told = list(pool.map(first_use, range(8)))

    assert told == [[f"t{number}"] * 3 for number in range(8)]


def test_effects_in_many_threads_each_run_once(url):
    ran: list[int] = []
    with closing(Ledger(url)) as ledger:

        def deliver(number: int) -> str:
            return ledger.call(Key("orders", number % 50), lambda: ran.append(number % 50), wait=30).state

        with ThreadPoolExecutor(16) as pool:
            states = list(pool.map(deliver, range(200)))

    assert sorted(ran) == list(range(50))
    assert (states.count("ran"), states.count("done")) == (50, 150)


# ----- event loops


def test_tasks_of_one_loop_share_one_store(url):
    async def main() -> None:
        store = aconnect(url)
        batches = [store.swap(claims(keys(10, f"task {number}"), f"t{number}")) for number in range(20)]
        told = await asyncio.gather(*batches)
        assert [set(tokens(replies)) for replies in told] == [{f"t{number}"} for number in range(20)]
        await store.close()

    asyncio.run(main())


def test_a_store_follows_to_the_next_event_loop(url):
    store = aconnect(url)

    async def claim(token: str) -> list[str | None]:
        told = tokens(await store.swap(claims([NEW], token)))
        await store.close()
        return told

    assert asyncio.run(claim("ann")) == asyncio.run(claim("bob")) == ["ann"]


@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
def test_even_if_it_was_not_closed_on_the_one_before(url):
    store = aconnect(url)

    async def claim(token: str) -> list[str | None]:
        return tokens(await store.swap(claims([NEW], token)))

    assert asyncio.run(claim("ann")) == asyncio.run(claim("bob")) == ["ann"]
    asyncio.run(store.close())
    gc.collect()  # while Python's warnings of what was left open are expected


def test_a_cancelled_call_leaves_a_store_that_answers_the_next_one_rightly(url):
    async def main() -> None:
        store = aconnect(url)
        await store.get([NEW])
        for number in range(20):
            call = asyncio.create_task(store.swap(claims(keys(40, f"turn {number}"))))
            for _ in range(number % 6):
                await asyncio.sleep(0)
            call.cancel()
            with suppress(asyncio.CancelledError):
                await call
            [seen] = await store.get([NEW])
            assert seen.entry is None
            assert set(tokens(await store.swap(claims(keys(40, f"turn {number}"))))) == {"ann"}
        await store.close()

    asyncio.run(main())


def test_an_async_ledger_runs_each_effect_once(url):
    ran: list[int] = []

    async def main() -> list[str]:
        ledger = AsyncLedger(url)

        async def effect(number: int) -> None:
            ran.append(number)

        calls = [
            ledger.call(Key("orders", number % 25), partial(effect, number % 25), wait=30)
            for number in range(100)
        ]
        outcomes = await asyncio.gather(*calls)
        await ledger.close()
        return [outcome.state for outcome in outcomes]

    states = asyncio.run(main())
    assert sorted(ran) == list(range(25))
    assert (states.count("ran"), states.count("done")) == (25, 75)


# ----- leases by the server's clock


def test_a_lease_that_ran_out_is_taken_over_on_the_version_that_was_seen(store):
    held = stored(store.swap(claims([NEW], lease=0.001))[0])
    [seen] = store.get([NEW])
    while seen.idle < 0.001:
        [seen] = store.get([NEW])
    [taken] = store.swap([Change(NEW, held.version, entry("held", "bob"))])
    [late] = store.swap([Change(NEW, held.version, entry("done", "ann"))])

    assert stored(taken).token == stored(late).token == "bob"
