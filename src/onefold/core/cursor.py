"""How far a source was read, and how a page moves that on.

A cursor holds no ids: pages start *at* it, minus `lag`, and the ledger tells ties and repeats apart.
It moves only past records that are accounted for, and never backwards without an operator.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from onefold.core.record import At, Fate, Mark
from onefold.core.terms import Seconds


class Cursor(NamedTuple):
    """Everything before `at` is accounted for; what is exactly at `at` may still be arriving."""

    at: At | None = None
    mark: Any = None
    """What the source said it must find again to go on from here; None for sources that need nothing."""


def advance(cursor: Cursor, fates: Iterable[tuple[At, Fate]], marks: Sequence[Mark] = ()) -> Cursor:
    """Move a cursor up to the first record that is still open, or to the last one seen.

    A record below the cursor is late, not old: it does not move the cursor back, and while it is open
    the cursor stands still, or `lag` would one day no longer reach it. A mark replaces the cursor's only once
    the cursor has reached it: a cursor that is held back in one file must find that file.
    """
    reached, stopped = cursor.at, None
    for at, fate in fates:
        if fate == "open":
            stopped = at if stopped is None else min(stopped, at)
        if reached is None or at > reached:
            reached = at
    if stopped is not None and reached is not None:
        reached = min(reached, stopped)
    if reached is not None and cursor.at is not None and reached < cursor.at:
        reached = None
    known = [mark.known for mark in marks if _is_reached(mark, reached)]
    return Cursor(cursor.at if reached is None else reached, known[-1] if known else cursor.mark)


def needed(marks: Sequence[Mark], places: Sequence[At]) -> tuple[Mark, ...]:
    """Leave out marks that a cursor at none of these places would take: another one replaces them there."""
    taken = {index for at in (None, *places) for index in [_last(marks, at)] if index is not None}
    return tuple(marks[index] for index in sorted(taken))


def _last(marks: Sequence[Mark], at: At | None) -> int | None:
    return max((index for index, mark in enumerate(marks) if _is_reached(mark, at)), default=None)


def _is_reached(mark: Mark, at: At | None) -> bool:
    return mark.since is None or (at is not None and mark.since <= at)


def start(cursor: Cursor, lag: Seconds = 0.0) -> At | None:
    """Say where the next page starts, inclusive; None from the beginning."""
    return None if cursor.at is None else cursor.at - lag
