"""The only functions that wait: they make the calls that flows ask for.

`run` blocks and `arun` awaits; `Merged` and `AsyncMerged` put a queue in front of a store, so that
what is asked while a call is under way leaves together in the next; `Heart` and `AsyncHeart` keep
claims alive beside their effects. Everything passes one tap. No decision about a key is taken here.
What awaits imports asyncio when it is used: a command that blocks need not pay for it.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar

from onefold.core.claims import Answer
from onefold.core.entry import Change, Reply, Seen, State
from onefold.core.errors import Unreachable
from onefold.core.flow import Call, Flow, Found
from onefold.core.key import Key
from onefold.core.line import Ask, Line, send
from onefold.core.ports import AsyncClock, AsyncStore, Clock, Store
from onefold.core.protocol import renew
from onefold.core.pulse import Pulse, due, soonest
from onefold.core.sightings import Sightings, of_others

if TYPE_CHECKING:
    import asyncio

T = TypeVar("T")

GRACE = 5.0
"""Seconds that a cancelled flow has for each of its last calls."""

LINGER = 10.0
"""Seconds that a heart with nothing to do waits for more, because starting one costs more than a claim."""

LONGEST_REST = 3600.0
"""Seconds after which a heart looks around even if nothing seems due."""


class Event(NamedTuple):
    """What the tap sees: a call about to be made (`seconds` None), or what came of it."""

    call: Call[Any]
    seconds: float | None = None
    reply: Any = None
    error: BaseException | None = None


Tap = Callable[[Event], None]


class Tapped(Protocol):
    """What flows are driven against: ports by name, and who listens in."""

    @property
    def tap(self) -> Tap | None: ...


class WallClock:
    """This process's own clock."""

    monotonic = staticmethod(time.monotonic)
    sleep = staticmethod(time.sleep)


class AsyncWallClock:
    """This process's own clock, awaited."""

    async def monotonic(self) -> float:
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        import asyncio

        await asyncio.sleep(seconds)


_CLOCK = WallClock()
_ASYNC_CLOCK = AsyncWallClock()


@dataclass(frozen=True, slots=True)
class Ports:
    """What flows are driven against: a store and a clock, and who listens in."""

    store: Store
    clock: Clock = _CLOCK
    tap: Tap | None = None


@dataclass(frozen=True, slots=True)
class AsyncPorts:
    """The same, awaited."""

    store: AsyncStore
    clock: AsyncClock = _ASYNC_CLOCK
    tap: Tap | None = None
    grace: float = GRACE


# ----- the two ways to wait


def run(flow: Flow[T], ports: Tapped) -> T:
    """Drive a flow to its end, blocking."""
    tap = ports.tap
    reply: Any = None
    error: BaseException | None = None
    while True:
        try:
            call = flow.send(reply) if error is None else flow.throw(error)
        except StopIteration as end:
            result: T = end.value
            return result
        if not isinstance(call, Call):
            raise _not_a_call(call, flow)
        try:
            if tap is None:  # as `call.on` does, without a call of its own
                reply = getattr(getattr(ports, call.port), call.name)(*call.args)
            else:
                reply = _tapped(call, ports, tap)
            error = None
        except BaseException as raised:
            reply, error = None, raised


def _tapped(call: Call[Any], ports: Tapped, tap: Tap) -> Any:
    tap(Event(call))
    started = time.perf_counter()
    try:
        reply = call.on(ports)
    except BaseException as error:
        tap(Event(call, time.perf_counter() - started, error=error))
        raise
    tap(Event(call, time.perf_counter() - started, reply))
    return reply


async def arun(flow: Flow[T], ports: Tapped) -> T:
    """Drive a flow to its end, awaiting. Cancellation is thrown into the flow.

    Calls that the flow makes after that are shielded, each bounded by a grace time.
    """
    import asyncio

    reply: Any = None
    error: BaseException | None = None
    cancelled = False
    while True:
        try:
            call = flow.send(reply) if error is None else flow.throw(error)
        except StopIteration as end:
            result: T = end.value
            return result
        if not isinstance(call, Call):
            raise _not_a_call(call, flow)
        try:
            reply, error = await (_last(call, ports) if cancelled else _made(call, ports)), None
        except BaseException as raised:
            cancelled = cancelled or isinstance(raised, asyncio.CancelledError)
            reply, error = None, raised


def _made(call: Call[Any], ports: Tapped) -> Awaitable[Any]:
    made: Awaitable[Any] = call.on(ports) if ports.tap is None else _atapped(call, ports, ports.tap)
    return made


async def _atapped(call: Call[Any], ports: Tapped, tap: Tap) -> Any:
    tap(Event(call))
    started = time.perf_counter()
    try:
        reply = await call.on(ports)
    except BaseException as error:
        tap(Event(call, time.perf_counter() - started, error=error))
        raise
    tap(Event(call, time.perf_counter() - started, reply))
    return reply


