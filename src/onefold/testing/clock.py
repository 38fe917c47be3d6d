"""A clock that stands still until it is moved: this process's monotonic time and the time of day in one.

It serves as the clock of a driver (`Ports(store, clock)`), as the time of day of a store
(`MemoryStore(clock)`), and for both colours. Letting time pass moves both times; a jump moves only the
time of day, as an operator or NTP would. It must never read a real clock.
"""

from __future__ import annotations

import asyncio
import threading

START = 1_700_000_000.5
"""Seconds since 1970 at which a fake clock starts; with a fraction, so that rounding shows."""


class FakeClock:
    """Both times of a process, moved by hand. Call it for the time of day, in seconds since 1970."""

    def __init__(self, wall: float = START, monotonic: float = 1000.0) -> None:
        self._moving = threading.Lock()
        self._wall = wall
        self._monotonic = monotonic

    def __call__(self) -> float:
        return self._wall

    def monotonic(self) -> float:
        """Return this process's monotonic time; it never goes back."""
        return self._monotonic

    def sleep(self, seconds: float) -> None:
        """Let time pass, at once."""
        with self._moving:
            self._wall += max(seconds, 0.0)
            self._monotonic += max(seconds, 0.0)

    def jump(self, seconds: float) -> None:
        """Set the time of day forth or back; for the process itself no time passes."""
        with self._moving:
            self._wall += seconds

    @property
    def awaited(self) -> AwaitedClock:
        """The same clock for `AsyncPorts`."""
        return AwaitedClock(self)


class AwaitedClock:
    """A fake clock, awaited; a sleep lets the other tasks of the loop go first."""

    def __init__(self, clock: FakeClock) -> None:
        self.clock = clock

    async def monotonic(self) -> float:
        return self.clock.monotonic()

    async def sleep(self, seconds: float) -> None:
        self.clock.sleep(seconds)
        await asyncio.sleep(0)
