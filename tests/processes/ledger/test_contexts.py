"""A claim in the threads of a web framework."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import anyio.to_thread

from onefold import Ledger
from onefold.stores.memory import MemoryStore
from tests.fast.ledger.doors import stored
from tests.fast.ledger.test_contexts import KEY, nobody_runs


def test_a_dependency_that_a_web_framework_runs_in_threads_settles_its_claim():
    store = MemoryStore()
    ledger = Ledger(store)

    @contextmanager
    def dependency() -> Iterator[Any]:  # as FastAPI runs a `def` that yields: each half in a thread
        with ledger.claim(KEY) as claim:
            yield claim

    async def request() -> tuple[str, bool]:
        opened = dependency()
        claim = await anyio.to_thread.run_sync(opened.__enter__)
        state = claim.state
        await anyio.to_thread.run_sync(lambda: opened.__exit__(None, None, None))
        return state, nobody_runs()

    assert asyncio.run(request()) == ("won", True)
    assert stored(store, KEY).state == "done"
