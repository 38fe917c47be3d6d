"""Group commit: a queue in front of any store, so that what is asked meanwhile leaves together.

Who waits and who leads is decided by `core.line`; here is only how an asker waits for its turn.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING

from onefold.core.entry import Change, Reply, Seen, State
from onefold.core.flow import Found
from onefold.core.key import Key
from onefold.core.line import Ask, Line, send
from onefold.core.ports import AsyncClock, AsyncStore, Clock, Store
from onefold.core.sightings import Sightings, of_others
from onefold.drive.process import PROCESS
from onefold.drive.waiting import AsyncPorts, AsyncWallClock, Ports, WallClock, arun, run

if TYPE_CHECKING:
    import asyncio


class Merged:
    """A queue in front of a store: concurrent swaps leave together. One asker leads; no thread of its own."""

    def __init__(self, store: Store, clock: Clock | None = None) -> None:
        self._store = store
        self._clock = clock or WallClock()
        self._renew()

    def _renew(self) -> None:
        # A forked child inherits the line in whatever state it was, with askers that are not in the child.
        self._process = PROCESS.number
        self._lock = threading.Lock()
        self._line = Line()
        self._sightings = Sightings()

    def swap(self, changes: Sequence[Change]) -> Sequence[Reply]:
        """Send changes together with whatever else is asked meanwhile."""
        if self._process != PROCESS.number:
            self._renew()
        with self._lock:
            alone = self._line.lead_alone()
        if alone:  # nobody else asks: send at once, and then let those in who came meanwhile
            try:
                replies = self._store.swap(changes)
            finally:
                with self._lock:
                    self._line.hand_on()
        else:
            replies = self._in_line(changes)
        if not of_others(changes, replies):
            return replies
        with self._lock:
            return self._sightings.judge(changes, replies, self._clock.monotonic())

    def _in_line(self, changes: Sequence[Change]) -> Sequence[Reply]:
        turn = threading.Lock()
        turn.acquire()
        ask = Ask(changes, turn.release)
        with self._lock:
            self._line.enter(ask)
        if not ask.leads:
            self._wait(ask, turn)
        if ask.open:
            self._lead(ask)
        return ask.answer()

    def _wait(self, ask: Ask, turn: threading.Lock) -> None:
        try:
            turn.acquire()
        except BaseException:
            with self._lock:
                self._line.leave(ask)
                if ask.leads and ask.open:
                    self._line.hand_on()
            raise

    def _lead(self, mine: Ask) -> None:
        mine.wake = _nothing
        try:
            with self._lock:
                batch = self._line.take(mine)
            run(send(batch), Ports(self._store, self._clock))
        finally:
            with self._lock:
                self._line.hand_on()

    def get(self, keys: Sequence[Key]) -> Sequence[Seen]:
        return self._store.get(keys)

    def scan(
        self, scope: str | None, states: Sequence[State], due: bool, after: str | None, limit: int
    ) -> tuple[Sequence[Found], str | None]:
        return self._store.scan(scope, states, due, after, limit)

    def close(self) -> None:
        self._store.close()


class AsyncMerged:
    """The same queue, awaited; everything on one event loop, so nothing needs a lock."""

    def __init__(self, store: AsyncStore, clock: AsyncClock | None = None) -> None:
        self._store = store
        self._ports = AsyncPorts(store, clock or AsyncWallClock())
        self._line = Line()
        self._sightings = Sightings()

    async def swap(self, changes: Sequence[Change]) -> Sequence[Reply]:
        """Send changes together with whatever else is asked meanwhile."""
        alone = not self._line.crowded and self._line.lead_alone()
        replies = await (self._alone(changes) if alone else self._in_line(changes))
        if not of_others(changes, replies):
            return replies
        return self._sightings.judge(changes, replies, await self._ports.clock.monotonic())

    async def _alone(self, changes: Sequence[Change]) -> Sequence[Reply]:
        """Nobody else asks: send at once, and then let those in who came meanwhile."""
        try:
            return await self._store.swap(changes)
        finally:
            self._line.hand_on()

    async def _in_line(self, changes: Sequence[Change]) -> Sequence[Reply]:
        import asyncio

        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        # Called for the lead and again for the answer; one who was cancelled needs neither.
        ask = Ask(changes, lambda: None if turn.done() else turn.set_result(None))
        self._line.enter(ask)
        if not ask.leads:
            await self._wait(ask, turn)
        if ask.open:
            await self._lead(ask)
        return ask.answer()

    async def _wait(self, ask: Ask, turn: asyncio.Future[None]) -> None:
        try:
            await turn
        except BaseException:
            self._line.leave(ask)
            if ask.leads and ask.open:
                self._line.hand_on()
            raise

    async def _lead(self, mine: Ask) -> None:
        try:
            if self._line.crowded:
                # Who was answered a moment ago asks again in this round of the loop; threads have none.
                await self._ports.clock.sleep(0)
            await arun(send(self._line.take(mine)), self._ports)
        finally:
            self._line.leave(mine)
            self._line.hand_on()

    async def get(self, keys: Sequence[Key]) -> Sequence[Seen]:
        return await self._store.get(keys)

    async def scan(
        self, scope: str | None, states: Sequence[State], due: bool, after: str | None, limit: int
    ) -> tuple[Sequence[Found], str | None]:
        return await self._store.scan(scope, states, due, after, limit)

    async def close(self) -> None:
        await self._store.close()


def _nothing() -> None:
    """Wake nobody: a leader waits for no one."""
