"""Where a walk back through a newest-first feed can go on after its worker died.

A step says how to ask for a page in the middle of a walk. It is a hint: rows come and go, so it may lead to
another page than it once did. Any page will do, because a walk that begins with one hands on nothing younger
than the first rows of that page (`bound`): a wrong step costs time and loses nothing.
Nothing here asks a feed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from onefold.core.paging import TAIL, Ask
from onefold.core.record import At, Record

MOST = 32
"""How many steps are kept. Of more, every second one is dropped, but never the lowest."""

LONGEST = 512
"""How long the token or link of a step may be, in characters."""


class Step(NamedTuple):
    """A page in the middle of a walk."""

    at: At
    """Up to where the walk could have handed on from here, when it came by."""
    ask: Ask
    read: int
    """How many pages the walk had read before this one: they count towards its budget."""


class Trail(NamedTuple):
    """The steps of a walk that has not come to its end, the lowest first."""

    of: str
    """Which feed it is. A link or a token of another one would show other rows."""
    steps: tuple[Step, ...] = ()
    done: At | None = None
    """Up to where all was handed on: walks lead through there again, and leave no more steps."""

    def lowest(self, above: At | None) -> Step | None:
        """Return the step that leads furthest back, of those above a place."""
        return next((one for one in self.steps if above is None or one.at > above), None)

    def longer(self, step: Step) -> Trail:
        """Add a step, unless it is too long to be kept; it replaces one at the same place."""
        if len(str(step.ask.params)) + len(step.ask.link or "") > LONGEST:
            return self
        found = sorted([*(one for one in self.steps if one.at != step.at), step], key=_at)
        while len(found) > MOST:
            found = [found[0], *found[1::2]]
        return self._replace(steps=tuple(found))

    def replaced(self, step: Step, at: At) -> Trail:
        """Note where a step leads now: rows came, and its page has moved up."""
        rest = self._replace(steps=tuple(one for one in self.steps if one != step))
        return rest.longer(step._replace(at=at))

    def beyond(self, at: At | None) -> Trail:
        """Drop the steps up to a place: what lies behind them was handed on, or they lead to nothing."""
        return self._replace(steps=tuple(one for one in self.steps if at is None or one.at > at))

    def written(self, cursor: At | None) -> dict[str, Any]:
        """Write a trail as plain JSON values, to be stored beside a cursor."""
        steps = [[one.at, one.ask._asdict(), one.read] for one in self.steps]
        return {"of": self.of, "steps": steps, "done": self.done, "cursor": cursor}


def taken_up(known: Any, of: str, cursor: At | None) -> Trail:
    """Read a trail of this feed; anything else is an empty one.

    What was handed on is believed only while the cursor stands where it stood: an operator may move it back.
    """
    if not isinstance(known, dict) or known.get("of") != of:
        return Trail(of)
    steps = tuple(Step(at, Ask(**ask), read) for at, ask, read in known["steps"])
    return Trail(of, steps, known["done"] if known["cursor"] == cursor else None)


def bound(records: Sequence[Record], passed: At | None) -> At | None:
    """Say up to where a walk that begins with this page may hand on; None if that was passed.

    What stands above the page is as young as its first rows, but for a tie, and for rows that are late by at
    most `lag`: the cursor, which goes no further than this, is read from again, minus `lag`. Of the first few
    rows the oldest counts: the time of one may be wrong, and a place that is too low only costs time.
    """
    first = min(map(_at, records[:TAIL]), default=None)
    return first if first is not None and (passed is None or first > passed) else None


def _at(one: Step | Record) -> At:
    return one.at
