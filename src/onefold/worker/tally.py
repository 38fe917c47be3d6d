"""What a worker counts: per pipeline and source, as plain numbers that metrics, lists and alarms read.

Counting takes no decision and asks nobody. Deliberate re-reads are counted apart from duplicates.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Iterable
from typing import Literal, NamedTuple

from onefold.core.record import At, Record

Count = Literal[
    "seen", "reread", "won", "duplicate", "busy", "parked", "filtered", "done", "refused", "failed",
    "in-doubt", "released", "lost", "unsettled", "taken-over", "broken", "gap", "retracted", "late",
    "raced", "purged",
]  # fmt: skip

RACE_WINDOW = 600.0
"""Seconds after which a source that did not show what another showed has missed it."""

LATENESS = (0.01, 0.1, 0.5, 1.0, 5.0, 30.0, 120.0, 600.0)
"""Upper bounds, in seconds, of the classes in which a late sighting is counted."""


class Tally:
    """The counts of one pipeline."""

    def __init__(self, sources: Iterable[str]) -> None:
        self.sources = tuple(sources)
        self.counts: Counter[tuple[Count, str]] = Counter()
        self.late: dict[str, Counter[float]] = {name: Counter() for name in self.sources}
        self.errors: dict[str, str] = {}
        self.connected: dict[str, float] = {}
        self.read_to: dict[str, At] = {}
        """Up to where each source had been read before its present round began."""
        self.race = Race(self.sources)

    def add(self, count: Count, source: str, number: int = 1) -> None:
        self.counts[count, source] += number

    def repeated(self, record: Record) -> None:
        """Count what was done before: a re-read of ours, if we went back for it, else a duplicate."""
        self.add("reread" if self.was_read(record) else "duplicate", record.source)

    def won(self, key: bytes, source: str) -> None:
        """Count a claim that was won."""
        self.add("won", source)
        self.race.confirm(key)

    def done_before(self, key: bytes, record: Record, by: str) -> None:
        """Count what the ledger knows as done; what another source won is no duplicate of this one's."""
        self.race.take_back(key, record.source)
        if by not in ("", record.source) and not self.was_read(record):
            self.add("raced", record.source)
        else:
            self.repeated(record)

    def was_read(self, record: Record) -> bool:
        """Say whether we went back for a record ourselves; otherwise its source repeats itself."""
        read_to = self.read_to.get(record.source)
        return read_to is not None and record.at <= read_to

    def total(self, count: Count, source: str | None = None) -> int:
        """Return a count of one source, or of all."""
        if source is not None:
            return self.counts[count, source]
        return sum(number for (name, _), number in self.counts.items() if name == count)

    def duplicate_rate(self, source: str) -> float:
        """Say which share of what a source showed for the first time had been done before."""
        new = self.counts["seen", source] - self.counts["reread", source]
        return self.counts["duplicate", source] / new if new > 0 else 0.0

    def sighted(self, key: bytes, source: str, now: float) -> None:
        """Note who showed a key first, and how far behind the others are."""
        behind = self.race.sight(key, source, now)
        if behind is not None:
            self.add("late", source)
            self.late[source][lateness(behind)] += 1


def lateness(seconds: float) -> float:
    """Return the class of a delay: its upper bound, or infinity."""
    return next((bound for bound in LATENESS if seconds <= bound), float("inf"))


class Sighting(NamedTuple):
    """Who showed a key first, when by the monotonic clock, and who has shown it since."""

    first: str
    at: float
    by: frozenset[str]
    counted: bool = False
    """Whether it is certain that this was the first sighting of all."""


class Race:
    """Which source of a pipeline showed each key first; remembered for a while, and in bounded number."""

    def __init__(self, sources: tuple[str, ...], limit: int = 50_000, window: float = RACE_WINDOW) -> None:
        self._sources = frozenset(sources)
        self._limit = limit
        self._window = window
        self._seen: OrderedDict[bytes, Sighting] = OrderedDict()
        self.first: Counter[str] = Counter()
        self.missed: Counter[str] = Counter()

    def sight(self, key: bytes, source: str, now: float) -> float | None:
        """Return how far behind a source is with a key that another showed before; None if it is not."""
        if len(self._sources) < 2:
            return None
        self.close(now)
        known = self._seen.get(key)
        if known is None:
            self._seen[key] = Sighting(source, now, frozenset((source,)))
            return None
        if source in known.by:
            return None
        self._seen[key] = known._replace(by=known.by | {source})
        self.confirm(key)
        return now - known.at

    def confirm(self, key: bytes) -> None:
        """Count the first sighting of a key as such: it is now certain that nothing was done before it."""
        known = self._seen.get(key)
        if known is not None and not known.counted:
            self._seen[key] = known._replace(counted=True)
            self.first[known.first] += 1

    def take_back(self, key: bytes, source: str) -> None:
        """Strike out a sighting that was no part of this race: the key had been done before it."""
        known = self._seen.get(key)
        if known is not None and known.first == source and not known.counted:
            del self._seen[key]

    def close(self, now: float) -> None:
        """Count who missed what, where the time to show it has run out."""
        while self._seen:
            key, oldest = next(iter(self._seen.items()))
            over = now - oldest.at >= self._window
            if not over and len(self._seen) < self._limit:
                return
            self.confirm(key)
            del self._seen[key]
            # What is forgotten only for want of room may still be shown.
            self.missed.update(self._sources - oldest.by if over else ())
