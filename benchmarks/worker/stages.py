"""Subject: the whole way of a record, and the share of each stage.

The source and the effect do next to nothing, so that what is left is the worker's own. Stages are measured
where they happen: in the source, inside of the store, in the sink; the rest is the worker's.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

from benchmarks.ledger.by_hand import durability
from benchmarks.ledger.ours import Ours, on_memory
from benchmarks.measure import Contestant, Keys, Row, Sizes, Table, compare, rounds_of
from onefold import Pipeline, Record, Worker
from onefold.core.cursor import Cursor
from onefold.core.entry import Change, Reply
from onefold.core.ports import Store
from onefold.core.record import Fate, Page
from onefold.drive import Inline, OneThread
from onefold.stores.memory import MemoryStore
from onefold.stores.sqlite import SqliteStore

TARGET = 0.5
"""The share of claims and settlements in the time of a record, at least, on SQLite with full sync."""

Effect = Literal["one-shot", "idempotent"]


def tables(sizes: Sizes, folder: Path) -> Iterator[Table]:
    yield _table("one-shot", sizes, folder)
    yield _table("idempotent", sizes, folder)


def _table(effect: Effect, sizes: Sizes, folder: Path) -> Table:
    memory = Runs(lambda: Stages(MemoryStore(), effect, Inline))
    disk = Runs(lambda: on_disk(folder, effect))
    level = durability(2)
    few = sizes._replace(rounds=min(sizes.rounds, 5))
    table = compare(
        f"From source to settled effect, {effect}, pages of {PAGE}",
        [
            Contestant(ON_DISK, level, disk.play),
            Contestant("worker in memory", "memory", memory.play),
            Contestant(PROTOCOL, "memory", lambda keys: _in_batches(on_memory(), keys)),
        ],
        rounds_of(few, sizes.batch * RECORDS, f"worker-{effect}"),
    )
    table.row("worker in memory").note = memory.told()
    _judge(table.row(ON_DISK), table.row(PROTOCOL), disk)
    return table


def _in_batches(ours: Ours, keys: Keys) -> int:
    return sum(ours.batch(keys[at : at + PAGE]) for at in range(0, len(keys), PAGE))


def _judge(row: Row, protocol: Row, runs: Runs) -> None:
    """Add up what claims and settlements take: in the store, and in the protocol that asks it."""
    inside = runs.share("claim") + runs.share("begin") + runs.share("settle")
    asking = (protocol.micros_each or 0.0) / (row.micros_each or 1.0)
    row.target, row.reached = f">= {TARGET:.0%}", inside + asking >= TARGET
    row.note = f"{runs.told()}; claim and settle {inside + asking:.0%} with the protocol's {asking:.0%}"


ON_DISK = "worker on SQLite"
PROTOCOL = "the protocol alone, in memory"
PAGE = 200
RECORDS = 10
"""Batches of records in a run: enough that a worker's start and end, a tenth of a second, hardly count."""


def on_disk(folder: Path, effect: Effect) -> Stages:
    path = folder / f"{effect}-{time.time_ns()}.db"
    return Stages(SqliteStore(path, synchronous="full"), effect, OneThread)


class Runs:
    """Many runs of a worker, each with a store of its own, and their stages added up."""

    def __init__(self, made: Any) -> None:
        self._made = made
        self.spent: Counter[str] = Counter()
        self.total = 0.0

    def play(self, keys: Keys) -> int:
        stages: Stages = self._made()
        started = time.perf_counter()
        ran = stages.run(keys)
        self.total += time.perf_counter() - started
        self.spent.update(stages.spent)
        return ran

    def share(self, stage: str) -> float:
        return self.spent[stage] / self.total if self.total else 0.0

    def told(self) -> str:
        stages = ("read", "claim", "begin", "effect", "settle", "cursor")
        shares = [f"{stage} {self.share(stage):.0%}" for stage in stages if self.spent[stage]]
        rest = 1 - sum(self.spent.values()) / self.total
        return ", ".join([*shares, f"worker {rest:.0%}"])


class Stages:
    """One worker, its store and its ends, each with a watch in its hand."""

    def __init__(self, store: Store, effect: Effect, awaited: Any) -> None:
        self.spent: Counter[str] = Counter()
        self._awaited = awaited(Timed(store, self.spent))
        self._effect: Effect = effect

    def run(self, keys: Keys) -> int:
        sink = Counting(self._effect, self.spent)
        pipeline = Pipeline(
            "bench", {"list": Listed(keys, self.spent)}, lambda record: record.id, sink, at_once=64
        )
        Worker([pipeline], store=self._awaited).run()
        return sink.ran


class Timed:
    """A store that notes what its writes were for, and how long they took."""

    def __init__(self, store: Store, spent: Counter[str]) -> None:
        self._store = store
        self._spent = spent
        self.get, self.scan, self.close = store.get, store.scan, store.close

    def swap(self, changes: Sequence[Change]) -> Sequence[Reply]:
        started = time.perf_counter()
        try:
            return self._store.swap(changes)
        finally:
            self._spent[_stage(changes[0])] += time.perf_counter() - started  # type: ignore[assignment]


def _stage(change: Change) -> str:
    entry = change.entry
    if entry is None or change.key.scope.startswith("onefold."):
        return "cursor"
    if entry.state == "held":
        return "claim" if change.expected is None else "begin"
    return "settle"


class Listed:
    """Shows keys as records, in pages."""

    reach = None
    repeats = True
    lag = 0.0
    finite = True

    def __init__(self, keys: Keys, spent: Counter[str]) -> None:
        self._keys = keys
        self._spent = spent

    async def read(self, cursor: Cursor) -> AsyncIterator[Page]:
        for at in range(0, len(self._keys), PAGE):
            started = time.perf_counter()
            page = Page([Record(key, {"n": at}, at) for key in self._keys[at : at + PAGE]])
            self._spent["read"] += time.perf_counter() - started  # type: ignore[assignment]
            yield page

    async def tell(self, fates: Sequence[tuple[Record, Fate]]) -> None:
        pass


class Counting:
    """Counts, and does nothing else."""

    def __init__(self, effect: Effect, spent: Counter[str]) -> None:
        self.effect = effect
        self.batch = 1 if effect == "one-shot" else PAGE
        self.ran = 0
        self._spent = spent

    async def put(self, work: Sequence[Any]) -> Sequence[Any]:
        started = time.perf_counter()
        self.ran += len(work)
        self._spent["effect"] += time.perf_counter() - started  # type: ignore[assignment]
        return [None] * len(work)
