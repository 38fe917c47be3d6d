"""How fast a far side may be asked: so many everywhere, so many to one address.

`Slots` decides by numbers alone; `Pace` reads the clock and waits. Whoever would wait for long is sent away
with `Later` instead, so that it takes up no room that others could use.
"""

from __future__ import annotations

from typing import NamedTuple

from onefold.core.errors import Later
from onefold.core.ports import AsyncClock
from onefold.core.terms import Seconds
from onefold.drive import AsyncWallClock

PATIENCE: Seconds = 3.0
"""How long a message waits for its turn before it is told to come later."""

REMEMBERED = 10_000
"""After how many addresses those that are free again are forgotten."""


class Rates(NamedTuple):
    """Seconds between two messages: to anybody, to one person, to one group."""

    everywhere: Seconds = 1 / 30
    person: Seconds = 1.0
    group: Seconds = 3.0

    def gap(self, address: str) -> Seconds:
        """Say how far apart messages to one address must be; groups begin with a minus or an at sign."""
        return self.group if address.startswith(("-", "@")) else self.person


class Slots:
    """From when on each address, and the far side as a whole, may be asked again."""

    def __init__(self, rates: Rates) -> None:
        self._rates = rates
        self._free: dict[str, float] = {}
        self._held: dict[str, float] = {}
        self._everywhere = 0.0

    def wait(self, address: str, now: float) -> Seconds:
        """Say how long an address must wait for its turn."""
        return max(self._free.get(address, 0.0) - now, 0.0)

    def take(self, address: str, now: float) -> Seconds:
        """Take the next turn of an address, and say how long it is until then."""
        wait = self.wait(address, now)
        self._free[address] = now + wait + self._rates.gap(address)
        if len(self._free) > REMEMBERED:
            self._free = {name: free for name, free in self._free.items() if free > now}
        return wait

    def crowd(self, now: float) -> Seconds:
        """Take the next turn of all, if it is there; otherwise say how long to wait before asking again."""
        if self._everywhere > now:
            return self._everywhere - now
        self._everywhere = now + self._rates.everywhere
        return 0.0

    def hold(self, address: str, seconds: Seconds, now: float) -> None:
        """Take in that the far side asked for a pause. If two addresses are told so, it means everybody."""
        self._free[address] = max(self._free.get(address, 0.0), now + seconds)
        self._held = {name: until for name, until in self._held.items() if until > now and name != address}
        if self._held:
            self._everywhere = max(self._everywhere, now + seconds)
        self._held[address] = now + seconds


class Pace:
    """Lets one after another pass, no faster than the far side takes them."""

    def __init__(self, rates: Rates, clock: AsyncClock | None = None, patience: Seconds = PATIENCE) -> None:
        self._slots = Slots(rates)
        self._clock = clock or AsyncWallClock()
        self._patience = patience

    async def turn(self, address: str) -> None:
        """Wait for the turn of an address; raise `Later` if that would take long."""
        now = await self._clock.monotonic()
        wait = self._slots.wait(address, now)
        if wait > self._patience:
            raise Later(f"messages to {address} are this far behind", wait)
        await self._clock.sleep(self._slots.take(address, now))
        while wait := self._slots.crowd(await self._clock.monotonic()):
            await self._clock.sleep(wait)

    async def wait(self, seconds: Seconds) -> None:
        """Wait, however long: for what cannot be sent away any more."""
        await self._clock.sleep(seconds)

    async def hold(self, address: str, seconds: Seconds) -> None:
        """Pause, because the far side asked for it."""
        self._slots.hold(address, seconds, await self._clock.monotonic())
