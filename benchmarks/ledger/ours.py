"""Onefold as a contestant, by its public doors only."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from benchmarks.ledger.by_hand import SCOPE, durability
from benchmarks.measure import Contestant, Keys
from onefold import AsyncLedger, Key, Ledger
from onefold.stores.sqlite import SqliteStore


class Tally:
    """Counts effects, which do nothing else."""

    def __init__(self) -> None:
        self.ran = 0

    def effect(self) -> None:
        self.ran += 1

    async def awaited(self) -> None:
        self.ran += 1


class Ours:
    """A ledger, blocking, and what the subjects do with it."""

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger
        self.tally = Tally()

    def batch(self, keys: Keys) -> int:
        """Claim keys together, run the effect of those won, settle them together."""
        before, effect = self.tally.ran, self.tally.effect
        claims = self.ledger.claim_many([Key(SCOPE, key) for key in keys])
        done = []
        for claim in claims:
            if claim.won:
                effect()
                done.append((claim, None))
        self.ledger.settle_many(done)
        return self.tally.ran - before

    def single(self, keys: Keys) -> int:
        """Handle keys one after another."""
        before, effect = self.tally.ran, self.tally.effect
        for key in keys:
            self.ledger.call(Key(SCOPE, key), effect)
        return self.tally.ran - before

    def claims_in_threads(self, keys: Keys, tasks: int) -> int:
        """Claim keys from many threads at once, one key at a time; return how many were won."""
        won: list[int] = []

        def some(mine: Keys) -> None:
            won.append(sum(self.ledger.claim(Key(SCOPE, key)).won for key in mine))

        workers = [threading.Thread(target=some, args=(keys[at::tasks],)) for at in range(tasks)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        return sum(won)


class OursAwaited:
    """A ledger, awaited, on an event loop that lives as long as it does."""

    def __init__(self, ledger: AsyncLedger) -> None:
        self.ledger = ledger
        self.tally = Tally()
        self.loop = asyncio.new_event_loop()

    def single(self, keys: Keys) -> int:
        """Handle keys one after another."""
        before = self.tally.ran
        self.loop.run_until_complete(self._single(keys))
        return self.tally.ran - before

    async def _single(self, keys: Keys) -> None:
        for key in keys:
            await self.ledger.call(Key(SCOPE, key), self.tally.awaited)

    def claims_in_tasks(self, keys: Keys, tasks: int) -> int:
        """Claim keys from many tasks at once, one key at a time; return how many were won."""
        return self.loop.run_until_complete(self._in_tasks([keys[at::tasks] for at in range(tasks)]))

    async def _in_tasks(self, shares: Sequence[Keys]) -> int:
        return sum(await asyncio.gather(*map(self._claims, shares)))

    async def _claims(self, keys: Keys) -> int:
        return sum([(await self.ledger.claim(Key(SCOPE, key))).won for key in keys])

    def close(self) -> None:
        """Close the ledger and whatever still runs on its loop."""
        self.loop.run_until_complete(self._stop())
        self.loop.close()

    async def _stop(self) -> None:
        await self.ledger.close()
        left = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)


def url(path: Path, synchronous: str) -> str:
    return f"sqlite:///{path}?synchronous={synchronous}"


def on_sqlite(path: Path, synchronous: str, stack: ExitStack) -> tuple[Ours, str]:
    """Open a ledger on a file; also return its durability, read back from a connection of the same kind."""
    store = SqliteStore(path, synchronous=synchronous)
    ledger = Ledger(store)
    stack.callback(ledger.close)
    return Ours(ledger), durability(store.query("PRAGMA synchronous")[0][0])


def on_memory() -> Ours:
    """Open a ledger in memory."""
    return Ours(Ledger("memory:"))


def batches(name: str, path: Path, synchronous: str, stack: ExitStack) -> Contestant:
    ours, level = on_sqlite(path, synchronous, stack)
    return Contestant(name, level, ours.batch)
