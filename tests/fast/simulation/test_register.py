"""The search for an order that explains the answers: what it accepts, and what it does not."""

from __future__ import annotations

import pytest

from onefold.core.claims import Answer
from onefold.core.entry import Entry
from proof.sim import register
from proof.sim.faults import terms
from proof.sim.subject import Kind, Op, Subject

SUBJECT = Subject(0, "one-shot", terms(6.0, 0.0, 8), 0.0)


def op(kind: Kind, token: str, said: str, called: float, returned: float, ending: str = "returned") -> Op:
    """Make a question and its answer; `said` is the answer, or the state that an ending left."""
    one = Op(kind, SUBJECT, token, "w0", called)
    one.ending = ending
    one.returned = returned
    one.executed = called
    one.wrote = int(said in ("won", "done by it", "free by it", "nothing heard"))
    if said == "done by it":
        one.answer = Answer("settled", Entry("done", token=token))
    elif said == "free by it":
        one.answer = Answer("settled", Entry("free", token=token))
    elif said != "nothing heard":
        one.answer = Answer(said)  # type: ignore[arg-type]
    return one


def test_one_after_the_other_is_in_order():
    ops = [
        op("claim", "a", "won", 0, 1),
        op("claim", "b", "busy", 1, 2),
        op("end", "a", "done by it", 2, 3),
        op("claim", "c", "done", 4, 5),
    ]

    assert register.is_in_order(ops, forgets=False)


@pytest.mark.parametrize(
    "ops",
    [
        [op("claim", "a", "won", 0, 1), op("end", "a", "done by it", 2, 3), op("claim", "b", "won", 4, 5)],
        [op("claim", "a", "won", 0, 1), op("end", "a", "done by it", 2, 3), op("claim", "b", "busy", 4, 5)],
        [op("claim", "a", "won", 0, 1), op("claim", "b", "won", 2, 3), op("end", "a", "done by it", 4, 5)],
        [op("claim", "a", "done", 0, 1)],
        [op("end", "a", "done by it", 0, 1)],
        [op("claim", "a", "won", 0, 1), op("end", "a", "lost", 2, 3)],
        [op("resolve", "p", "done by it", 0, 1)],
    ],
    ids=[
        "won after done",
        "busy after done",
        "settled after a take-over",
        "done before anybody was",
        "settled without a claim",
        "lost though nobody took it",
        "resolved without being parked",
    ],
)
def test_what_no_order_explains_is_refused(ops):
    assert not register.is_in_order(ops, forgets=False)


def test_what_overlaps_may_have_happened_in_either_order():
    ops = [op("claim", "a", "done", 0, 9), op("claim", "b", "won", 1, 2), op("end", "b", "done by it", 3, 4)]

    assert register.is_in_order(ops, forgets=False)


def test_what_was_never_answered_may_have_happened_later_or_not_at_all():
    unheard = op("end", "a", "nothing heard", 2, 3)
    claim = op("claim", "a", "won", 0, 1)

    assert register.is_in_order([claim, unheard, op("claim", "b", "done", 50, 51)], forgets=False)
    assert register.is_in_order([claim, unheard, op("claim", "b", "won", 50, 51)], forgets=False)


def test_a_memory_that_ends_lets_what_was_done_be_won_again():
    ops = [
        op("claim", "a", "won", 0, 1),
        op("end", "a", "done by it", 2, 3),
        op("claim", "b", "won", 4, 5),
    ]

    assert register.is_in_order(ops, forgets=True)
    assert not register.is_in_order(ops, forgets=False)


def test_a_parked_key_moves_by_its_holders_late_word_or_by_a_decision():
    parked = [op("claim", "a", "won", 0, 1), op("claim", "b", "parked", 2, 3)]

    assert register.is_in_order([*parked, op("end", "a", "done by it", 4, 5)], forgets=False)
    assert register.is_in_order([*parked, op("resolve", "p", "free by it", 4, 5)], forgets=False)
    assert not register.is_in_order([*parked, op("claim", "c", "won", 4, 5)], forgets=False)
