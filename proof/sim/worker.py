"""What a worker does with a record: claim, begin, act, and say how it ended; alone, in batches, joined.

It does what `Ledger.call` and its kin do, step by step, so that death, standstill and cancellation can
come between any two. The effects are requests to a far side: once sent, they arrive whoever dies.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

from msgspec.structs import replace

from onefold.core.claims import Answer, Bid, CannotHappen, Ending, Happened, Hold
from onefold.core.entry import Change, Reply, Seen, State, stamped
from onefold.core.errors import Misconfigured, Unreachable
from onefold.core.flow import Found, sleep
from onefold.core.key import Key
from onefold.core.protocol import acquire, end
from onefold.core.pulse import Pulse
from onefold.drive import Ports, run
from proof.sim import rules, watched
from proof.sim.process import Cancelled, Process
from proof.sim.subject import Attempt, Op, Subject

if TYPE_CHECKING:
    from proof.sim.process import Task
    from proof.sim.world import World

Kind = Literal["returned", "refused", "raised", "parked"]
PROBES = 3
ENDED = ("done", "parked")


def bid_for(task: Task, subject: Subject) -> Bid:
    """Make an attempt of one's own."""
    world = task.world
    begin = subject.effect == "joined" or world.data.random() < world.knobs.begins
    return Bid(
        subject.key,
        world.token(task.process, subject),
        subject.terms,
        subject.effect,
        subject.window,
        begin,
        max(world.now + task.process.skew - subject.born, 0.0) + world.knobs.ahead,
        body='"record"',
    )


# ----- scripts


async def handle_some(task: Task, subject: Subject) -> None:
    """Take a record in, alone or with others; what fails is left to whoever comes next."""
    world = task.world
    try:
        if world.knobs.batches and world.data.random() < world.knobs.batches:
            await handle_batch(task, subject)
        else:
            await handle(task, subject)
    except Unreachable:
        world.note(task.process.name, "gives up")


async def finish(task: Task, subject: Subject) -> None:
    """Bring a key to its end, now that everything is well again."""
    state, wait = "", 0.0
    while state not in ENDED:
        await sleep(min(wait, 10.0 * subject.terms.lease) + 0.01)
        try:
            state, wait = await handle(task, subject)
        except Unreachable:
            wait = subject.terms.lease


async def handle(task: Task, subject: Subject) -> tuple[str, float]:
    """Handle one record; say in which state it was left, and when to come again."""
    if subject.effect == "joined":
        return await handle_joined(task, subject)
    bid = bid_for(task, subject)
    answer = await watched.acquired(task, subject, bid)
    for _ in range(PROBES):
        if not await probe(task, subject, answer):
            break
        answer = await watched.acquired(task, subject, bid)
    if answer.state != "won" or answer.entry is None:
        return answer.state, answer.wait
    pulse = task.process.keep(bid, answer)
    return await act(task, subject, bid, pulse)


async def probe(task: Task, subject: Subject, answer: Answer) -> bool:
    """Ask the far side about what is in doubt; say whether that told anything."""
    kind, entry = task.world.knobs.probe, answer.entry
    if kind == "none" or answer.state != "parked" or entry is None or entry.why != "in-doubt":
        return False
    await sleep(task.world.knobs.latency)
    told: Happened | CannotHappen | None = None
    if subject.accepted:
        told = Happened("found")
    elif kind == "fencing":
        # The far side promises to refuse that attempt from now on, wherever its request may be.
        subject.barred.add(entry.token)
        told = CannotHappen()
    if told is None:
        return False
    await watched.probed(task, subject, entry, told)
    return True


async def act(task: Task, subject: Subject, bid: Bid, pulse: Pulse) -> tuple[str, float]:
    """Run the effect of a claim that was won, and write how it ended."""
    cancelled: BaseException | None = None
    kind: Kind = "refused"
    at_once = False
    try:
        if bid.begin or await begin(task, subject, bid, pulse):
            kind = await perform(task, subject, pulse)
        else:
            at_once = True
    except (Cancelled, Unreachable) as felt:
        cancelled = felt
        kind, at_once = ("raised", False) if is_started(subject, bid) else ("refused", True)
    task.process.drop(pulse)
    ending = Ending(kind, at_once=at_once)
    state = await say(task, subject, pulse.hold, ending)
    if cancelled is not None:
        raise cancelled
    return state


