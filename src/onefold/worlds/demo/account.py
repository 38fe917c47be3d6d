"""The account of one application: what happened in its world, and what became of each event.

Pure counting over what the worlds' journals say and what the operator's list shows. Every event is an effect,
was filtered, is parked, or lies in a gap that was reported; what is left is lost.
"""

from __future__ import annotations

import json
from collections import Counter
from typing import Any, NamedTuple


class Account(NamedTuple):
    """One line of the account. It adds up if nothing is lost and nothing happened twice."""

    name: str
    events: int
    effects: int
    filtered: int
    parked: Counter[str]
    gaps: int
    lost: int
    twice: int

    @property
    def adds_up(self) -> bool:
        told = self.effects + self.filtered + self.parked.total() + self.gaps + self.lost
        return self.lost == 0 and self.twice == 0 and told == self.events

    def as_json(self) -> dict[str, Any]:
        return {**self._asdict(), "parked": dict(self.parked), "adds_up": self.adds_up}


def kept_in(row: dict[str, Any]) -> dict[str, Any]:
    """Read what an open entry keeps, from a line of `onefold list --json`: its record, and for whom it is."""
    body = row.get("body")
    kept = json.loads(body) if isinstance(body, str) else body
    return kept if isinstance(kept, dict) else {}


def account(
    name: str,
    expected: Counter[str],
    happened: Counter[str],
    filtered: int,
    parked: dict[str, str],
    gaps: Counter[str] | None = None,
) -> Account:
    """Hold what should have happened against what did.

    `expected` and `happened` count effects by name; `parked` says why, by the same names.
    """
    effects = sum((expected & happened).values())
    missing = expected - happened
    whys: Counter[str] = Counter()
    in_gaps = lost = 0
    for one, times in missing.items():
        if one in parked:
            whys[parked[one]] += times
        elif gaps and gaps[one]:
            in_gaps += times
        else:
            lost += times
    twice = sum((happened - expected).values())
    return Account(name, expected.total() + filtered, effects, filtered, whys, in_gaps, lost, twice)
