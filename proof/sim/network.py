"""The way to the store: it delays, loses, repeats nothing and lies about nothing, but it may not answer.

A call may be lost on its way, arrive long after its sender gave up, be done and its reply be lost, be
refused for certain, or be done and end in an error all the same. The store itself is the production one
and does each change in one instant. Everything written is noted with whoever asked for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal, cast

from onefold.core.entry import UNKNOWN, Change, Reply, Seen
from onefold.core.errors import Unreachable
from onefold.core.flow import Call
from onefold.core.key import Key
from onefold.core.line import Ask
from proof.sim.faults import Knobs, stream
from proof.sim.process import Asking
from proof.sim.subject import Op

if TYPE_CHECKING:
    from proof.sim.process import Process, Task
    from proof.sim.world import World

Fate = Literal["fine", "lost request", "lost reply", "late", "failed", "broken"]
REFUSED = "the store refused the call"
SILENT = "the store did not answer"


class Network:
    """Carries calls between processes and the store."""

    def __init__(self, world: World, seed: int) -> None:
        self.world = world
        self.knobs = world.knobs
        self.dice = stream(seed, 2)
        self.dark_until = 0.0
        """The store cannot be reached before that."""
        knobs = self.knobs
        self._limits = _limits(knobs)
        self._steady = self._limits[-1][0] == 0.0

    def send(self, task: Task, call: Call[Any]) -> None:
        """Carry a call to the store, and whatever comes of it back to the task."""
        world, knobs = self.world, self.knobs
        fate = self._fate()
        there = self._leg()
        back = there + self._leg()
        owners = _owners(task, call)
        _mark(call, owners)
        reply: list[Any] = [None]
        if world.lines is not None:
            world.note(task.process.name, f"asks {_told(call)}" + ("" if fate == "fine" else f"   [{fate}]"))
        if fate == "failed":
            world.at(world.now + there, self._refuse, task, task.epoch)
            return
        if fate == "late":
            there = knobs.timeout * (1.0 + 2.0 * self.dice.random())
        if fate != "lost request":
            world.at(world.now + there, self._arrive, task, task.epoch, call, owners, reply)
        if fate == "broken":
            world.at(world.now + back, self._refuse, task, task.epoch)
        elif fate == "fine" and back < knobs.timeout:
            world.at(world.now + back, self._answer, task, task.epoch, call, owners, reply)
        else:
            world.at(world.now + knobs.timeout, self._give_up, task, task.epoch, call)

    def _fate(self) -> Fate:
        if self.world.healed:
            return "fine"
        if self.dark_until > self.world.now:
            return "lost request"
        if self._steady:
            return "fine"
        lot = self.dice.random()
        for limit, fate in self._limits:
            if lot < limit:
                return fate
        return "fine"

    def _leg(self) -> float:
        """Draw how long one way takes; now and then it takes longer than a lease."""
        knobs, lot = self.knobs, self.dice.random()
        if knobs.slow and not self.world.healed and lot < knobs.slow:
            return knobs.lease * 1.5 * self.dice.random()
        return knobs.latency * (0.2 + lot)

    def _arrive(
        self, task: Task, epoch: int, call: Call[Any], owners: Sequence[Op | None], reply: list[Any]
    ) -> None:
        for op in owners:
            if op is not None:
                op.executed = self.world.now
                op.late = op.late or op.cancelled or epoch != task.epoch
        if call.name == "swap":
            reply[0] = self._swap(task.process, call.args[0], owners)
        else:
            self.world.asker = task.process
            reply[0] = getattr(self.world.store, call.name)(*call.args)

    def _swap(
        self, asker: Process, changes: Sequence[Change], owners: Sequence[Op | None]
    ) -> Sequence[Reply]:
        if len(changes) > 1 and self.knobs.partial and not self.world.healed:
            return [self._perhaps(asker, change, op) for change, op in zip(changes, owners, strict=True)]
        return self.world.written(asker, changes, owners)

    def _perhaps(self, asker: Process, change: Change, op: Op | None) -> Reply:
        """Do one change of a batch, or not; and say so, or not."""
        if self.dice.random() >= self.knobs.partial:
            return self.world.written(asker, [change], [op])[0]
        if self.dice.random() < 0.5:
            self.world.written(asker, [change], [op])
        return UNKNOWN

    def _answer(
        self, task: Task, epoch: int, call: Call[Any], owners: Sequence[Op | None], reply: list[Any]
    ) -> None:
        if epoch != task.epoch:
            return
        for at, op in enumerate(owners):
            if op is not None:
                op.unsure = call.name == "swap" and reply[0][at] is UNKNOWN
        if self.world.lines is not None:
            self.world.note(task.process.name, f"hears {_heard(reply[0])}")
        task.wake(epoch, reply[0])

    def _refuse(self, task: Task, epoch: int) -> None:
        self.world.note(task.process.name, "hears an error")
        task.wake(epoch, None, Unreachable(REFUSED))

    def _give_up(self, task: Task, epoch: int, call: Call[Any]) -> None:
        self.world.note(task.process.name, "hears nothing")
        if call.name == "swap":
            task.wake(epoch, [UNKNOWN] * len(call.args[0]))
        else:
            task.wake(epoch, None, Unreachable(SILENT))


def _limits(knobs: Knobs) -> list[tuple[float, Fate]]:
    """Stack the chances of the fates on each other; together they stay below three quarters."""
    shares: list[tuple[float, Fate]] = [
        (knobs.lost_request, "lost request"),
        (knobs.lost_reply, "lost reply"),
        (knobs.late, "late"),
        (knobs.failed, "failed"),
        (knobs.broken, "broken"),
    ]
    scale = min(1.0, 0.75 / (sum(share for share, _ in shares) or 1.0))
    limits: list[tuple[float, Fate]] = []
    total = 0.0
    for share, fate in shares:
        total += share * scale
        limits.append((total, fate))
    return limits


def _owners(task: Task, call: Call[Any]) -> Sequence[Op | None]:
    """Say for which question each change or key of a call is asked."""
    if call.name == "scan":
        return task.ops
    if call.name == "get":
        return [_owner(task.ops, key) for key in call.args[0]]
    batch = task.batch
    if len(batch) == 1:
        ops = task.ops
        return [_owner(ops, change.key) for change in call.args[0]]
    return [_owner(_asker(batch, change), change.key) for change in call.args[0]]


def _mark(call: Call[Any], owners: Sequence[Op | None]) -> None:
    """Note with each question what it asks the store for; until it hears, it cannot be sure."""
    for at, op in enumerate(owners):
        if op is not None:
            op.unsure = True
            op.asked = (
                call.args[0][at].entry.state if call.name == "swap" and op.kind != "purge" else call.name
            )


def _owner(ops: Sequence[Op], key: Key) -> Op | None:
    for op in ops:
        if op.subject.key.id == key.id:
            return op
    return None


def _asker(batch: Sequence[Ask], change: Change) -> Sequence[Op]:
    for ask in batch:
        if any(mine is change for mine in ask.changes):
            return cast(Asking, ask).task.ops
    return ()


def _told(call: Call[Any]) -> str:
    if call.name == "swap":
        return "swap " + ", ".join(_wanted(change) for change in call.args[0])
    if call.name == "get":
        return "get " + ", ".join(key.label[:12] for key in call.args[0])
    return call.name


def _wanted(change: Change) -> str:
    where = f"{change.key.label[:12]} at {change.expected or 'nothing'}"
    if change.entry is None:
        return f"{where}: remove"
    begin = " begun" if change.begin or change.entry.begun is not None else ""
    return f"{where}: {change.entry.state}{begin} by {change.entry.token}"


def _heard(reply: Any) -> str:
    if isinstance(reply, tuple) and not isinstance(reply, Seen):
        return f"{len(reply[0])} entries"
    return ", ".join(_seen(one) for one in reply)


def _seen(reply: Reply) -> str:
    if not isinstance(reply, Seen):
        return "unknown"
    entry = reply.entry
    if entry is None:
        return "nothing stored"
    begun = " begun" if entry.begun is not None else ""
    return f"{entry.state}{begun} by {entry.token} at {entry.version}, idle {reply.idle:.3f}"