def is_started(subject: Subject, bid: Bid) -> bool:
    return any(attempt.token == bid.token for attempt in subject.attempts)


async def begin(task: Task, subject: Subject, bid: Bid, pulse: Pulse) -> bool:
    """Prepare, then write *begun*; say whether the effect may start."""
    await sleep(task.world.knobs.latency * task.world.data.random())
    try:
        answer = await watched.begun(task, subject, pulse.hold)
    except Unreachable:
        return False
    if answer.state != "won":
        return False
    pulse.hear(answer, task.process.offset + task.world.now)
    return await is_ready(task, subject, bid, pulse)


async def is_ready(task: Task, subject: Subject, bid: Bid, pulse: Pulse) -> bool:
    answer = await watched.readied(task, subject, bid, pulse.hold)
    if answer.state != "won" or answer.entry is None:
        return False
    pulse.hold = Hold(bid.key, bid.token, answer.entry, answer.since)
    return True


async def perform(task: Task, subject: Subject, pulse: Pulse) -> Kind:
    """Send the effect's request to the far side and wait for what comes back."""
    world, knobs, dice = task.world, task.world.knobs, task.world.data
    ready = world.now
    await sleep(0.0)  # here a process may stand still, between knowing that it may start and starting
    attempt = started(task, subject, pulse.hold, ready)
    lot, there, back = dice.random(), knobs.latency * dice.random(), knobs.latency * dice.random()
    if not world.healed:
        if lot < knobs.refuse + knobs.set_aside:
            await sleep(back)
            return "refused" if lot < knobs.refuse else "parked"
        if lot > 1.0 - knobs.raise_before:
            await sleep(back)
            return "raised"
        if knobs.linger and dice.random() < knobs.linger:
            longer = subject.terms.lease * 2.0 * dice.random()
            there, back = (there + longer, back) if dice.random() < 0.5 else (there, back + longer)
    world.at(world.now + there, arrive, world, attempt)
    if knobs.impatient:
        pulse.tell = task.interrupt
    await sleep(there + back)
    pulse.tell = None
    if attempt.verdict == "stale":
        return "refused"
    if not world.healed and dice.random() < knobs.raise_after:
        return "raised"
    return "returned"


def started(task: Task, subject: Subject, hold: Hold, ready: float) -> Attempt:
    """Note the start of an effect, at the moment it starts."""
    world = task.world
    attempt = Attempt(subject, hold.token, hold.entry.fence, ready, world.now)
    rules.starts(world, attempt)
    subject.attempts.append(attempt)
    if world.lines is not None:
        world.note(
            task.process.name, f"starts the effect of {subject} under {hold.token}, fence {attempt.fence}"
        )
    return attempt


def arrive(world: World, attempt: Attempt) -> None:
    """Let the request of an effect reach the far side, whatever became of its sender."""
    verdict = attempt.subject.arrive(attempt, world.now)
    if world.lines is not None:
        world.note("outside", f"{verdict}: the effect of {attempt.subject} under {attempt.token}")


async def say(task: Task, subject: Subject, hold: Hold, ending: Ending) -> tuple[str, float]:
    """Write how an attempt ended; if the store does not answer, perhaps ask once more."""
    for _ in range(2):
        try:
            [answer] = await watched.ended(task, [subject], [(hold, ending)])
        except Unreachable:
            answer = Answer("unknown")
        if answer.state != "unknown":
            break
        await sleep(subject.terms.lease * task.world.data.random())
    if answer.state == "settled" and answer.entry is not None:
        return answer.entry.state, subject.terms.delay(answer.entry.attempt)
    return answer.state, subject.terms.lease


# ----- batches


async def handle_batch(task: Task, subject: Subject) -> None:
    """Claim several keys in one call, act on those that were won, and say in one call how they ended."""
    now = task.world.now
    subjects = [one for one in task.world.subjects if one.effect != "joined" and one.born <= now]
    bids = [bid_for(task, one) for one in subjects]
    if not bids:
        return
    if len(bids) > 1 and task.world.data.random() < 0.1:
        await refuse_repeats(task, subjects, bids)
    answers = await watched.claimed(task, subjects, bids)
    held = [
        (one, bid, task.process.keep(bid, answer))
        for one, bid, answer in zip(subjects, bids, answers, strict=True)
        if answer.state == "won" and answer.entry is not None
    ]
    endings = [await act_in_batch(task, *each) for each in held]
    for _, _, pulse in held:
        task.process.drop(pulse)
    if held:
        ends = [(pulse.hold, ending) for (_, _, pulse), ending in zip(held, endings, strict=True)]
        await watched.ended(task, [one for one, _, _ in held], ends)


