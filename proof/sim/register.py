"""Whether the answers about one key could have come from a register that does one thing at a time.

The search of Wing and Gong: order the questions so that each takes effect between its call and its answer
and every answer fits what stood then. What was never answered may have happened at any later time, or not
at all. Nothing is looked at but what callers saw, so that no knowledge of the store can hide a mistake.
"""

from __future__ import annotations

from collections.abc import Sequence

from proof.sim.subject import NEVER, Kind, Op

State = tuple[str, str]
"""What stands: nothing, held, done or parked, and under whose token."""

START: State = ("nothing", "")
LIMIT = 20_000
"""More steps than any history needs; who searches longer is told that it is not in order."""

_TOLD = {"done": "done", "parked": "parked", "free": "nothing", "held": "held"}


class Question:
    """One question, as its caller saw it; `open` ones need not have happened."""

    __slots__ = ("called", "hint", "op", "open", "returned")

    def __init__(self, op: Op, open: bool, returned: float, hint: float) -> None:
        self.op = op
        self.open = open
        self.called = op.called
        self.returned = returned
        self.hint = hint


def is_in_order(ops: Sequence[Op], forgets: bool) -> bool:
    """Say whether some order explains every answer."""
    questions = sorted(_questions(ops), key=lambda question: question.hint)
    return _is_likely_order(questions, forgets) or _search(questions, forgets)


def _is_likely_order(questions: Sequence[Question], forgets: bool) -> bool:
    """Try the order in which the store was last asked, between call and answer; mostly it will do."""
    states = {START}
    for question in questions:
        after = {one for state in states for one in _after(question, state, forgets)}
        states = states | after if question.open else after
    return bool(states)


def _search(questions: Sequence[Question], forgets: bool) -> bool:
    """Try every order that fits the calls and answers."""
    everything = (1 << len(questions)) - 1
    must = sum(1 << at for at, question in enumerate(questions) if not question.open)
    seen: set[tuple[int, State]] = set()
    stack: list[tuple[int, State]] = [(everything, START)]
    while stack:
        left, state = stack.pop()
        if not left & must:
            return True
        if (left, state) in seen:
            continue
        seen.add((left, state))
        if len(seen) > LIMIT:
            return False
        stack.extend(_next(questions, left, state, forgets))
    return False


def _next(questions: Sequence[Question], left: int, state: State, forgets: bool) -> list[tuple[int, State]]:
    """Give what may come next, the likeliest last."""
    latest = min(
        (question.returned for at, question in enumerate(questions) if left >> at & 1), default=NEVER
    )
    found = []
    for at in range(len(questions) - 1, -1, -1):
        question = questions[at]
        if left >> at & 1 and question.called <= latest:
            found += [(left & ~(1 << at), after) for after in _after(question, state, forgets)]
    return found


def _questions(ops: Sequence[Op]) -> list[Question]:
    """List what can have changed the register, or been told what it holds."""
    found = []
    for op in ops:
        if op.kind in ("claim", "end", "resolve", "retry", "probe", "note"):
            open = op.answer is None or op.answer.state == "unknown" or _may_have_happened(op)
            # What nobody answered and nobody wrote need not be tried at every place.
            if not open or op.wrote:
                found.append(Question(op, open, NEVER if open else op.returned, op.executed))
        if op.wrote and op.kind in ("claim", "ready") and op.said != "won":
            found.append(Question(_again(op, "end"), True, NEVER, op.executed))
        elif op.wrote > 1 and op.kind == "claim":
            found.append(Question(_again(op, "claim"), True, NEVER, op.called))
    return found


def _may_have_happened(op: Op) -> bool:
    """Find the losers that did write: a claim given back, a word that others went past unheard."""
    if op.answer is None or not op.wrote:
        return False
    return op.answer.state != "won" if op.kind == "claim" else op.answer.state == "lost"


def _again(op: Op, kind: Kind) -> Op:
    """Make up what a question may have done beside its answer: given the key back, or lost it at first."""
    beside = Op(kind, op.subject, op.token, op.who, op.called)
    beside.ending = "refused"
    beside.executed = op.executed
    return beside


def _after(question: Question, state: State, forgets: bool) -> list[State]:
    """Say what may stand after a question, if its answer fits what stood before; nothing if it does not."""
    op = question.op
    if op.kind == "claim":
        return _after_claim(op, question.open, state, forgets)
    if op.kind == "end":
        return _after_end(op, question.open, state)
    if op.kind == "note":
        return [state, ("parked", op.token)] if state[0] == "nothing" else [state]
    return _after_decision(op, question.open, state)


def _after_claim(op: Op, open: bool, state: State, forgets: bool) -> list[State]:
    stands, token = state
    won: State = ("done" if op.subject.effect == "joined" else "held", op.token)
    free = stands in ("nothing", "held") or (stands == "done" and forgets)
    parked: list[State] = [("parked", token), ("parked", op.token)] if free else []
    if open:
        return [won, *parked] if free else []
    match op.said:
        case "won":
            return [won] if free or state == won else []
        case "done":
            return [state] if stands == "done" else []
        case "parked":
            return [state] if stands == "parked" else parked
        case _:
            return [state] if stands in ("nothing", "held") else []


def _after_end(op: Op, open: bool, state: State) -> list[State]:
    stands, token = state
    mine = token == op.token and stands in ("held", "parked", "done")
    if open or op.answer is None:
        targets = ("done",) if op.ending == "returned" else ("nothing", "parked")
        return [(target, op.token) for target in targets] if mine else []
    if op.answer.state == "lost":
        return [] if mine and stands == "held" else [state]
    entry = op.answer.entry
    told = _TOLD[entry.state] if entry is not None else "nothing"
    return [(told, op.token)] if mine or state == (told, op.token) else []


def _after_decision(op: Op, open: bool, state: State) -> list[State]:
    stands, _ = state
    if not open and op.answer is not None and op.answer.state != "settled":
        return [state]
    if stands != "parked" and not (op.kind == "retry" and stands == "nothing"):
        return []
    entry = op.answer.entry if op.answer is not None else None
    if entry is not None and not open:
        return [(_TOLD[entry.state], op.token)]
    return [("done", op.token), ("nothing", op.token)]
