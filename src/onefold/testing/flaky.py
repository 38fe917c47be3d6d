"""A store with faults in front of it: it fails, loses replies, breaks off in the middle, or is late.

Faults come from a script or from a seed, one per call, and a journal says what was really done. Without
faults it is the store behind it, and passes the same contract. It must not decide anything about keys.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Sequence
from enum import Enum
from random import Random
from typing import Any, NamedTuple

from onefold.core.entry import UNKNOWN, Change, Reply, Seen, State
from onefold.core.errors import Unreachable
from onefold.core.flow import Call, Found, get, scan, sleep, swap
from onefold.core.key import Key
from onefold.core.ports import AsyncClock, AsyncStore, Clock, Store
from onefold.drive import AsyncPorts, Ports, arun, run
from onefold.testing.clock import FakeClock


class Fault(Enum):
    """What goes wrong with one call. A read is known or not: where a write is unknown, a read is an error."""

    FAILS = "the call is not made; the caller hears an error"
    LOSES = "the call is made; the caller hears *unknown*"
    CUTS = "the call is made; the caller hears an error"
    HALVES = "every second change is tried; the caller hears *unknown* for all"


class Delay(NamedTuple):
    """The call is made late, by the clock of the flaky store; and then perhaps something goes wrong."""

    seconds: float
    then: Fault | None = None


Mishap = Fault | Delay | None


class Act(NamedTuple):
    """What was really done with one call."""

    call: str
    asked: tuple[Any, ...]
    """The arguments that reached the store; all of them, unless the call was halved or not made."""
    mishap: Mishap
    said: Any = None
    """What the store replied, whether or not the caller heard it; None if it was not asked."""


def at_random(seed: int, rate: float = 0.2, faults: Sequence[Mishap] = tuple(Fault)) -> Iterator[Mishap]:
    """Draw mishaps for ever, the same for the same seed; `rate` is the share of calls that suffer one."""
    drawn = Random(seed)
    while True:
        yield drawn.choice(faults) if drawn.random() < rate else None


class _Weather:
    """What befalls each call, in order, and the journal of it. After the script the sky is clear."""

    def __init__(self, mishaps: Iterable[Mishap]) -> None:
        self._mishaps = iter(mishaps)
        self._drawing = threading.Lock()
        self.journal: list[Act] = []

    async def over(self, call: Call[Any]) -> Any:
        """Make a call as far as the weather allows; a flow, so that both colours suffer alike."""
        with self._drawing:
            mishap = next(self._mishaps, None)
        if isinstance(mishap, Delay):
            await sleep(mishap.seconds)
        fault = mishap.then if isinstance(mishap, Delay) else mishap
        if fault is Fault.FAILS:
            self.journal.append(Act(call.name, (), mishap))
            raise Unreachable(f"{call} failed on purpose; nothing was asked")
        made = _halved(call) if fault is Fault.HALVES else call
        said = await made
        self.journal.append(Act(made.name, made.args, mishap, said))
        return said if fault is None else _unheard(call, fault)


def _halved(call: Call[Any]) -> Call[Any]:
    return swap(call.args[0][::2]) if call.name == "swap" else call


def _unheard(call: Call[Any], fault: Fault) -> Sequence[Reply]:
    if call.name != "swap" or fault is Fault.CUTS:
        raise Unreachable(f"{call} broke off on purpose; it was made, and nobody heard the reply")
    return [UNKNOWN] * len(call.args[0])


class Flaky:
    """A blocking store with faults."""

    def __init__(self, store: Store, mishaps: Iterable[Mishap] = (), clock: Clock | None = None) -> None:
        self._weather = _Weather(mishaps)
        self._ports = Ports(store, clock or FakeClock())

    @property
    def journal(self) -> Sequence[Act]:
        """What was done with each call so far."""
        return self._weather.journal

    def get(self, keys: Sequence[Key]) -> Sequence[Seen]:
        found: Sequence[Seen] = run(self._weather.over(get(keys)), self._ports)
        return found

    def swap(self, changes: Sequence[Change]) -> Sequence[Reply]:
        replies: Sequence[Reply] = run(self._weather.over(swap(changes)), self._ports)
        return replies

    def scan(
        self, scope: str | None, states: Sequence[State], due: bool, after: str | None, limit: int
    ) -> tuple[Sequence[Found], str | None]:
        call = scan(scope, states, due, after, limit)
        page: tuple[Sequence[Found], str | None] = run(self._weather.over(call), self._ports)
        return page

    def close(self) -> None:
        self._ports.store.close()


class AsyncFlaky:
    """An awaited store with faults."""

    def __init__(
        self, store: AsyncStore, mishaps: Iterable[Mishap] = (), clock: AsyncClock | None = None
    ) -> None:
        self._weather = _Weather(mishaps)
        self._ports = AsyncPorts(store, clock or FakeClock().awaited)

    @property
    def journal(self) -> Sequence[Act]:
        """What was done with each call so far."""
        return self._weather.journal

    async def get(self, keys: Sequence[Key]) -> Sequence[Seen]:
        found: Sequence[Seen] = await arun(self._weather.over(get(keys)), self._ports)
        return found

    async def swap(self, changes: Sequence[Change]) -> Sequence[Reply]:
        replies: Sequence[Reply] = await arun(self._weather.over(swap(changes)), self._ports)
        return replies

    async def scan(
        self, scope: str | None, states: Sequence[State], due: bool, after: str | None, limit: int
    ) -> tuple[Sequence[Found], str | None]:
        call = scan(scope, states, due, after, limit)
        page: tuple[Sequence[Found], str | None] = await arun(self._weather.over(call), self._ports)
        return page

    async def close(self) -> None:
        await self._ports.store.close()
