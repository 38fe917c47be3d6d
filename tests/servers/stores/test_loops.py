"""One `AsyncLedger`, made once for the whole program, on several event loops: on every store, by its URL."""

from __future__ import annotations

import asyncio
import gc
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from onefold import AsyncLedger, Key
from tests.waiting import PATIENCE

CLIENTS = {
    "memory": None,
    "sqlite": None,
    "postgresql": "psycopg",
    "mariadb": "aiomysql",
    "redis": "redis",
    "mongodb": "pymongo",
    "dynamodb": "boto3",
    "cassandra": "cassandra",
}
CALLS = 20


@pytest.fixture(params=[pytest.param(name, marks=pytest.mark.store(name)) for name in CLIENTS])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    client = CLIENTS[request.param]
    if client is None:
        return "memory:" if request.param == "memory" else f"sqlite:///{tmp_path}/o.db"
    pytest.importorskip(client, reason=f"{client} is not installed: it comes with the test servers")
    return str(request.getfixturevalue(f"{request.param}_url"))


def in_threads(*works: Callable[[], object]) -> None:
    """Run each work in a thread of its own, all from the same moment on; none may hang."""
    start, errors = threading.Barrier(len(works)), list[BaseException]()

    def run(work: Callable[[], object]) -> None:
        try:
            start.wait(PATIENCE)
            work()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(work,), daemon=True) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    assert errors == []
    assert not any(thread.is_alive() for thread in threads)


def test_two_event_loops_share_a_ledger_at_the_same_time_and_every_key_runs_once(url):
    ledger = AsyncLedger(url)
    ran: list[int] = []

    async def work() -> None:
        async def call(n: int) -> None:
            async def effect() -> int:
                ran.append(n)
                return n

            assert (await ledger.call(Key("loops", n), effect, wait=PATIENCE)).receipt == n

        async with asyncio.TaskGroup() as group:
            for n in range(CALLS):
                group.create_task(call(n))
        await ledger.close()

    in_threads(lambda: asyncio.run(work()), lambda: asyncio.run(work()))
    gc.collect()

    assert sorted(ran) == list(range(CALLS))


# A loop that ends without closing leaves connections to the garbage collector, which says so.
@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
def test_one_event_loop_after_another_finds_what_the_first_did(url):
    ledger = AsyncLedger(url)

    async def five() -> int:
        return 5

    first = asyncio.run(ledger.call(Key("loops", 1), five))
    again = asyncio.run(ledger.call(Key("loops", 1), five))
    asyncio.run(ledger.close())
    gc.collect()

    assert (first.state, again.state, again.receipt) == ("ran", "done", 5)
