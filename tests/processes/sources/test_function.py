"""A function as a source that blocks: it runs in a real thread, which a virtual loop does not have."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import anyio

from onefold.core.cursor import Cursor
from onefold.core.record import Page, Record
from onefold.runtime.threads import left_running
from onefold.sources.function import Function as Reads
from tests.fast.sources.test_function import numbers, read
from tests.fast.worker.stage import records
from tests.waiting import until, wait_for


def test_a_function_that_blocks_runs_in_a_thread_and_leaves_the_loop_to_others():
    begun, go = threading.Event(), threading.Event()

    def shown(cursor: Cursor) -> Iterator[Record]:
        begun.set()
        go.wait()
        yield from records(1, 2)

    async def both() -> list[Page]:
        pages: list[Page] = []
        async with anyio.create_task_group() as group:

            async def reads() -> None:
                pages.extend(await read(Reads(shown)))

            group.start_soon(reads)
            await until(begun.is_set)
            go.set()  # if the function ran on the loop, this line would not be reached
        return pages

    assert numbers(anyio.run(both)) == [1, 2]


def test_a_record_is_handed_on_before_a_blocking_function_has_the_next():
    handed = threading.Event()

    def shown(cursor: Cursor) -> Iterator[Record]:
        yield records(1)[0]
        handed.wait()
        yield records(2)[0]

    async def one_by_one() -> list[Page]:
        pages = []
        async for page in Reads(shown).read(Cursor()):
            pages.append(page)
            handed.set()
        return pages

    assert numbers(anyio.run(one_by_one)) == [1, 2]


def test_a_function_is_not_called_again_while_it_still_runs():
    running, most, go = [0], [0], threading.Event()

    def shown(cursor: Cursor) -> Iterator[Record]:
        running[0] += 1
        most[0] = max(most[0], running[0])
        try:
            yield records(1)[0]
            go.wait()
            yield records(2)[0]
        finally:
            running[0] -= 1

    async def left_and_read_again() -> None:
        source = Reads(shown, every=0.001)
        first = source.read(Cursor())
        await anext(first)
        await first.aclose()  # type: ignore[attr-defined]
        async with anyio.create_task_group() as group:
            group.start_soon(read, source)
            await anyio.lowlevel.checkpoint()
            go.set()

    anyio.run(left_and_read_again)
    wait_for(lambda: not left_running())
    assert most == [1]
