"""A simulated process: tasks that drive flows, one line to the store, one heart for all that is held.

Tasks run until they wait; whatever they wait for wakes them by an event of the world. A death drops
the tasks as they are: nothing of theirs runs any more, no `finally` and no farewell. The line and the
heart do what `drive.AsyncMerged` and `drive.AsyncHeart` do, by the same parts of the core.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Generator, Sequence
from typing import TYPE_CHECKING, Any

from onefold.core.claims import Answer, Bid, Hold
from onefold.core.entry import Change, Reply
from onefold.core.flow import swap
from onefold.core.line import Ask, Line, send
from onefold.core.pulse import Pulse, due, soonest
from onefold.core.sightings import Sightings
from proof.sim import watched
from proof.sim.subject import NEVER, Op

if TYPE_CHECKING:
    from proof.sim.world import World

Script = Coroutine[Any, Any, object]


ALONE: Sequence[Ask] = (Ask((), bool),)
"""The batch of whoever sends without standing in line."""


class Cancelled(BaseException):
    """What a cancelled task feels."""


class Pending:
    """Something to wait for that is no call of a flow: `start` sees to it that the task is woken."""

    __slots__ = ("start",)

    def __init__(self, start: Callable[[Task], None]) -> None:
        self.start = start

    def __await__(self) -> Generator[Pending, Any, Any]:
        reply = yield self
        return reply


class Task:
    """One thing a process does. Its scripts and flows stand on a stack; the top one runs."""

    __slots__ = (
        "batch", "cancellable", "epoch", "ops", "process", "stack", "world",
    )  # fmt: skip

    def __init__(self, process: Process, cancellable: bool = False) -> None:
        self.process = process
        self.world = process.world
        self.cancellable = cancellable
        self.epoch = 0
        self.stack: list[Script] = []
        self.ops: Sequence[Op] = ()
        self.batch: Sequence[Ask] = ()

    def start(self, script: Script) -> None:
        """Begin a script now."""
        self.stack.append(script)
        self.world.at(self.world.now, self.wake, self.epoch)

    def wake(self, epoch: int, value: Any = None, error: BaseException | None = None) -> None:
        """Go on, unless the process is dead or stopped, or the task no longer waits for this."""
        process = self.process
        if epoch != self.epoch or process.dead:
            return
        if process.frozen > self.world.now:
            self.world.at(process.frozen, self.wake, epoch, value, error)
            return
        if process.mortal and process.struck(self):
            if process.frozen > self.world.now:
                self.world.at(process.frozen, self.wake, epoch, value, error)
            return
        self.step(value, error)

    def step(self, value: Any, error: BaseException | None) -> None:
        """Run until something has to be waited for."""
        self.epoch += 1
        stack = self.stack
        while stack:
            try:
                call: Any = stack[-1].send(value) if error is None else stack[-1].throw(error)
            except StopIteration as stop:
                del stack[-1]
                value, error = stop.value, None
                continue
            except BaseException as raised:
                del stack[-1]
                value, error = None, raised
                continue
            value, error = None, None
            if type(call) is Pending:
                call.start(self)
                return
            if call.port == "clock":
                if call.name == "monotonic":
                    value = self.process.offset + self.world.now
                    continue
                self.world.at(self.world.now + call.args[0], self.wake, self.epoch)
                return
            if call.name == "swap" and not self.batch:
                stack.append(self._merged(call.args[0]))
                continue
            self.world.network.send(self, call)
            return
        self._finished(error)

    def cancel(self) -> None:
        """Throw a cancellation into whatever the task waits for; it feels it once."""
        self.cancellable = False
        for op in self.ops:
            op.cancelled = op.unsure = True
        self.world.note(self.process.name, "has a task cancelled")
        self.step(None, Cancelled())

    def interrupt(self) -> None:
        """Cancel the effect under way, as soon as the present step is over."""
        self.world.at(self.world.now, self.wake, self.epoch, None, Cancelled())

    def _finished(self, error: BaseException | None) -> None:
        if error is not None and not isinstance(error, Cancelled):
            raise error

    async def _merged(self, changes: Sequence[Change]) -> Sequence[Reply]:
        """Send changes as `drive.AsyncMerged` does: alone if nobody else asks, or in line."""
        process = self.process
        if process.line.lead_alone():
            replies = await self._lead(ALONE, swap(changes))
        else:
            replies = await self._in_line(changes)
        return process.sightings.judge(changes, replies, process.offset + self.world.now)

    async def _in_line(self, changes: Sequence[Change]) -> Sequence[Reply]:
        turn = Turn(self)
        ask, line = Asking(changes, turn), self.process.line
        line.enter(ask)
        if not ask.leads:
            await self._wait(ask, turn)
        if ask.open:
            batch = line.take(ask)
            await self._lead(batch, send(batch))
        return ask.answer()

    async def _lead(self, batch: Sequence[Ask], call: Awaitable[Any]) -> Any:
        self.batch = batch
        try:
            return await call
        finally:
            self.batch = ()
            self.process.line.hand_on()

    async def _wait(self, ask: Ask, turn: Turn) -> None:
        line = self.process.line
        try:
            await Pending(turn.wait)
        except BaseException:
            line.leave(ask)
            if ask.leads and ask.open:
                line.hand_on()
            raise


class Turn:
    """Wakes an asker when its turn or its answer came."""

    __slots__ = ("called", "task", "waits")

    def __init__(self, task: Task) -> None:
        self.task = task
        self.called = False
        self.waits = -1

    def __call__(self) -> None:
        self.called = True
        if self.waits == self.task.epoch:
            self.task.world.at(self.task.world.now, self.task.wake, self.waits)

    def wait(self, task: Task) -> None:
        self.waits = task.epoch
        if self.called:
            self()


class Asking(Ask):
    """An ask that knows whose it is."""

    __slots__ = ("task",)

    def __init__(self, changes: Sequence[Change], turn: Turn) -> None:
        super().__init__(changes, turn)
        self.task = turn.task


class Process:
    """One life of a worker: from its start to its death it has one line, one memory and one heart."""

    __slots__ = (
        "beats_at", "dead", "frozen", "heart", "life", "line", "mortal", "name", "offset", "pulses", "seat",
        "sightings", "skew", "world",
    )  # fmt: skip

    def __init__(self, world: World, seat: int, life: int, offset: float, mortal: bool) -> None:
        self.world = world
        self.seat = seat
        self.life = life
        self.name = f"w{seat}.{life}"
        self.offset = offset
        """Its monotonic clock counts from its own, wrong wall clock: mistaking one for the other shows."""
        self.skew = 0.0
        """By how much its clock is off, where it stands in for the store's."""
        self.mortal = mortal
        self.dead = False
        self.frozen = 0.0
        self.line = Line()
        self.sightings = Sightings()
        self.pulses: list[Pulse] = []
        self.heart: Task | None = None
        self.beats_at = -NEVER
        """Until when the heart rests; it must not be woken while it asks."""

    def struck(self, task: Task) -> bool:
        """Let the process die, stop for a while, or have a task cancelled, if that is its lot now."""
        world, knobs = self.world, self.world.knobs
        lot = world.fate.random()
        if lot < knobs.death:
            self.die()
            return True
        lot -= knobs.death
        if lot < knobs.stall:
            self.frozen = world.now + knobs.lease * world.fate.choice((0.5, 1.2, 1.2, 3.0))
            world.note(self.name, f"stands still until {self.frozen:.3f}")
            return True
        if task.cancellable and lot - knobs.stall < knobs.cancel:
            task.cancel()
            return True
        return False

    def die(self) -> None:
        """Stop for ever; somebody else sits down in its place a little later."""
        self.dead = True
        self.world.note(self.name, "dies")
        self.world.at(
            self.world.now + self.world.knobs.lease * self.world.fate.random(), self.world.restart, self
        )

    # ----- the heart

    def keep(self, bid: Bid, answer: Answer) -> Pulse:
        """Keep a claim alive from now on."""
        assert answer.entry is not None
        pulse = Pulse.of(Hold(bid.key, bid.token, answer.entry, answer.since), bid.terms)
        self.pulses.append(pulse)
        if self.heart is None:
            self.heart = Task(self)
            self.world.go(self.heart, self._beat)
        elif pulse.next < self.beats_at:
            self.world.at(self.world.now, self.heart.wake, self.heart.epoch)
        return pulse

    def drop(self, pulse: Pulse) -> None:
        """Let a claim be."""
        if pulse in self.pulses:
            self.pulses.remove(pulse)

    async def _beat(self, heart: Task) -> None:
        while self.pulses:
            now = self.offset + self.world.now
            batch = due(self.pulses, now)
            if batch:
                await self._renew(heart, batch)
                continue
            if soonest(self.pulses) == NEVER:
                break
            self.beats_at = soonest(self.pulses)
            await Pending(self._rest)
            self.beats_at = -NEVER
        self.heart = None

    def _rest(self, task: Task) -> None:
        self.world.at(self.beats_at - self.offset, task.wake, task.epoch)

    async def _renew(self, heart: Task, batch: Sequence[Pulse]) -> None:
        answers = await watched.renewed(heart, [pulse.hold for pulse in batch])
        now = self.offset + self.world.now
        for pulse, answer in zip(batch, answers, strict=True):
            if pulse in self.pulses:
                pulse.hear(answer, now)
