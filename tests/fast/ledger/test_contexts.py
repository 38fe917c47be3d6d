"""Blocks of claims that are entered in one context and left in another: a thread, a task, a copy."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from onefold import AsyncLedger, Key, Ledger, current_claim
from onefold.core.errors import Misconfigured
from onefold.drive import Inline
from onefold.stores.memory import MemoryStore
from tests.fast.ledger.doors import stored

KEY = Key("contexts", 1)


def nobody_runs() -> bool:
    with pytest.raises(Misconfigured, match="no claim is running here"):
        current_claim()
    return True


def in_a_thread(work: Callable[[], Any], context: contextvars.Context | None = None) -> Any:
    """Run something in a thread of its own, in a copy of this context or in the one given."""
    answers: list[Any] = []
    run = (context or contextvars.copy_context()).run
    thread = threading.Thread(target=lambda: answers.append(run(work)))
    thread.start()
    thread.join()
    return answers[0]


@pytest.mark.parametrize(("error", "state"), [(None, "done"), (ValueError("no"), "parked")])
def test_a_claim_that_is_left_in_another_thread_is_settled(error, state):
    store = MemoryStore()
    claim = Ledger(store).claim(KEY)
    entered = contextvars.copy_context()

    in_a_thread(claim.__enter__, entered)
    in_a_thread(lambda: claim.__exit__(type(error) if error else None, error, None))

    assert stored(store, KEY).state == state
    assert entered.run(nobody_runs)
    assert in_a_thread(nobody_runs, entered)


@pytest.mark.parametrize(("close", "state"), [(True, "parked"), (False, "done")])
def test_a_claim_in_an_async_generator_that_another_task_ends_is_settled(close, state):
    store = MemoryStore()

    async def work(ledger: AsyncLedger) -> AsyncIterator[str]:
        async with ledger.claim(KEY) as claim:
            yield claim.state

    async def main() -> None:
        items = work(AsyncLedger(Inline(store)))
        assert await asyncio.create_task(anext(items)) == "won"  # type: ignore[arg-type]
        if close:
            await asyncio.create_task(items.aclose())  # type: ignore[attr-defined]
        else:
            assert await asyncio.create_task(anext(items, "end")) == "end"
        assert nobody_runs()

    asyncio.run(main())
    assert stored(store, KEY).state == state


def test_a_task_that_outlives_its_effect_does_not_see_the_claim_as_running():
    async def main() -> None:
        ledger = AsyncLedger("memory:")
        ended = asyncio.Event()
        seen: list[str] = []

        async def outlives() -> bool:
            seen.append(str(current_claim().key))
            await ended.wait()
            return nobody_runs()

        async def effect() -> None:
            tasks.append(asyncio.create_task(outlives()))
            await asyncio.sleep(0)

        tasks: list[asyncio.Task[bool]] = []
        await ledger.call(KEY, effect)
        ended.set()
        assert await tasks[0]
        assert seen == ["contexts/1"]

    asyncio.run(main())


def test_blocks_that_are_left_out_of_order_show_the_claim_that_still_runs():
    ledger = Ledger("memory:")
    outer, first, second = (ledger.claim(Key("contexts", n)) for n in (1, 2, 3))
    with outer:
        first.__enter__()
        second.__enter__()
        first.__exit__(None, None, None)
        assert current_claim() is second
        second.__exit__(None, None, None)
        assert current_claim() is outer
    assert nobody_runs()


def test_a_context_that_only_enters_blocks_keeps_none_of_those_that_were_left_elsewhere():
    ledger = Ledger("memory:")
    entered = contextvars.copy_context()
    for n in range(1, 4):
        claim = ledger.claim(Key("contexts", n))
        entered.run(claim.__enter__)
        claim.__exit__(None, None, None)

    claim = ledger.claim(Key("contexts", 9))
    entered.run(claim.__enter__)
    assert claim._block is not None
    assert claim._block.outer is None
    claim.__exit__(None, None, None)
    claim.make_past()  # twice is once
