"""A source that is much faster than its sink is slowed down by it: the memory of a worker stays flat.

Only what Python allocates is measured, not the memory of libraries written in C.
"""

from __future__ import annotations

import tracemalloc
from typing import Any

import anyio
import pytest

from onefold.core.record import Record
from onefold.drive import Inline
from onefold.sinks.function import Function
from onefold.sources.poll import Offset
from onefold.stores.memory import MemoryStore
from onefold.worker import Worker
from onefold.worlds.feed import Feed, trades
from onefold.worlds.site import Site
from tests.fast.sources.reading import pipeline, polled

MIB = 2**20


@pytest.mark.parametrize("order", ["newest-first", "oldest-first"])
@pytest.mark.parametrize(
    ("goal", "rows", "limit"),  # all rows together take twice the limit
    [
        (320, 10_000, 8 * MIB),
        pytest.param(4800, 48_000, 32 * MIB, marks=[pytest.mark.slow, pytest.mark.timeout(300)]),
    ],
)
def test_a_slow_sink_slows_its_source_and_memory_stays_flat(
    order: str, goal: int, rows: int, limit: int, site: Site
):
    feed = Feed(newest_first=order == "newest-first", most=500)
    feed.add(*({**row, "note": "x" * 500} for row in trades(0, rows)))
    site.routes = dict(feed.routes)
    under_way: list[int] = []

    async def act(record: Record) -> None:
        await anyio.sleep(0.1)
        under_way.append(sum(reader.under_way for reader in worker.readers))
        if len(under_way) == goal:
            worker.stop()

    source = polled(site, feed, paging=Offset(limit=500), start="start", every=0.01, most=2000)
    more: dict[str, Any] = {"sink": Function(act, effect="keyed"), "at_once": 16}
    worker = Worker([pipeline(source, feed.journal, **more)], store=Inline(MemoryStore()))
    tracemalloc.start()
    try:
        worker.run()
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert peak < limit
    assert max(under_way) <= 4 * 200
