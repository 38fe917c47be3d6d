"""What a journal of a bar service says about each bar at each moment, and what a table of bars holds.

Bars are made of the journal's lines here, not of the stand-in's or the application's own joining. It judges
nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import apsw

from onefold.core.coverage import Span
from onefold.core.key import Key
from onefold.worlds.journal import Journal

Values = tuple[float, ...]
"""Open, high, low, close, volume and average price."""

Timeline = list[tuple[float, Values]]
"""The values of a bar with the moments from which on the service shows them."""


class Stamped(Journal):
    """A journal whose lines say when they were written."""

    def __init__(self, clock: Callable[[], float]) -> None:
        super().__init__()
        self._clock = clock

    def note(self, kind: str, **facts: Any) -> None:
        super().note(kind, at=self._clock(), **facts)


class Cell(NamedTuple):
    """One tile of one series: what is claimed, asked for and marked as a whole."""

    symbol: str
    ticker: str
    frame: str
    seconds: int
    """The length of a bar."""
    span: Span

    @property
    def series(self) -> str:
        return f"{self.symbol} {self.frame}"

    @property
    def key(self) -> Key:
        return Key("candles", self.series, self.span.since)


def timelines(journal: Journal, cell: Cell) -> dict[int, Timeline]:
    """Return the bars of a tile by their starts, each with everything that was ever true of it."""
    minutes: dict[int, dict[str, Any]] = {}
    found: dict[int, Timeline] = {}
    for line in journal.lines():
        if line.get("ticker") != cell.ticker or line["kind"] not in ("minute", "correction"):
            continue
        minute = line["t"] // 1000 if line["kind"] == "minute" else line["start"]
        if not cell.span.since <= minute < cell.span.until:
            continue
        minutes[minute] = {**minutes.get(minute, {}), **line}
        start = minute // cell.seconds * cell.seconds
        joined = [minutes[one] for one in sorted(minutes) if start <= one < start + cell.seconds]
        found.setdefault(start, []).append((line["at"], _joined(joined)))
    return found


def _joined(minutes: list[dict[str, Any]]) -> Values:
    first, last = minutes[0], minutes[-1]
    high, low = max(one["h"] for one in minutes), min(one["l"] for one in minutes)
    return (first["o"], high, low, last["c"], float(sum(one["v"] for one in minutes)), first["vw"])


def between(timeline: Timeline, since: float, until: float) -> list[Values]:
    """Return the values that were true at any moment of a stretch, the newest last.

    If the bar came into being only later, these are the values with which it did.
    """
    before = [values for at, values in timeline if at <= since]
    within = [values for at, values in timeline if since < at <= until]
    return before[-1:] + within or [timeline[0][1]]


class Stored(NamedTuple):
    """A row of the table of bars."""

    values: Values
    version: tuple[int, int, int]
    """The rank of its source, whether the bar was final, and its revision."""

    @property
    def is_final(self) -> bool:
        return self.version[1] == 1


Place = tuple[str, str, int]
"""Symbol, timeframe and start in seconds."""

COLUMNS = (
    "symbol, timeframe, timestamp_ms, open, high, low, close, volume, vwap, source_rank, final, revision"
)


class Table:
    """A table of bars, read as any browser of SQLite files would read it."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._reader: apsw.Connection | None = None
        self._version: int | None = None
        self._rows: dict[Place, Stored] = {}

    def rows(self) -> dict[Place, Stored]:
        """Return all rows; none while there is no table."""
        if self._reader is None:
            if not _exists(self._file):
                return {}
            self._reader = apsw.Connection(str(self._file))
        # Changed by every commit of another connection. Most looks come after a write elsewhere.
        [(version,)] = self._reader.execute("PRAGMA data_version")
        if version != self._version:
            found = self._reader.execute(f"SELECT {COLUMNS} FROM bars")
            self._rows = {(row[0], row[1], row[2] // 1000): Stored(row[3:9], row[9:]) for row in found}
            self._version = version
        return self._rows


def forget_new(file: Path, rest: int) -> None:
    """Let the table drop every third minute that is new, silently, as a lossy bridge would."""
    known = "SELECT 1 FROM bars WHERE symbol = NEW.symbol AND timeframe = NEW.timeframe"
    _run(
        file,
        "CREATE TRIGGER IF NOT EXISTS forgets BEFORE INSERT ON bars "
        f"WHEN NEW.timestamp_ms / 60000 % 3 = {rest} AND NOT EXISTS "
        f"({known} AND timestamp_ms = NEW.timestamp_ms) BEGIN SELECT RAISE(IGNORE); END",
    )


def forget_nothing(file: Path) -> None:
    """Let the table keep what it is given from now on."""
    _run(file, "DROP TRIGGER IF EXISTS forgets")


def _run(file: Path, sql: str) -> None:
    """Run a statement; nothing happens while the table is not there."""
    if _exists(file):
        with closing(apsw.Connection(str(file))) as connection:
            connection.execute(sql)


def _exists(file: Path) -> bool:
    # By the library that the application uses: two copies of SQLite in one process lose each other's locks.
    if not file.exists():
        return False
    with closing(apsw.Connection(str(file))) as connection:
        return bool(list(connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'bars'")))
