"""A stage for pipelines: scripted sources, a far side that counts, and workers that run until told."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

import anyio

from onefold.core.cursor import Cursor, start
from onefold.core.entry import Effect
from onefold.core.record import Fate, Page, Record
from onefold.core.terms import Terms
from onefold.drive import Inline
from onefold.sinks.function import Function
from onefold.stores.memory import MemoryStore
from onefold.worker import Pipeline, Worker
from tests.waiting import PATIENCE
from tests.waiting import until as until

QUICK = Terms(lease=60, backoff=(0.05, 0.2), attempts=3)
"""Retries come soon, and no lease runs out."""

ROUND = 0.01
"""Seconds that a round of a feed without an end takes, or virtual time would never pass."""


class Feed:
    """A source over a list that a test may add to; it shows everything from the cursor on, at every round."""

    reach = None
    repeats = True
    lag = 0.0

    def __init__(self, records: Sequence[Record] = (), *, finite: bool = True, page: int = 100) -> None:
        self.records = list(records)
        self.finite = finite
        self.page = page
        self.told: list[tuple[Record, Fate]] = []
        self.cursors: list[Cursor] = []

    async def read(self, cursor: Cursor) -> AsyncIterator[Page]:
        self.cursors.append(cursor)
        since = start(cursor, self.lag)
        shown = [record for record in self.records if since is None or record.at >= since]
        for at in range(0, len(shown), self.page):
            yield Page(shown[at : at + self.page], more=at + self.page < len(shown))
        await anyio.sleep(0 if self.finite else ROUND)

    async def tell(self, fates: Sequence[tuple[Record, Fate]]) -> None:
        self.told += fates


class FarSide:
    """Counts what happened outside, by record id and name; `trouble` may raise before it happens."""

    def __init__(self, trouble: Callable[[Record], None] = lambda record: None) -> None:
        self.happened: Counter[tuple[str, str]] = Counter()
        self._trouble = trouble

    async def act(self, record: Record, claim: Any) -> dict[str, str]:
        self._trouble(record)
        self.happened[record.id, claim.name] += 1
        return {"id": record.id}


def records(*numbers: int) -> list[Record]:
    return [Record(f"r{number}", {"n": number}, number) for number in numbers]


def pipeline(feed: Any, far: FarSide, *, effect: Effect = "one-shot", **more: Any) -> Pipeline:
    return Pipeline(
        "stage",
        **{
            "sources": {"feed": feed},
            "key": lambda record: record.id,
            "sink": Function(far.act, effect=effect),
            "terms": QUICK,
            **more,
        },
    )


def run_until(worker: Worker, condition: Callable[[], bool], seconds: float = PATIENCE) -> int:
    """Run a worker until a condition holds, then stop it; return its exit code."""

    async def both() -> int:
        codes: list[int] = []

        async def work() -> None:
            codes.append(await worker.arun())

        async with anyio.create_task_group() as group:
            group.start_soon(work)
            await until(condition, seconds)
            worker.stop()
        return codes[0]

    return anyio.run(both)


def store() -> tuple[MemoryStore, Inline]:
    memory = MemoryStore()
    return memory, Inline(memory)
