"""What every contestant on a server can do: handle keys one by one, many at once, perhaps in batches.

It knows neither stores nor peers.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple, TypeVar

from benchmarks.measure import Keys

T = TypeVar("T")
Play = Callable[[Keys], int]


class Player(NamedTuple):
    """A contestant, with the durability that was read back from its connection or its server."""

    name: str
    durability: str
    single: Play
    """Handle keys one after another; return how many effects ran."""
    at_once: Play
    """Handle keys many at a time, each by itself."""
    batch: Play | None = None
    """Handle keys together; None where there is no such thing."""


class Tally:
    """Counts effects, which do nothing else; threads may share it."""

    def __init__(self) -> None:
        self._ran: list[None] = []

    def effect(self, *given: object) -> None:
        self._ran.append(None)

    async def awaited(self, *given: object) -> None:
        self._ran.append(None)

    def counted(self, play: Callable[[Keys], object]) -> Play:
        """Let a play say how many effects ran in it."""

        def played(keys: Keys) -> int:
            before = len(self._ran)
            play(keys)
            return len(self._ran) - before

        return played


def one_by_one(call: Callable[[str], object]) -> Callable[[Keys], None]:
    """Handle keys one after another with a call."""

    def play(keys: Keys) -> None:
        for key in keys:
            call(key)

    return play


def in_threads(calls: Sequence[Callable[[str], object]], pool: ThreadPoolExecutor) -> Callable[[Keys], None]:
    """Handle keys in as many threads as there are calls, each thread with its own."""

    def play(keys: Keys) -> None:
        shares = [keys[at :: len(calls)] for at in range(len(calls))]
        for _ in pool.map(lambda call, share: one_by_one(call)(share), calls, shares):
            pass

    return play


class Loop:
    """An event loop that lives as long as a contestant does."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()

    def run(self, work: Awaitable[T]) -> T:
        return self._loop.run_until_complete(work)

    def close(self) -> None:
        self._loop.run_until_complete(_end_the_rest())
        self._loop.close()

    def one_by_one(self, call: Callable[[str], Awaitable[object]]) -> Callable[[Keys], None]:
        """Handle keys one after another, awaited."""
        return lambda keys: self.run(_every(call, keys))

    def in_tasks(self, call: Callable[[str], Awaitable[object]], tasks: int) -> Callable[[Keys], None]:
        """Handle keys in many tasks."""
        return lambda keys: self.run(_all(call, [keys[at::tasks] for at in range(tasks)]))


async def _every(call: Callable[[str], Awaitable[object]], keys: Keys) -> None:
    for key in keys:
        await call(key)


async def _all(call: Callable[[str], Awaitable[object]], shares: Iterable[Keys]) -> None:
    await asyncio.gather(*(_every(call, share) for share in shares))


async def _end_the_rest() -> None:
    left = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
    for task in left:
        task.cancel()
    await asyncio.gather(*left, return_exceptions=True)
