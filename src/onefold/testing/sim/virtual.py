"""An event loop on which time passes only when nobody has anything to do: an hour of waiting costs nothing.

Everything on it is deterministic as long as nobody asks a thread or a socket. It simulates time, not faults.
"""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Awaitable
from typing import TypeVar

T = TypeVar("T")


class _Idle(selectors.SelectSelector):
    """Waits for nobody: what the loop would have slept is added to its clock."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None:
            raise RuntimeError("everybody waits for ever: nothing is scheduled any more")
        self.now += max(timeout, 0.0)
        return super().select(0)


class VirtualLoop(asyncio.SelectorEventLoop):
    """Runs tasks on its own time, which starts at 0."""

    def __init__(self) -> None:
        self._idle = _Idle()
        super().__init__(self._idle)

    def time(self) -> float:
        return self._idle.now

    def live(self, life: Awaitable[T]) -> T:
        """Run something to its end; whatever it left behind is cancelled."""
        try:
            return self.run_until_complete(life)
        finally:
            self._bury()

    def _bury(self) -> None:
        left = asyncio.all_tasks(self)
        for task in left:
            task.cancel()
        if left:
            self.run_until_complete(asyncio.gather(*left, return_exceptions=True))


class VirtualClock:
    """The clock of a process on a virtual loop, awaited; it starts wherever the loop's does."""

    def __init__(self, loop: VirtualLoop) -> None:
        self._loop = loop

    async def monotonic(self) -> float:
        return self._loop.time()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
