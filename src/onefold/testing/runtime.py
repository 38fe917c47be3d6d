"""A runtime in which time is virtual and every draw comes from a seed, for workers on a virtual loop.

HTTP and websocket clients are the real ones: the loop is their network. Blocking functions run on the loop
itself, and for them no time passes. It starts no thread and no program.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from random import Random
from typing import Any, TypeVar

from onefold.core.terms import Seconds
from onefold.runtime import Runtime
from onefold.runtime.commands import Ended, NotStarted
from onefold.runtime.threads import Drawn
from onefold.testing.virtual import VirtualLoop

T = TypeVar("T")

EPOCH = 1_700_000_000.0
"""The time of day at which a virtual loop starts, in seconds since 1970."""


class VirtualRuntime(Runtime):
    """The runtime of one worker on a virtual loop; each worker of a simulation has one of its own."""

    inline = True
    proxies = False  # of the machine that runs the simulation; its network has none

    def __init__(self, loop: VirtualLoop, seed: object = 0, began: float = EPOCH) -> None:
        super().__init__()
        self.ahead = 0.0
        """Seconds by which this worker's time of day is ahead of the true one; monotonic time never jumps."""
        self._loop = loop
        self._began = began
        self._random = Random(f"runtime {seed}")

    def time(self) -> float:
        return self._began + self._loop.time() + self.ahead

    def monotonic(self) -> float:
        return self._loop.time()

    def wait(self, seconds: Seconds) -> None:
        raise RuntimeError(f"something blocks for {seconds:g} s, but a virtual clock stands still meanwhile")

    def random(self) -> float:
        return self._random.random()

    def tokens(self, count: int) -> list[str]:
        return [self.token() for _ in range(count)]

    def token(self) -> str:
        return f"{self._random.getrandbits(128):032x}"

    async def blocking(self, function: Callable[..., T], *args: Any, linger: Seconds = 0.0) -> T:
        """Call the function here; other tasks get their turn before and after it, as with a thread."""
        await asyncio.sleep(0)
        result = function(*args)
        await asyncio.sleep(0)
        return result

    def drawn(self, items: Iterable[T], most: int) -> Drawn[T]:
        return _DrawnHere(items, most)

    async def command(
        self, program: Sequence[str], text: str, variables: Mapping[str, str], within: Seconds
    ) -> Ended:
        raise NotStarted(f"{program[0]} is not started: a simulation runs no programs")


class _DrawnHere(Drawn[T]):
    """Iterates on the loop; an item is given as soon as it is there."""

    async def come(self) -> AsyncGenerator[list[T], None]:
        try:
            for item in self._items:
                await asyncio.sleep(0)
                yield [item]
        finally:
            close = getattr(self._items, "close", None)
            if close:
                close()
            self.ended.set()
