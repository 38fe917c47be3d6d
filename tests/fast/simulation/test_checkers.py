"""Each checker can fail: a history is doctored by hand, and the one checker that must see it does.

What is planted into the code is in `test_planted`; here the checkers are held one by one.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
from msgspec.structs import replace

from onefold.core.claims import Answer
from onefold.core.entry import Change, Effect, Entry
from onefold.core.errors import Unreachable
from proof.sim import checkers, rules
from proof.sim.checkers import PROMISES
from proof.sim.faults import terms
from proof.sim.process import Task
from proof.sim.subject import KEYS, Attempt, Kind, Op, Subject, Write
from proof.sim.world import World

HELD = Entry("held", token="ann", version=100, fence=100, lease=6.0, attempt=1)
DONE = replace(HELD, state="done", version=101)
PARKED = replace(HELD, state="parked", why="in-doubt", version=101, begun=1.0)


class Stage:
    """A world in which nothing has happened yet, and one key in it."""

    def __init__(self, effect: Effect = "one-shot") -> None:
        self.world = World(1)
        self.subject = Subject(0, effect, terms(6.0, 0.0, 1), 0.0)
        self.world.subjects = [self.subject]
        for token in ("ann", "bob"):
            self.world.made[token] = (self.subject, 0.0)

    def op(self, kind: Kind, token: str = "ann", ending: str = "") -> Op:
        op = Op(kind, self.subject, token, "w0.0", self.world.now)
        op.ending = ending
        self.subject.ops.append(op)
        return op

    def write(self, old: Entry | None, new: Entry | None, op: Op | None) -> None:
        """Write something, as it comes."""
        self.subject.current = old
        rules.judge(self.world, self.subject, old, new, op)
        self.subject.writes.append(Write(self.world.now, old, new, op))
        self.subject.current = new

    def claim(self, token: str = "ann") -> None:
        self.write(None, replace(HELD, token=token, begun=1.0), self.op("claim", token))

    def answer(self, op: Op, answer: Answer) -> None:
        op.returned = self.world.now
        rules.answered(Task(self.world.office), op, answer)

    def effect(self, token: str = "ann", fence: int = 100) -> None:
        attempt = Attempt(self.subject, token, fence, 0.0, 0.0)
        rules.starts(self.world, attempt)
        self.subject.attempts.append(attempt)
        self.subject.arrive(attempt, self.world.now)

    @property
    def seen(self) -> set[str]:
        return {violation.checker for violation in self.world.violations}


def effects(stage: Stage) -> None:
    stage.effect()
    stage.effect()
    checkers.effects(stage.world, stage.subject)


def fences(stage: Stage) -> None:
    stage.claim()
    stage.write(HELD, replace(HELD, version=101, fence=101), stage.op("renew"))


def sink(stage: Stage) -> None:
    stage.subject.fenced = True
    stage.claim("ann")
    stage.write(HELD, replace(HELD, token="bob", version=101), stage.op("claim", "bob"))
    stage.effect("bob")
    stage.effect("ann")
    checkers.sink(stage.world, stage.subject)


def register(stage: Stage) -> None:
    for token in ("ann", "bob"):
        op = stage.op("end", token, "returned")
        op.answer, op.returned = Answer("settled", replace(DONE, token=token)), 1.0
    checkers.in_order(stage.world, stage.subject)


def lost(stage: Stage) -> None:
    stage.write(None, replace(HELD, state="free"), stage.op("note"))
    checkers.lost(stage.world, stage.subject)


def explained(stage: Stage) -> None:
    stage.claim("ann")
    stage.effect("ann")
    stage.effect("bob")
    checkers.explained(stage.world, stage.subject)


def conserved(stage: Stage) -> None:
    stage.claim()
    checkers.conserved(stage.world)


def stuck(stage: Stage) -> None:
    def again() -> None:
        stage.world.at(stage.world.now, again)

    again()
    stage.world.run()


def attempts(stage: Stage) -> None:
    stage.claim()
    stage.effect("ann")
    stage.effect("bob")


def ready(stage: Stage) -> None:
    stage.claim()
    entry = stage.subject.current
    stage.world.now = 7.0
    stage.answer(stage.op("ready"), Answer("won", entry))


def losers(stage: Stage) -> None:
    stage.claim()
    stage.answer(stage.subject.ops[0], Answer("busy"))


def leases(stage: Stage) -> None:
    stage.claim("ann")
    stage.subject.since = 0.0
    now = stage.world.clock()
    stage.write(
        replace(HELD, written=now),
        replace(HELD, token="bob", version=101, fence=101),
        stage.op("claim", "bob"),
    )


def tokens(stage: Stage) -> None:
    stage.claim("nobody")


def settled(stage: Stage) -> None:
    stage.claim()
    stage.answer(stage.op("end", ending="returned"), Answer("settled", DONE))


def doubt(stage: Stage) -> None:
    stage.write(PARKED, replace(PARKED, state="held", why=None, version=102), stage.op("renew"))


def memory(stage: Stage) -> None:
    stage.write(HELD, None, stage.op("purge"))


def owners(stage: Stage) -> None:
    stage.write(HELD, DONE, stage.op("end", "bob", "returned"))


def answers(stage: Stage) -> None:
    stage.answer(stage.op("claim"), Answer("won"))


def starts(stage: Stage) -> None:
    stage.effect()


def contract(stage: Stage) -> None:
    rules.keeps_contract(stage.world, [Change(KEYS[0], None, HELD), Change(KEYS[0], None, HELD)])


def cancelled(stage: Stage) -> None:
    op = stage.op("claim")
    op.cancelled = True
    stage.answer(op, Answer("busy"))


def errors(stage: Stage) -> None:
    op = stage.op("claim")
    op.error = ZeroDivisionError()
    rules.ended_by_error(stage.world, op)


BROKEN: list[Callable[[Stage], None]] = [
    effects, fences, sink, register, lost, explained, conserved, stuck, attempts, ready, losers, leases,
    tokens, settled, doubt, memory, owners, answers, starts, contract, cancelled, errors,
]  # fmt: skip


@pytest.mark.parametrize("broken", BROKEN, ids=lambda broken: broken.__name__)
def test_a_broken_promise_is_seen_by_its_checker(broken):
    stage = Stage("idempotent" if broken is sink else "one-shot")
    broken(stage)

    assert broken.__name__ in stage.seen


def test_every_promise_is_broken_here():
    assert [broken.__name__ for broken in BROKEN] == list(PROMISES)


def test_a_plain_delivery_breaks_nothing():
    stage = Stage()
    stage.claim()
    entry = stage.subject.current
    stage.subject.ops[0].wrote = 1
    stage.answer(stage.subject.ops[0], Answer("won", entry))
    stage.effect()
    assert entry is not None
    done = replace(entry, state="done", version=101)
    ending = stage.op("end", ending="returned")
    stage.write(entry, done, ending)
    stage.answer(ending, Answer("settled", done))
    for checker in checkers.PER_KEY:
        checker(stage.world, stage.subject)

    assert stage.seen == set()


# What excuses an effect too many, and what does not


def twice(stage: Stage) -> set[str]:
    """Let the effect happen a second time, after the far side forgot the first."""
    stage.effect()
    stage.world.now = 100.0
    stage.effect()
    stage.world.violations.clear()
    checkers.effects(stage.world, stage.subject)
    return stage.seen


def test_a_persons_word_allows_one_more_effect():
    stage = Stage()
    stage.subject.words = 1

    assert twice(stage) == set()


def test_a_far_side_that_forgot_excuses_only_what_arrived_late():
    late, prompt = Stage("keyed"), Stage("keyed")
    for stage in (late, prompt):
        stage.subject.window = 10.0
        stage.effect()
        stage.world.now = 100.0
        stage.effect()
        stage.world.violations.clear()
    prompt.subject.accepted[-1].ready = 100.0
    for stage in (late, prompt):
        checkers.effects(stage.world, stage.subject)

    assert (late.seen, prompt.seen) == (set(), {"effects"})


def test_an_error_of_the_store_is_no_broken_promise():
    stage = Stage()
    op = stage.op("claim")
    op.error = Unreachable("down")
    rules.ended_by_error(stage.world, op)

    assert stage.seen == set()
