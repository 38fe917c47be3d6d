"""The production flows, each watched from its call to its answer.

Everything a script asks goes through here, so that no question is asked unseen. An answer is judged the
moment it is given, because later the store may have moved on.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeVar

from onefold.core import operate, protocol
from onefold.core.claims import Answer, Bid, CannotHappen, Ending, Happened, Hold
from onefold.core.entry import Entry
from onefold.core.flow import Flow
from onefold.drive import aacquire_one, aend_one
from onefold.testing.calls import AS_CALLS
from proof.sim import rules
from proof.sim.subject import Kind, Op, Subject

if TYPE_CHECKING:
    from proof.sim.process import Task

T = TypeVar("T")


def opened(task: Task, kind: Kind, subject: Subject, token: str) -> Op:
    """Note that a question is asked."""
    op = Op(kind, subject, token, task.process.name, task.world.now)
    subject.ops.append(op)
    return op


async def one(task: Task, op: Op, flow: Flow[Answer]) -> Answer:
    """Run a flow on behalf of one question, and judge its answer."""
    task.ops = (op,)
    try:
        answer = await flow
    except GeneratorExit:
        raise
    except BaseException as error:
        failed(task, error)
        raise
    task.ops = ()
    op.returned = task.world.now
    rules.answered(task, op, answer)
    return answer


async def many(task: Task, ops: Sequence[Op], flow: Flow[list[Answer]]) -> list[Answer]:
    """Run a flow on behalf of several questions, and judge its answers."""
    answers = await unjudged(task, ops, flow)
    for op, answer in zip(ops, answers, strict=True):
        rules.answered(task, op, answer)
    return answers


async def unjudged(task: Task, ops: Sequence[Op], flow: Flow[T]) -> T:
    """Run a flow that has no answers to be judged."""
    task.ops = ops
    try:
        told = await flow
    except GeneratorExit:
        raise
    except BaseException as error:
        failed(task, error)
        raise
    task.ops = ()
    for op in ops:
        op.returned = task.world.now
    return told


def failed(task: Task, error: BaseException) -> None:
    """Note that what a task asks ended by an error."""
    ops, task.ops = task.ops, ()
    for op in ops:
        op.returned = task.world.now
        op.error = error
        rules.ended_by_error(task.world, op)


# ----- claiming


async def acquired(task: Task, subject: Subject, bid: Bid) -> Answer:
    op = opened(task, "claim", subject, bid.token)
    patience = 0.0 if task.world.healed else task.world.knobs.patience
    if is_single(subject):
        return await one(task, op, aacquire_one(bid, patience, AS_CALLS))
    return await one(task, op, protocol.acquire(bid, patience))


def is_single(subject: Subject) -> bool:
    """Say whether the next question about a key takes the way of single calls: every second one does."""
    return len(subject.ops) % 2 == 0


async def claimed(task: Task, subjects: Sequence[Subject], bids: Sequence[Bid]) -> list[Answer]:
    ops = [opened(task, "claim", subject, bid.token) for subject, bid in zip(subjects, bids, strict=True)]
    for op in ops:
        op.ending = "batch"
    return await many(task, ops, protocol.claim(bids))


async def readied(task: Task, subject: Subject, bid: Bid, hold: Hold) -> Answer:
    op = opened(task, "ready", subject, bid.token)
    return await one(task, op, protocol.ready(bid, Answer("won", hold.entry, since=hold.since)))


async def begun(task: Task, subject: Subject, hold: Hold) -> Answer:
    op = opened(task, "begin", subject, hold.token)
    return await one(task, op, protocol.begin(hold, '"prepared"'))


# ----- holding and ending


async def renewed(task: Task, holds: Sequence[Hold]) -> list[Answer]:
    """Renew as a heart does: what fails is unknown."""
    world = task.world
    ops = [opened(task, "renew", world.subject(hold.key), hold.token) for hold in holds]
    try:
        return await many(task, ops, protocol.renew(holds))
    except Exception:
        return [Answer("unknown") for _ in holds]


async def ended(
    task: Task, subjects: Sequence[Subject], endings: Sequence[tuple[Hold, Ending]]
) -> list[Answer]:
    ops = [
        opened(task, "end", subject, hold.token) for subject, (hold, _) in zip(subjects, endings, strict=True)
    ]
    for op, (_, ending) in zip(ops, endings, strict=True):
        op.ending = ending.kind
    written = [
        (hold, ending, subject.terms) for subject, (hold, ending) in zip(subjects, endings, strict=True)
    ]
    if len(written) == 1 and is_single(subjects[0]):
        [(hold, ending, terms)] = written
        return [await one(task, ops[0], aend_one(hold, ending, terms, AS_CALLS))]
    return await many(task, ops, protocol.end(written))


# ----- deciding


async def probed(task: Task, subject: Subject, asked: Entry, told: Happened | CannotHappen | None) -> Answer:
    token = task.world.token(task.process, subject)
    op = opened(task, "probe", subject, token)
    return await one(task, op, protocol.answer_probe(subject.key, asked, token, told, '"probed"'))


async def resolved(task: Task, subject: Subject, happened: bool) -> Answer:
    token = task.world.token(task.process, subject)
    op = opened(task, "resolve", subject, token)
    op.ending = "happened" if happened else "did not happen"
    return await one(task, op, operate.resolve(subject.key, happened, '"told"', "ann", token))


async def retried(task: Task, subject: Subject) -> Answer:
    token = task.world.token(task.process, subject)
    op = opened(task, "retry", subject, token)
    return await one(task, op, operate.retry(subject.key, "ann", token))


async def noted(task: Task, subject: Subject, bid: Bid) -> None:
    await unjudged(
        task, [opened(task, "note", subject, bid.token)], protocol.note_failure(bid, Ending("raised"))
    )


async def purged(task: Task) -> int:
    ops = [opened(task, "purge", subject, "") for subject in task.world.subjects]
    return await unjudged(task, ops, protocol.purge())
