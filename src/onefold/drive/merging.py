"""Group commit: a queue in front of any store, so that what is asked meanwhile leaves together.

What leaves together, and what a failed call means for the others, is decided by `core.line`. Threads wait
in a queue of `drive.guard`, whose first call leads; on an event loop `core.line` says who leads.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from onefold.core.entry import Change, Reply, Seen, State
from onefold.core.flow import Found
from onefold.core.key import Key
from onefold.core.line import Ask, Line, send, together
from onefold.core.ports import AsyncClock, AsyncStore, Clock, Store
from onefold.core.sightings import Sightings, of_others
from onefold.drive.guard import Call, Guard, Queue
from onefold.drive.waiting import AsyncPorts, AsyncWallClock, Ports, WallClock, arun, run
from onefold.runtime.process import PROCESS

if TYPE_CHECKING:
    import asyncio


class Merged:
    """A queue in front of a store: concurrent swaps leave together. One asker leads; no thread of its own.

    The first call in the queue leads. It sends its own changes and those of the calls behind it, and leaves.
    An interrupt may end a leader before it answers the others. They are still in the queue then, and the
    next of them sends its changes (again): versions and tokens tell what was written.
    """

    def __init__(self, store: Store, clock: Clock | None = None) -> None:
        self._store = store
        self._clock = clock or WallClock()
        self._renew()

    def _renew(self) -> None:
        # A forked child inherits the queue in whatever state it was, with calls that are not in the child.
        self._process = PROCESS.number
        self._queue = Queue()
        self._sightings = Sightings()
        self._guard = Guard()

    def swap(self, changes: Sequence[Change]) -> Sequence[Reply]:
        """Send changes together with whatever else is asked meanwhile."""
        if self._process != PROCESS.number:
            self._renew()
        queue, call = self._queue, Call(sys._getframe())
        try:
            # Nobody else asks: send immediately. Whatever is asked meanwhile waits for its turn.
            alone = queue.enter(call)
            replies = self._store.swap(changes) if alone else self._in_line(queue, call, changes)
        finally:
            queue.leave(call)
        if not of_others(changes, replies):
            return replies
        with self._guard:
            return self._sightings.judge(changes, replies, self._clock.monotonic())

    def _in_line(self, queue: Queue, call: Call, changes: Sequence[Change]) -> Sequence[Reply]:
        mine = call.ask = Ask(changes, call.wake)
        queue.wait(call)
        if mine.open:
            asks = [one.ask for one in queue.calls.copy() if one.ask is not None and one.ask.open]
            run(send(together(mine, asks)), Ports(self._store, self._clock))
        return mine.answer()

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

    def __init__(
        self, store: AsyncStore, clock: AsyncClock | None = None, sightings: Sightings | None = None
    ) -> None:
        self._store = store
        self._ports = AsyncPorts(store, clock or AsyncWallClock())
        self._line = Line()
        self._sightings = Sightings() if sightings is None else sightings

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

        loop = asyncio.get_running_loop()
        turn: asyncio.Future[None] = loop.create_future()

        def wake() -> None:
            # Called for the lead and again for the answer; one who was cancelled needs neither. A call that
            # is dropped after its loop was closed hands the lead on to others that cannot run either.
            if not turn.done() and not loop.is_closed():
                turn.set_result(None)

        ask = Ask(changes, wake)
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
