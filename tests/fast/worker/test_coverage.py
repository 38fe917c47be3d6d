"""Tiles as work: several workers fill a series side by side, and a short answer stays partial."""

from __future__ import annotations

from collections import Counter

import anyio
import anyio.lowlevel

from onefold.core.coverage import Span, gaps
from onefold.core.errors import Later
from onefold.core.terms import Terms
from onefold.core.tiles import Series, covered, noted
from onefold.drive import Inline, Ports, run
from onefold.sinks.function import Function
from onefold.sources.tiles import Tiles
from onefold.stores.memory import MemoryStore
from onefold.worker import Pipeline, Worker
from onefold.worker.coverage import Noted, known, note, open_tiles
from tests.fast.worker.stage import run_until

SERIES = Series("bars", "EURUSD", 60)
NOW = 600.0
WANTED = Span(0, 600)


def filling(act, **more) -> Pipeline:
    source = Tiles(SERIES, 0, 600, clock=lambda: NOW, every=0.05, **more)
    return Pipeline(
        "bars",
        sources={"EURUSD": source},
        key=lambda record: (record.body["series"], record.body["since"]),
        sink=Function(act, effect="idempotent"),
        terms=Terms(lease=60, backoff=(0.05, 0.1), attempts=3),
    )


def test_a_wanted_stretch_is_filled_tile_by_tile_and_counted():
    store = MemoryStore()

    async def act(record):
        return noted("complete", 60)

    Worker([filling(act, finite=True)], store=Inline(store)).run()

    found = run(covered(SERIES, WANTED), Ports(store))
    assert [(one.state, one.rows) for one in found] == [("complete", 60)] * 10
    assert gaps(WANTED, found) == []


def test_several_workers_fill_one_series_side_by_side_without_doing_a_tile_twice():
    store = MemoryStore()
    fetched: Counter[int] = Counter()

    async def act(record):
        fetched[record.body["since"]] += 1
        await anyio.lowlevel.checkpoint()
        return noted("complete", 60)

    async def together() -> None:
        async with anyio.create_task_group() as group:
            for number in range(3):
                worker = Worker([filling(act, finite=True)], store=Inline(store), name=f"w{number}")
                group.start_soon(worker.arun)

    anyio.run(together)

    assert fetched == dict.fromkeys(range(0, 600, 60), 1)


def test_a_failed_second_page_leaves_the_tile_partial_until_it_is_fetched_again():
    store = MemoryStore()
    tries: Counter[int] = Counter()
    seen: list[str] = []

    async def act(record):
        since = record.body["since"]
        tries[since] += 1
        if since == 120 and tries[since] == 1:
            raise Later("page 2 failed: 30 of 60", 0.1, noted("partial", 30, 60))
        if since == 120:
            seen.extend(one.state for one in run(covered(SERIES, Span(120, 180)), Ports(store)))
        return noted("complete", 60)

    run_until(Worker([filling(act)], store=Inline(store)), lambda: tries[120] == 2)

    assert seen == ["partial"]
    assert gaps(WANTED, run(covered(SERIES, WANTED), Ports(store))) == []


def test_a_series_is_noted_once_and_widened():
    ports = Ports(MemoryStore())
    run(note(Noted(SERIES, 300, None, 60)), ports)
    run(note(Noted(SERIES, 120, None, 60)), ports)
    run(note(Noted(SERIES, 180, None, 60)), ports)

    [one] = run(known(), ports)

    assert one == Noted(SERIES, 120, None, 60)
    assert one.wanted(NOW) == Span(120, 600)
    assert one.expected(Span(120, 600)) == 8
    assert open_tiles(one, [], NOW) == 8
