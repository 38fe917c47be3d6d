"""Heartbeats: everything held is renewed in one batch, beside the effects.

What is due, and what an answer means for a claim, is decided by `core.pulse`; here is only the beating.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from contextvars import copy_context
from functools import partial
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING

from onefold.core.claims import Answer
from onefold.core.protocol import renew
from onefold.core.pulse import Pulse, due, soonest
from onefold.drive.guard import Guard
from onefold.drive.waiting import AsyncPorts, Ports, arun, run
from onefold.runtime import current
from onefold.runtime.process import PROCESS

if TYPE_CHECKING:
    import asyncio

LINGER = 10.0
"""Seconds that a heart with nothing to do waits for more, because starting one costs more than a claim."""

LONGEST_REST = 3600.0
"""Seconds after which a heart looks around even if nothing seems due."""


class Heart:
    """Renews everything held in one batch, from one daemon thread that lives while there is work.

    Where time is virtual there is no thread: the event loop beats as time passes.
    """

    def __init__(self, ports: Callable[[], Ports], linger: float = LINGER) -> None:
        self._ports = ports
        self._linger = linger
        self._reset()

    def _reset(self) -> None:
        self._process = PROCESS.number
        self._pulses: dict[int, Pulse] = {}
        self._guard = Guard()
        self._changed: SimpleQueue[None] = SimpleQueue()
        self._wakes = float("inf")
        self._thread: threading.Thread | None = None
        self._timer: asyncio.TimerHandle | None = None

    def add(self, *pulses: Pulse) -> None:
        """Keep claims alive from now on."""
        if self._process != PROCESS.number:
            self._reset()  # a forked child has none of its parent's threads, and must not renew its claims
        first = float("inf")
        for pulse in pulses:
            self._pulses[id(pulse)] = pulse
            first = pulse.next if pulse.next < first else first
        # A heart that is about to end has `_wakes` at infinity, so this is never missed.
        if first < self._wakes:
            self._wake()

    def drop(self, *pulses: Pulse) -> None:
        """Let claims be; an answer that is still on its way is not heard any more."""
        for pulse in pulses:
            self._pulses.pop(id(pulse), None)

    def _wake(self) -> None:
        loop = current().loop
        if loop is not None:
            self._beat_on(loop)
            return
        with self._guard:
            # Asked of the thread itself: an interrupt may have come before it was started.
            if self._thread is not None and self._thread.is_alive():
                self._changed.put(None)
                return
            # In a copy of the context: the clock of this heart is that of the claims it renews.
            live = partial(copy_context().run, self._live)
            self._thread = threading.Thread(target=live, name="onefold-heart", daemon=True)
            self._thread.start()

    def _beat_on(self, loop: asyncio.AbstractEventLoop) -> None:
        """Have a loop beat when the next claim is due."""
        if self._timer is not None:
            self._timer.cancel()
        self._wakes = soonest(list(self._pulses.values()))
        if self._wakes < float("inf"):
            rest = max(self._wakes - self._ports().clock.monotonic(), 0.0)
            self._timer = loop.call_later(rest, self._beat_due, loop)

    def _beat_due(self, loop: asyncio.AbstractEventLoop) -> None:
        if batch := due(list(self._pulses.values()), self._ports().clock.monotonic()):
            self._beat(batch)
        self._beat_on(loop)

    def _live(self) -> None:
        while batch := self._next():
            self._beat(batch)

    def _next(self) -> list[Pulse]:
        """Wait until something is due; nothing at all, for a while, ends the life."""
        clock = self._ports().clock
        while threading.current_thread() is self._thread:
            now, pulses = clock.monotonic(), list(self._pulses.values())
            if batch := due(pulses, now):
                return batch
            self._wakes = min(soonest(pulses), now + (LONGEST_REST if pulses else self._linger))
            with suppress(Empty):
                self._changed.get(timeout=max(self._wakes - now, 0.0))
                continue
            if not pulses and self._ends():
                break
        return []

    def _ends(self) -> bool:
        with self._guard:
            # In this order: what is added before the look is seen, what comes after finds `_wakes` at
            # infinity, and then no thread.
            self._wakes = float("inf")
            if not self._pulses:
                self._thread = None
        return self._thread is None

    def _beat(self, batch: Sequence[Pulse]) -> None:
        ports = self._ports()
        try:
            answers = run(renew([pulse.hold for pulse in batch]), ports)
        except Exception:  # whatever it was, nothing is known to be renewed; the next beat asks again
            answers = [Answer("unknown")] * len(batch)
        now = ports.clock.monotonic()
        for pulse, answer in zip(batch, answers, strict=True):
            if id(pulse) in self._pulses:
                pulse.hear(answer, now)


class AsyncHeart:
    """The same, as one task on the running event loop."""

    def __init__(self, ports: Callable[[], AsyncPorts], linger: float = LINGER) -> None:
        import asyncio

        self._ports = ports
        self._linger = linger
        self._pulses: dict[int, Pulse] = {}
        self._wakes = float("inf")
        self._changed = asyncio.Event()
        self._life: asyncio.Task[None] | None = None

    def add(self, *pulses: Pulse) -> None:
        """Keep claims alive from now on."""
        import asyncio

        if not pulses:
            return
        self._pulses.update(zip(map(id, pulses), pulses, strict=True))
        loop = asyncio.get_running_loop()
        if self._life is None or self._life.done() or self._life.get_loop() is not loop:
            self._changed = asyncio.Event()
            self._life = loop.create_task(self._live(), name="onefold-heart")
        elif soonest(pulses) < self._wakes:
            self._changed.set()

    def drop(self, *pulses: Pulse) -> None:
        """Let claims be; an answer that is still on its way is not heard any more."""
        for pulse in pulses:
            self._pulses.pop(id(pulse), None)

    async def _live(self) -> None:
        while batch := await self._next():
            await self._beat(batch)

    async def _next(self) -> list[Pulse]:
        import asyncio

        clock = self._ports().clock
        while True:
            now, pulses = await clock.monotonic(), list(self._pulses.values())
            if batch := due(pulses, now):
                return batch
            self._wakes = min(soonest(pulses), now + (LONGEST_REST if pulses else self._linger))
            self._changed.clear()
            with suppress(TimeoutError):
                await asyncio.wait_for(self._changed.wait(), self._wakes - now)
                continue
            if not self._pulses:
                self._wakes = float("inf")
                return []

    async def _beat(self, batch: Sequence[Pulse]) -> None:
        ports = self._ports()
        try:
            answers = await arun(renew([pulse.hold for pulse in batch]), ports)
        except Exception:  # whatever it was, nothing is known to be renewed; the next beat asks again
            answers = [Answer("unknown")] * len(batch)
        now = await ports.clock.monotonic()
        for pulse, answer in zip(batch, answers, strict=True):
            if id(pulse) in self._pulses:
                pulse.hear(answer, now)
