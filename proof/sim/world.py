"""One history: virtual time, the production store under a clock that may jump, and everybody in it.

Everything that happens is an event on one heap, so that a seed says it all: nothing reads a wall clock,
draws from a shared stream or depends on the order of a hash. First chaos, then everything heals, and
whatever is still open has to come to an end.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from heapq import heappop, heappush
from typing import Any, cast

from msgspec.structs import replace

from onefold.core.entry import Change, Effect, Reply, Seen, State
from onefold.core.flow import Found
from onefold.core.key import Key
from onefold.stores.memory import MemoryStore
from proof.sim import people, rules, worker
from proof.sim.faults import ATTEMPTS, KEEPS, Knobs, drawn, stream, terms
from proof.sim.network import Network
from proof.sim.process import Process, Script, Task
from proof.sim.subject import Op, Subject, Write

EPOCH = 1_700_000_000.0
EVENTS = 6_000
"""More events than any history needs: who comes so far goes round in circles."""

EFFECTS: tuple[Effect, ...] = ("one-shot", "one-shot", "keyed", "idempotent", "joined")


class Violation:
    """A promise that was broken: which checker saw it, when, about which key."""

    __slots__ = ("at", "checker", "subject", "text")

    def __init__(self, checker: str, subject: Subject | None, at: float, text: str) -> None:
        self.checker = checker
        self.subject = subject
        self.at = at
        self.text = text

    def __str__(self) -> str:
        return f"{self.checker}: {self.subject or 'the history'} at {self.at:.3f}: {self.text}"


class Clockless(MemoryStore):
    """The production store without a clock of its own: every reply says how far clocks may be apart."""

    def __init__(self, clock: Callable[[], float], skew: float) -> None:
        super().__init__(clock)
        self.skew = skew

    def get(self, keys: Sequence[Key]) -> Sequence[Seen]:
        return [replace(seen, skew=self.skew) for seen in super().get(keys)]

    def swap(self, changes: Sequence[Change]) -> Sequence[Reply]:
        return [replace(cast(Seen, seen), skew=self.skew) for seen in super().swap(changes)]

    def scan(
        self, scope: str | None, states: Sequence[State], due: bool, after: str | None, limit: int
    ) -> tuple[Sequence[Found], str | None]:
        found, after = super().scan(scope, states, due, after, limit)
        return [(key, replace(seen, skew=self.skew)) for key, seen in found], after


class World:
    """Everything there is in one history."""

    def __init__(self, seed: int, tracing: bool = False) -> None:
        self.seed = seed
        self.knobs: Knobs = drawn(stream(seed, 0))
        self.data = stream(seed, 1)
        self.fate = stream(seed, 3)
        self.now = 0.0
        self.shift = 0.0
        """By how much the store's clock is off."""
        self.jumped_back = self.jumped_ahead = 0.0
        self.bound = self.knobs.horizon + 60.0 * self.knobs.lease + 400.0
        """By when all must have come to an end: some leases and back-offs after the healing."""
        self.healed = False
        self.lines: list[str] | None = [] if tracing else None
        self.violations: list[Violation] = []
        self.heap: list[tuple[float, int, Callable[..., None], tuple[Any, ...]]] = []
        self.events = 0
        self.made: dict[str, tuple[Subject, float]] = {}
        """Every token, with the key it was made for, and when, by the clock of whoever made it."""
        skew = self.knobs.skew
        self.store = Clockless(self.clock, skew) if skew else MemoryStore(self.clock)
        self.network = Network(self, seed)
        self.subjects = [self._subject(number) for number in range(self.knobs.subjects)]
        self.by_id = {subject.key.id: subject for subject in self.subjects}
        self.processes = [self.process(seat, 0) for seat in range(self.knobs.workers)]
        self.office = self.process(len(self.processes), 0, mortal=False)
        self.office.name = "office"
        self.asker = self.office
        """Whose call the store is doing just now."""
        self.tasks: list[Task] = []
        self._plan()

    # ----- time

    def clock(self) -> float:
        """Read the store's clock, or that of whoever asks it, if it has none."""
        return EPOCH + self.now + self.shift + self.asker.skew

    def at(self, when: float, do: Callable[..., None], *args: Any) -> None:
        """Let something happen at a time; what is due together happens in the order it was planned."""
        self.events += 1
        heappush(self.heap, (when, self.events, do, args))

    def run(self) -> None:
        """Let everything happen until nothing is left to do."""
        self._drain()
        for subject in self.subjects:
            # A holder's late word may have freed it after somebody found it parked.
            if subject.current is not None and subject.current.state in ("free", "held"):
                self.bring_to_end(subject)
        self._drain()
        for task in self.tasks:
            if task.stack and not task.process.dead and not self.violations:
                self.fail("stuck", None, f"somebody in {task.process.name} waits for ever")

    def _drain(self) -> None:
        heap = self.heap
        while heap:
            self.now, _, do, args = heappop(heap)
            if self.events > EVENTS or self.now > self.bound:
                self.fail("stuck", None, "it goes on and on")
                heap.clear()
                return
            do(*args)

    def jump(self, by: float) -> None:
        """Move the store's clock."""
        self.shift += by
        self.jumped_back += max(-by, 0.0)
        self.jumped_ahead += max(by, 0.0)
        self.bound += 2.0 * abs(by)
        self.note("store", f"its clock jumps by {by:+.1f} s")

    # ----- people and things

    def _subject(self, number: int) -> Subject:
        data, knobs = self.data, self.knobs
        chance = data.random
        keep, attempts = data.choice(KEEPS), data.choice(ATTEMPTS)
        effect: Effect = "keyed" if knobs.keyed else data.choice(EFFECTS)
        subject = Subject(number, effect, terms(knobs.lease, keep, attempts), knobs.horizon * 0.4 * chance())
        if subject.effect == "keyed" and chance() < 0.7:
            subject.window = knobs.lease * (0.5 + (1.0 if knobs.keyed else 2.0) * chance())
        subject.fenced = subject.effect == "idempotent" and chance() < 0.5
        return subject

    def process(self, seat: int, life: int, mortal: bool = True) -> Process:
        """Start a process; its clock counts from anywhere."""
        offset = EPOCH + self.knobs.lease * 20.0 * (self.fate.random() - 0.5)
        knobs = self.knobs
        hazard = knobs.death or knobs.stall or knobs.cancel
        process = Process(self, seat, life, offset, bool(mortal and hazard and not self.healed))
        process.skew = knobs.skew * (self.fate.random() - 0.5)
        return process

    def restart(self, dead: Process) -> None:
        """Put a new process into the seat of a dead one."""
        if self.processes[dead.seat] is dead:
            self.processes[dead.seat] = self.process(dead.seat, dead.life + 1)

    def go(self, task: Task, script: Callable[..., Script], *args: Any) -> None:
        """Let a process begin something."""
        self.tasks.append(task)
        task.start(script(task, *args))

    def close(self) -> None:
        """Let go of whatever was cut off; nothing that happens in it counts any more."""
        for task in self.tasks:
            for script in reversed(task.stack):
                with suppress(RuntimeError):
                    script.close()

    def token(self, process: Process, subject: Subject) -> str:
        """Make a token, and remember what for."""
        token = f"{process.name}-{len(self.made)}"
        self.made[token] = (subject, self.now + process.skew + self.knobs.ahead)
        return token

    # ----- the plan of a history

    def _plan(self) -> None:
        knobs, data, fate = self.knobs, self.data, self.fate
        horizon = knobs.horizon
        rush, seat = horizon * (0.4 + 0.5 * data.random()), data.randrange(knobs.workers)
        for subject in self.subjects:
            for _ in range(data.choice((1, 2, 2, 3))):
                when = subject.born + (horizon - subject.born) * data.random()
                if knobs.crowded and data.random() < 0.7:
                    when = rush + 4.0 * knobs.latency * data.random()
                if not knobs.alone or data.random() < 0.2:
                    seat = data.randrange(knobs.workers)
                self.at(when, self._deliver, seat, subject)
        for _ in range(knobs.blackouts):
            self.at(horizon * fate.random(), self._darken, knobs.lease * (0.2 + 2.0 * fate.random()))
        for _ in range(0 if knobs.skew else knobs.jumps):
            size = knobs.lease * fate.choice((0.5, 1.5, 4.0, 40.0)) * fate.choice((1.0, -1.0))
            self.at(horizon * fate.random(), self.jump, size)
        for _ in range(knobs.operators):
            self.at(horizon * (0.3 + 1.5 * fate.random()), self._operate, fate.choice(self.subjects))
        for _ in range(knobs.purges):
            self.at(horizon * (0.5 + fate.random()), self._purge)
        self.at(horizon, self._heal)

    def _deliver(self, seat: int, subject: Subject) -> None:
        process = self.processes[seat]
        if not process.dead:
            self.go(Task(process, cancellable=True), worker.handle_some, subject)

    def _darken(self, duration: float) -> None:
        self.network.dark_until = self.now + duration
        self.note("store", f"cannot be reached until {self.now + duration:.3f}")

    def _operate(self, subject: Subject) -> None:
        self.go(Task(self.office), people.decide, subject)

    def _purge(self) -> None:
        self.go(Task(self.office), people.purge)

    def _heal(self) -> None:
        """End all faults, seat whoever is missing, and have every key brought to its end."""
        self.healed = True
        self.note("world", "everything heals")
        for process in list(self.processes):
            process.frozen, process.mortal = 0.0, False
            if process.dead:
                self.restart(process)
        for subject in self.subjects:
            self.bring_to_end(subject)

    def bring_to_end(self, subject: Subject) -> None:
        """Have somebody see to it that a key is done or parked."""
        self.go(Task(self.data.choice(self.processes)), worker.finish, subject)

    # ----- what is written down

    def written(
        self, asker: Process, changes: Sequence[Change], owners: Sequence[Op | None]
    ) -> Sequence[Reply]:
        """Do changes on the store, and note what they changed."""
        if len(changes) > 1:
            rules.keeps_contract(self, changes)
        self.asker = asker
        replies = self.store.swap(changes)
        for change, reply, op in zip(changes, replies, owners, strict=True):
            subject = self.by_id.get(change.key.id)
            if subject is not None and isinstance(reply, Seen) and reply.entry != subject.current:
                self._wrote(subject, reply, op)
        return replies

    def _wrote(self, subject: Subject, reply: Seen, op: Op | None) -> None:
        old, new = subject.current, reply.entry
        rules.judge(self, subject, old, new, op)
        subject.writes.append(Write(self.now, old, new, op))
        subject.current, subject.since, subject.ahead = new, self.now, self.jumped_ahead
        if op is not None:
            op.wrote += 1

    def fail(self, checker: str, subject: Subject | None, text: str) -> None:
        """Note a broken promise."""
        self.violations.append(Violation(checker, subject, self.now, text))
        self.note("CHECK", str(self.violations[-1]))

    def note(self, who: str, text: str) -> None:
        """Write a line of the trace, if there is one."""
        if self.lines is not None:
            self.lines.append(f"{self.now:10.3f}  {who:7}  {text}")

    def subject(self, key: Key) -> Subject:
        """Find the subject behind a key."""
        return self.by_id[key.id]
