"""Reads stand-in feeds through real workers, and takes the account from the feed's own journal."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from math import inf
from typing import Any

import anyio

from onefold.core.documents import OWN
from onefold.core.errors import Unreachable
from onefold.core.record import Record
from onefold.core.terms import Terms
from onefold.drive import Inline
from onefold.sinks.function import Function
from onefold.sources.poll import Poll
from onefold.stores.memory import MemoryStore
from onefold.worker import Pipeline, Worker
from onefold.worlds.feed import Feed
from onefold.worlds.journal import Journal
from onefold.worlds.site import Site

RUNS = 40
TERMS = Terms(lease=30, backoff=(0.02, 0.1))


def polled(site: Site, feed: Feed, **more: Any) -> Poll:
    """Set a source up that reads a feed, quickly."""
    quick: dict[str, Any] = {"id": "id", "every": 0.001, "backoff": (0.001, 0.01), "timeout": 5}
    order = "newest-first" if feed.newest_first else "oldest-first"
    return Poll(site.url + feed.path, **{**quick, "order": order, **more})


def pipeline(source: Any, journal: Journal, **more: Any) -> Pipeline:
    """Let every record be written into the journal of the world in which it happens."""

    async def act(record: Record) -> None:
        journal.note("acted", id=record.id)

    given = {"key": lambda record: record.id, "sink": Function(act, effect="keyed"), "terms": TERMS, **more}
    return Pipeline("feed", {"poll": source}, **given)


def read_all(
    source: Any,
    feed: Feed,
    store: MemoryStore,
    until: Callable[[], bool] = lambda: True,
    again: int = 3,
) -> None:
    """Read to the present until no more rows come; `again` is how often it is read after that."""
    for _ in range(RUNS):
        anyio.run(Worker([pipeline(source, feed.journal)], store=Inline(store), once=True).arun)
        again -= not feed.is_growing and until()
        if not again:
            return
    raise AssertionError(f"after {RUNS} runs there is still something to read, or something is missing")


def acted(journal: Journal) -> Counter[str]:
    return Counter(line["id"] for line in journal.of("acted"))


def exist(journal: Journal) -> set[str]:
    return {line["id"] for line in journal.of("exists")}


def gaps(store: MemoryStore) -> list[Any]:
    """List the gaps that the worker wrote down."""
    found, _ = store.scan(f"{OWN}gaps", ("free",), False, None, 100)
    return [json.loads(seen.entry.body) for _, seen in found if seen.entry and seen.entry.body]


def parked(store: MemoryStore) -> list[Any]:
    found, _ = store.scan("feed.broken", ("parked",), False, None, 1000)
    return [seen.entry.body for _, seen in found if seen.entry]


class Mortal:
    """A store as a process sees it that dies at its n-th write, or when told: then nothing reaches it."""

    def __init__(self, store: MemoryStore, lives: float = inf) -> None:
        self._inner = Inline(store)
        self._lives = lives
        self.died = anyio.Event()

    async def get(self, keys: Any) -> Any:
        self._live(0)
        return await self._inner.get(keys)

    async def swap(self, changes: Any) -> Any:
        self._live(1)
        return await self._inner.swap(changes)

    async def scan(self, *args: Any) -> Any:
        self._live(0)
        return await self._inner.scan(*args)

    def die(self) -> None:
        self._lives = -1
        self.died.set()

    def _live(self, cost: int) -> None:
        self._lives -= cost
        if self._lives < 0:
            self.died.set()
            raise Unreachable("dead")

    async def close(self) -> None:
        await self._inner.close()
