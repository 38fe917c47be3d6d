"""When to complain: a source repeats itself too much, or falls behind too far.

It remembers the last minutes, asks nobody, and says what began and what is over. Deliberate
re-reads and the sightings of raced sources are not duplicates, and never feed it.
"""

from __future__ import annotations

from collections import deque
from typing import Literal, NamedTuple

Kind = Literal["duplicates", "lag"]

WINDOW = 300.0
"""Seconds over which the share of duplicates is taken."""

FEWEST = 20
"""Records that a source must have shown in the window before its share means anything."""


class Measured(NamedTuple):
    """What is known of one source at one moment; counts grow from the start of the worker."""

    new: int
    """Records seen, without re-reads of ours."""
    duplicates: int
    """Of these, what had been done before, without what another source of ours showed first."""
    lag: float


class Limits(NamedTuple):
    """Where the alarms of a pipeline lie; None for no alarm."""

    duplicates: float | None
    lag: float | None


class Change(NamedTuple):
    """An alarm that began, or is over."""

    kind: Kind
    raised: bool
    value: float
    limit: float


class Alarms:
    """The alarms of one source."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._past: deque[tuple[float, Measured]] = deque()
        self.raised: set[Kind] = set()

    def look(self, now: float, measured: Measured) -> list[Change]:
        """Take a measurement, and say what changed."""
        values: dict[Kind, float] = {"duplicates": self._share(now, measured), "lag": measured.lag}
        limits: dict[Kind, float | None] = {"duplicates": self._limits.duplicates, "lag": self._limits.lag}
        changes = []
        for kind, limit in limits.items():
            value = values[kind]
            if limit is None or (value > limit) == (kind in self.raised):
                continue
            self.raised ^= {kind}
            changes.append(Change(kind, kind in self.raised, value, limit))
        return changes

    def _share(self, now: float, measured: Measured) -> float:
        """Say which share of the last minutes' records were duplicates; of too few, none."""
        if not self._past:
            self._past.append((now, Measured(0, 0, 0.0)))
        self._past.append((now, measured))
        while now - self._past[0][0] > WINDOW:
            self._past.popleft()
        first = self._past[0][1]
        new = measured.new - first.new
        return (measured.duplicates - first.duplicates) / new if new >= FEWEST else 0.0


def sentence(pipeline: str, source: str, change: Change) -> str:
    """Write an alarm as a line of a log."""
    kind, raised, value, limit = change
    if kind == "duplicates":
        told = "repeats itself" if raised else "repeats itself no more than it may"
        told += f": {value:.0%} of what it showed lately was done before (limit {limit:.0%})"
    else:
        told = "fell behind" if raised else "is not far behind any more"
        told += f": {value:.0f} s (limit {limit:.0f} s)"
    return f"{pipeline}: source {source} {told}"
