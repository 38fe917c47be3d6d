"""A source that is ten times faster than its sink is slowed down by it: the memory of a worker stays flat."""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap
from typing import Any

import pytest

LIMIT = 64 * 2**20

SCRIPT = """
    import json, sys
    import anyio
    from onefold.drive import Inline
    from onefold.sinks.function import Function
    from onefold.sources.poll import Offset, Poll
    from onefold.stores.memory import MemoryStore
    from onefold.worker import Pipeline, Worker
    from onefold.worlds.feed import Feed, trades
    from onefold.worlds.site import Site

    SLOW, AT_ONCE = 10, 16
    # So many effects take this sink so long.
    GOAL = int(float(sys.argv[1]) * SLOW * AT_ONCE)
    acted, enough = 0, anyio.Event()

    def memory(name):
        # Not ru_maxrss: that remembers the process from which this one was started.
        with open("/proc/self/status") as lines:
            return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(name))

    async def act(record):
        global acted
        await anyio.sleep(1 / SLOW)
        acted += 1
        if acted == GOAL:
            enough.set()

    async def main():
        feed = Feed(newest_first=sys.argv[2] == "newest-first", most=500)
        # The rows exist beforehand: what the stand-in itself needs is there when the measuring begins.
        feed.add(*({**row, "note": "x" * 500} for row in trades(0, GOAL * 10)))
        with Site(feed.routes) as site:
            source = Poll(site.url + feed.path, id="id", order=sys.argv[2], paging=Offset(limit=500),
                          start="start", every=0.01)
            sink = Function(act, effect="keyed")
            pipeline = Pipeline("slow", {"poll": source}, key=lambda record: record.id, sink=sink,
                                at_once=AT_ONCE)
            worker = Worker([pipeline], store=Inline(MemoryStore()), grace=0.1)
            begun = memory("VmRSS")
            async with anyio.create_task_group() as group:
                group.start_soon(worker.arun)
                await enough.wait()
                # The most that it ever held, from the first row of the stand-in on.
                grown = memory("VmHWM") - begun
                under_way = sum(reader.under_way for reader in worker.readers)
                worker.stop()
        print(json.dumps({"grown": grown, "acted": acted, "rows": len(feed.journal.of("exists")),
                          "asked": feed.asked, "under_way": under_way}))

    anyio.run(main)
"""


def run(seconds: float, order: str) -> dict[str, Any]:
    command = [sys.executable, "-c", textwrap.dedent(SCRIPT), str(seconds), order]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=seconds + 100, check=False)
    assert ended.returncode == 0, ended.stderr
    found: dict[str, Any] = json.loads(ended.stdout)
    return found


@pytest.mark.parametrize("order", ["newest-first", "oldest-first"])
@pytest.mark.parametrize(
    "seconds", [3, pytest.param(30, marks=[pytest.mark.slow, pytest.mark.timeout(200)])], ids=["3s", "30s"]
)
def test_a_slow_sink_slows_its_source_and_memory_stays_flat(seconds, order):
    found = run(seconds, order)

    assert found["grown"] < LIMIT
    assert found["acted"] < found["rows"] / 5, "the source must be faster than its sink for this to show"
    assert found["under_way"] <= 4 * 200
