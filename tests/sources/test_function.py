"""A function as a source: called at its pace, in a thread if it blocks, and never twice at the same time."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator, Iterator
from typing import Any

import anyio
import pytest

from onefold.core.cursor import Cursor
from onefold.core.errors import Misconfigured
from onefold.core.record import Page, Record
from onefold.runtime.threads import left_running
from onefold.sources.function import Function as Reads
from onefold.testing.virtual import VirtualLoop
from onefold.worker import Worker
from tests.waiting import wait_for
from tests.worker.stage import FarSide, pipeline, records, run_until, store


async def read(source: Reads, at: float | None = None) -> list[Page]:
    return [page async for page in source.read(Cursor(at))]


def numbers(pages: list[Page]) -> list[float]:
    return [one.at for page in pages for one in page.records]


def in_virtual_time(life: Any) -> Any:
    loop = VirtualLoop()
    try:
        return loop.live(life)
    finally:
        loop.close()


@pytest.mark.parametrize(("given", "every"), [({}, 2.0), ({"every": "10s"}, 10.0)])
def test_a_function_is_called_again_only_when_it_is_due(given, every, monkeypatch):
    rounds: list[float] = []

    async def shown(cursor: Cursor) -> AsyncIterator[Record]:
        rounds.append(anyio.current_time())
        yield records(1)[0]

    async def hour() -> None:
        monkeypatch.setattr("time.monotonic", anyio.current_time)
        source = Reads(shown, **given)
        while anyio.current_time() < 3600:
            await read(source)

    in_virtual_time(hour())

    assert rounds == [every * number for number in range(len(rounds))]
    assert len(rounds) >= 3600 / every


def test_a_function_that_says_there_is_more_is_called_again_immediately(monkeypatch):
    rounds: list[float] = []

    async def shown(cursor: Cursor) -> AsyncIterator[Page]:
        rounds.append(anyio.current_time())
        yield Page(records(len(rounds)), more=len(rounds) < 5)

    async def some() -> None:
        monkeypatch.setattr("time.monotonic", anyio.current_time)
        source = Reads(shown)
        for _ in range(6):
            await read(source)

    in_virtual_time(some())

    assert rounds == [0, 0, 0, 0, 0, 2]


def test_a_function_that_blocks_runs_in_a_thread_and_leaves_the_loop_to_others():
    go = threading.Event()

    def shown(cursor: Cursor) -> Iterator[Record]:
        go.wait()
        yield from records(1, 2)

    async def both() -> list[Page]:
        pages: list[Page] = []
        async with anyio.create_task_group() as group:

            async def reads() -> None:
                pages.extend(await read(Reads(shown)))

            group.start_soon(reads)
            await anyio.lowlevel.checkpoint()
            go.set()  # if it ran on the loop, nobody would come here
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


@pytest.mark.parametrize("kind", [list, tuple, iter])
def test_records_and_pages_are_handed_on_in_order_and_the_last_page_is_the_present(kind):
    shown = [*records(1, 2), Page(records(3), more=True), *records(4), Page([], more=True), *records(5)]
    pages = anyio.run(read, Reads(lambda cursor: kind(shown), page=4))

    assert numbers(pages) == [1, 2, 3, 4, 5]
    assert [page.more for page in pages][-1] is False
    assert all(page.more for page in pages[:-1])


def test_a_function_whose_last_page_says_more_has_not_caught_up():
    pages = anyio.run(read, Reads(lambda cursor: [Page(records(1), more=True)]))

    assert [page.more for page in pages] == [True]


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


@pytest.mark.parametrize("given", [{"every": 0}, {"every": "soon"}, {"page": 0}])
def test_settings_that_cannot_work_are_refused(given):
    with pytest.raises(Misconfigured, match=next(iter(given))):
        Reads(lambda cursor: [], **given)


def test_an_async_function_that_yields_nothing_is_refused():
    async def shown(cursor: Cursor) -> list[Record]:
        return []

    with pytest.raises(Misconfigured, match="is async and yields nothing"):
        Reads(shown)  # type: ignore[arg-type]


def test_one_effect_that_hangs_lets_others_through_and_memory_is_bounded():
    _, awaited = store()
    rounds = [0]

    def shown(cursor: Cursor) -> list[Record]:
        rounds[0] += 1
        return records(*range(rounds[0] + 20))

    far = FarSide()

    async def act(record: Record, claim: Any) -> None:
        if record.id == "r3":
            await anyio.sleep_forever()
        await far.act(record, claim)

    from onefold.sinks.function import Function

    source = Reads(shown, every=0.0001)
    worker = Worker([pipeline(source, far, sink=Function(act, effect="keyed"))], store=awaited, grace=0.01)
    remembered: list[int] = []

    def enough() -> bool:
        remembered.extend(reader._track.remembered for reader in worker.readers)
        return rounds[0] >= 300 and len(far.happened) >= 300

    run_until(worker, enough)

    assert max(remembered) < 2500, "a few pages under way, however often the source was read"
    assert set(far.happened.values()) == {1}
