"""One handle for many is one connection: of all threads, and of all tasks of an event loop."""

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import pytest

pytest.importorskip("redis", reason="redis is not installed: it comes with the test servers")

from onefold.stores.redis import aconnect, connect
from tests.processes.stores.sqlite.neighbours import FORKING, in_child
from tests.servers.stores.redis.ledgers import Server
from tests.servers.stores.words import NEW, claims, keys, stored, tokens

pytestmark = [pytest.mark.store("redis"), pytest.mark.filterwarnings(FORKING)]


@pytest.fixture
def store(redis_url):
    with closing(connect(redis_url)) as store:
        yield store


def connections(server) -> int:
    """Count who is connected to the database of whoever asks."""
    mine = int(server.client_info()["db"])
    return [int(client["db"]) for client in server.client_list()].count(mine)


def test_a_child_that_closes_leaves_the_parents_connection_alone(redis_url, store):
    store.get([NEW])
    with Server(redis_url) as server:
        before = server.client_list()
        in_child(store.close)
        assert [client["id"] for client in server.client_list()] == [client["id"] for client in before]
    assert tokens(store.swap(claims([NEW]))) == ["ann"]


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