async def refuse_repeats(task: Task, subjects: Sequence[Subject], bids: Sequence[Bid]) -> None:
    again = replace(bids[0], token=task.world.token(task.process, subjects[0]))
    try:
        await watched.claimed(task, [*subjects, subjects[0]], [*bids, again])
    except Misconfigured:
        return
    task.world.fail("contract", subjects[0], "a key may stand twice in one batch of claims")


async def act_in_batch(task: Task, subject: Subject, bid: Bid, pulse: Pulse) -> Ending:
    try:
        if not bid.begin:
            may_start = await begin(task, subject, bid, pulse)
        else:
            may_start = await is_ready(task, subject, bid, pulse)
        if may_start:
            return Ending(await perform(task, subject, pulse))
    except (Cancelled, Unreachable):
        # The rest of the batch goes on; what was started here is in doubt.
        if is_started(subject, bid):
            return Ending("raised")
    return Ending("refused", at_once=True)


# ----- joined


class Rehearsal:
    """The store as seen inside a transaction that will be rolled back: it answers, and keeps nothing."""

    def __init__(self, process: Process) -> None:
        self.process = process
        self.world = process.world

    def get(self, keys: Sequence[Key]) -> Sequence[Seen]:
        self.world.asker = self.process
        return self.world.store.get(keys)

    def scan(
        self, scope: str | None, states: Sequence[State], due: bool, after: str | None, limit: int
    ) -> tuple[Sequence[Found], str | None]:
        return self.world.store.scan(scope, states, due, after, limit)

    def close(self) -> None:
        """Nothing to let go of."""

    def swap(self, changes: Sequence[Change]) -> Sequence[Reply]:
        return [self._try(change) for change in changes]

    def _try(self, change: Change) -> Seen:
        [seen] = self.get([change.key])
        if (seen.entry.version if seen.entry else None) != change.expected:
            return seen
        now = self.world.clock()
        version = (change.expected or int(now * 1_000_000)) + 1
        return Seen(stamped(change, version, now), skew=self.world.knobs.skew)


class Transaction(Rehearsal):
    """The store inside a transaction that commits in the same instant."""

    def __init__(self, process: Process, op: Op) -> None:
        super().__init__(process)
        self.op = op

    def swap(self, changes: Sequence[Change]) -> Sequence[Reply]:
        return self.world.written(self.process, changes, [self.op] * len(changes))


class Instant:
    """A clock that stands still: a transaction waits for nothing."""

    def __init__(self, now: float) -> None:
        self.now = now

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        raise AssertionError("nothing in a transaction waits")


async def handle_joined(task: Task, subject: Subject) -> tuple[str, float]:
    """Mark and act in one transaction; if the effect fails, count that by a write of its own."""
    world, knobs = task.world, task.world.knobs
    bid = bid_for(task, subject)
    await sleep(knobs.latency * world.data.random())
    if not world.healed and world.data.random() < knobs.raise_before:
        return await fail_joined(task, subject, bid)
    op = watched.opened(task, "claim", subject, bid.token)
    answer = run(acquire(bid), joined_ports(task, op))
    op.returned = world.now
    rules.answered(task, op, answer)
    if answer.state != "won" or answer.entry is None:
        return answer.state, answer.wait
    hold = Hold(bid.key, bid.token, answer.entry, answer.since)
    subject.arrive(started(task, subject, hold, world.now), world.now)
    ended = watched.opened(task, "end", subject, bid.token)
    ended.ending = "returned"
    [told] = run(end([(hold, Ending("returned", '"receipt"'), bid.terms)]), joined_ports(task, ended))
    ended.returned = world.now
    rules.answered(task, ended, told)
    return "done", 0.0


async def fail_joined(task: Task, subject: Subject, bid: Bid) -> tuple[str, float]:
    answer = run(acquire(bid), Ports(Rehearsal(task.process), Instant(task.process.offset + task.world.now)))
    if answer.state != "won":
        return answer.state, answer.wait
    await watched.noted(task, subject, bid)
    return "free", subject.terms.delay(1)


def joined_ports(task: Task, op: Op) -> Ports:
    return Ports(Transaction(task.process, op), Instant(task.process.offset + task.world.now))