async def _last(call: Call[Any], ports: Tapped) -> Any:
    import anyio

    grace: float = getattr(ports, "grace", GRACE)
    with anyio.move_on_after(grace, shield=True):
        return await _made(call, ports)
    raise Unreachable(f"{call} did not answer within {grace:.0f} s of grace after a cancellation")


def _not_a_call(awaited: object, flow: Flow[Any]) -> TypeError:
    flow.close()
    return TypeError(f"a flow awaits calls on its ports only, and this one awaited {awaited!r:.80}")


# ----- a blocking store, awaited


class Threaded:
    """A blocking store for awaiting: calls run in threads, to their end, even if the caller is cancelled."""

    def __init__(self, store: Store) -> None:
        self.store = store

    async def get(self, keys: Sequence[Key]) -> Sequence[Seen]:
        return await _in_thread(self.store.get, keys)

    async def swap(self, changes: Sequence[Change]) -> Sequence[Reply]:
        return await _in_thread(self.store.swap, changes)

    async def scan(
        self, scope: str | None, states: Sequence[State], due: bool, after: str | None, limit: int
    ) -> tuple[Sequence[Found], str | None]:
        return await _in_thread(self.store.scan, scope, states, due, after, limit)

    async def close(self) -> None:
        await _in_thread(self.store.close)


class Inline:
    """A store that never blocks for long, for awaiting: memory, or the caller's own connection."""

    def __init__(self, store: Store) -> None:
        self.store = store

    async def get(self, keys: Sequence[Key]) -> Sequence[Seen]:
        return self.store.get(keys)

    async def swap(self, changes: Sequence[Change]) -> Sequence[Reply]:
        return self.store.swap(changes)

    async def scan(
        self, scope: str | None, states: Sequence[State], due: bool, after: str | None, limit: int
    ) -> tuple[Sequence[Found], str | None]:
        return self.store.scan(scope, states, due, after, limit)

    async def close(self) -> None:
        self.store.close()


async def _in_thread(function: Callable[..., T], *args: Any) -> T:
    import anyio.to_thread

    return await anyio.to_thread.run_sync(function, *args)


# ----- group commit


class Merged:
    """A queue in front of a store: concurrent swaps leave together. One asker leads; no thread of its own."""

    def __init__(self, store: Store, clock: Clock | None = None) -> None:
        self._store = store
        self._clock = clock or _CLOCK
        self._pid = 0
        self._renew()

    def _renew(self) -> None:
        # A forked child inherits the line in whatever state it was, with askers that are not in the child.
        self._pid = os.getpid()
        self._lock = threading.Lock()
        self._line = Line()
        self._sightings = Sightings()

    def swap(self, changes: Sequence[Change]) -> Sequence[Reply]:
        """Send changes together with whatever else is asked meanwhile."""
        if self._pid != os.getpid():
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
        self._ports = AsyncPorts(store, clock or _ASYNC_CLOCK)
        self._line = Line()
        self._sightings = Sightings()

    async def swap(self, changes: Sequence[Change]) -> Sequence[Reply]:
        """Send changes together with whatever else is asked meanwhile."""
        replies = await (self._alone(changes) if self._line.lead_alone() else self._in_line(changes))
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
            await arun(send(self._line.take(mine)), self._ports)
        finally:
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


# ----- heartbeats


class Heart:
    """Renews everything held in one batch, from one daemon thread that lives while there is work."""

    def __init__(self, ports: Callable[[], Ports], linger: float = LINGER) -> None:
        self._ports = ports
        self._linger = linger
        self._reset()

    def _reset(self) -> None:
        self._pid = os.getpid()
        self._pulses: dict[int, Pulse] = {}
        self._changed = threading.Condition()
        self._wakes = float("inf")
        self._living = False

    def add(self, *pulses: Pulse) -> None:
        """Keep claims alive from now on."""
        if self._pid != os.getpid():
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
        with self._changed:
            if self._living:
                self._changed.notify()
                return
            self._living = True
            threading.Thread(target=self._live, name="onefold-heart", daemon=True).start()

    def _live(self) -> None:
        while batch := self._next():
            self._beat(batch)

    def _next(self) -> list[Pulse]:
        """Wait until something is due; nothing at all, for a while, ends the life."""
        clock = self._ports().clock
        with self._changed:
            while True:
                now, pulses = clock.monotonic(), list(self._pulses.values())
                if batch := due(pulses, now):
                    return batch
                self._wakes = min(soonest(pulses), now + (LONGEST_REST if pulses else self._linger))
                self._changed.wait(self._wakes - now)
                if not pulses and clock.monotonic() >= self._wakes and self._ends():
                    return []

    def _ends(self) -> bool:
        # In this order: what is added before the look is seen, what comes after finds `_wakes` at infinity.
        self._wakes = float("inf")
        self._living = bool(self._pulses)
        return not self._living

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
