"""Onefold's worker among its alternatives: on SQLite with full sync, with a fresh file for each round.

A round includes opening the file, the worker's start and its end.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from contextlib import closing
from typing import Any

from benchmarks.ledger.by_hand import durability
from benchmarks.measure import Contestant, Keys
from benchmarks.worker.proof import Site, proven
from benchmarks.worker.stages import Counting, Effect, Listed
from onefold import Pipeline, Worker
from onefold.drive import Threaded
from onefold.stores.sqlite import SqliteStore

AT_ONCE = 64


def contestant(name: str, site: Site, effect: Effect) -> Contestant:
    """Run a worker from a list of records to its end."""

    def play(keys: Keys) -> int:
        sink = Acting(effect, Counter())
        source = Listed(keys, Counter())
        pipeline = Pipeline("bench", {"list": source}, lambda record: record.id, sink, at_once=AT_ONCE)
        Worker([pipeline], store=Threaded(_opened(site))).run()
        return proven(name, sink.acted, keys)

    with closing(_opened(site)) as store:
        level = durability(store.query("PRAGMA synchronous")[0][0])
    return Contestant(name, level, play)


def _opened(site: Site) -> SqliteStore:
    return SqliteStore(site.path("onefold.db"), synchronous="full")


class Acting(Counting):
    """Notes which records it acted on."""

    def __init__(self, effect: Effect, spent: Counter[str]) -> None:
        super().__init__(effect, spent)
        self.acted: list[str] = []

    async def put(self, work: Sequence[Any]) -> Sequence[Any]:
        self.acted += [record.id for _, record in work]
        return await super().put(work)
