"""Price bars in a table: of one key the best version stands, and what differed is counted.

*Idempotent*: a row carries its version (rank of its source, finality, revision), and a better one is never
replaced by a worse, whichever comes last. It makes its table where there is none, and can clean one that
holds bars several times. SQLite and PostgreSQL; ClickHouse is planned.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any, Literal, NamedTuple
from urllib.parse import unquote, urlsplit

from onefold.core.coverage import Span
from onefold.core.errors import Misconfigured
from onefold.core.terms import Duration, seconds
from onefold.runtime import current
from onefold.tables import PATIENCE, Database, kind_of
from onefold.tables.names import checked_table, listed, quoted

KEY = ("symbol", "timeframe", "timestamp_ms")
VALUES = ("open", "high", "low", "close", "volume", "vwap")
VERSION = ("source_rank", "final", "revision")

Met = Literal["new", "same", "better", "worse"]


class BarRow(NamedTuple):
    """One bar as it is stored; times in milliseconds since 1970, of UTC."""

    symbol: str
    timeframe: str
    timestamp_ms: int
    open: float
    high: float
    low: float
    close: float
    volume: float
    vwap: float | None
    range_pips: float
    source: str
    source_rank: int
    final: int
    """1 if the bar was over when it was asked for, 0 if it will change."""
    revision: int

    @property
    def key(self) -> tuple[str, str, int]:
        return (self.symbol, self.timeframe, self.timestamp_ms)

    @property
    def values(self) -> tuple[float | None, ...]:
        return (self.open, self.high, self.low, self.close, self.volume, self.vwap)

    @property
    def version(self) -> tuple[int, int, int]:
        """What decides between two rows of one key. When they arrived is no part of it."""
        return (self.source_rank, self.final, self.revision)


class Kept(NamedTuple):
    """What rows met where they were stored."""

    new: int = 0
    same: int = 0
    better: int = 0
    worse: int = 0
    conflicts: int = 0
    """Of the better and the worse: those that differ from a bar that was final."""


class Cleaned(NamedTuple):
    """What a clean-up found and left."""

    before: int
    after: int
    conflicts: int
    """Keys of which rows with different values were there."""


def weigh(old: BarRow | None, new: BarRow) -> Met:
    """Decide between what is stored and what comes."""
    if old is None:
        return "new"
    if old.values == new.values and old.version >= new.version:
        return "same"
    return "better" if new.version > old.version else "worse"


def is_conflict(old: BarRow | None, new: BarRow) -> bool:
    """Say whether two rows contradict each other; one that was not final was expected to change."""
    return old is not None and old.values != new.values and bool(old.final and new.final)


class BarTable:
    """Bars in a table of a database. `keep` and `stored` are for event loops, `write` and `read` block."""

    def __init__(self, url: str, table: str = "bars", *, patience: Duration = PATIENCE) -> None:
        if kind_of(url) == "mariadb":  # before its client, which nobody has to install for this
            raise Misconfigured(
                "bars are stored in SQLite or PostgreSQL: write sqlite:///… or postgresql://…"
            )
        self._database = Database(url, seconds(patience, "patience"))
        self._file = _file(url).absolute() if self._database.kind == "sqlite" else None
        self._table = checked_table(table)
        self._name = quoted(self._database.kind, self._table)
        self._ready = False

    async def keep(self, rows: Sequence[BarRow]) -> Kept:
        """Store rows, and tell what they met."""
        return await current().blocking(self.write, rows)

    async def stored(self, symbol: str, timeframe: str, span: Span) -> Mapping[int, int]:
        """Say which bars of a span are stored: their starts in seconds, each with its conflicts."""
        return await current().blocking(self.read, symbol, timeframe, span)

    async def aclose(self) -> None:
        await current().blocking(self._database.close)

    def close(self) -> None:
        """Let go of the connection."""
        self._database.close()

    # ----- storing

    def write(self, rows: Sequence[BarRow]) -> Kept:
        """Store rows in one transaction."""
        self._make()
        met: dict[str, int] = dict.fromkeys(Kept._fields, 0)
        with self._database.transaction() as connection:
            # In one order everywhere: two bridges that store the same bars must not wait for each other.
            for _, group in groupby(sorted(rows, key=_place), key=lambda row: row[:2]):
                self._weighed(connection, list(group), met)
        return Kept(**met)

    def _weighed(self, connection: Any, rows: list[BarRow], met: dict[str, int]) -> None:
        old = self._old(connection, rows)
        winners: dict[tuple[str, str, int], list[Any]] = {}
        losers: list[list[Any]] = []
        for row in rows:
            how, conflict = weigh(old.get(row.key), row), is_conflict(old.get(row.key), row)
            met[how] += 1
            met["conflicts"] += conflict
            if how in ("new", "better"):
                before = winners[row.key][-1] if row.key in winners else 0
                winners[row.key] = [*row, int(conflict) + before]
                old[row.key] = row
            elif conflict:
                losers.append(list(row.key))
        self._database.run_many(connection, self._upsert, list(winners.values()))
        self._database.run_many(connection, self._count, losers)

    def _old(self, connection: Any, rows: list[BarRow]) -> dict[tuple[str, str, int], BarRow]:
        asked = f"SELECT {self._columns(BarRow._fields)} FROM {self._name} WHERE {_WITHIN}"
        first, last = rows[0], rows[-1]
        bound = (first.symbol, first.timeframe, first.timestamp_ms, last.timestamp_ms + 1)
        _, found = self._database.run(connection, asked, bound)
        return {one.key: one for one in (BarRow(*values) for values in found)}

    @property
    def _upsert(self) -> str:
        # Another bridge may have written since we looked: the version is compared once more, by the table.
        names = (*BarRow._fields, "conflicts")
        changes = ", ".join(f"{name} = excluded.{name}" for name in BarRow._fields if name not in KEY)
        return (
            f"INSERT INTO {self._name} AS old ({self._columns(names)}) VALUES ({_places(names)}) "
            f"ON CONFLICT ({self._columns(KEY)}) DO UPDATE SET {changes}, "
            "conflicts = old.conflicts + excluded.conflicts "
            "WHERE (excluded.source_rank, excluded.final, excluded.revision) "
            "> (old.source_rank, old.final, old.revision)"
        )

    @property
    def _count(self) -> str:
        fits = " AND ".join(f"{name} = ?" for name in KEY)
        return f"UPDATE {self._name} SET conflicts = conflicts + 1 WHERE {fits}"

    # ----- reading

    def read(self, symbol: str, timeframe: str, span: Span) -> dict[int, int]:
        """Say which bars of a span are stored: their starts in seconds, each with its conflicts."""
        self._make()
        asked = f"SELECT timestamp_ms, conflicts FROM {self._name} WHERE {_WITHIN}"
        bound = (symbol, timeframe, span.since * 1000, span.until * 1000)
        with self._database.transaction(write=False) as connection:
            _, rows = self._database.run(connection, asked, bound)
        return {int(start) // 1000: int(conflicts) for start, conflicts in rows}

    # ----- the table

    def _make(self) -> None:
        """Make the table if it is not there; refuse one in which a bar could stand twice."""
        if self._ready:
            return
        if self._file:
            self._file.touch()
        with self._database.transaction() as connection:
            if self._database.kind == "postgresql":
                # Two that make one table at once would fail over its name.
                self._database.run(connection, "SELECT pg_advisory_xact_lock(?)", (_LOCK,))
            self._database.run(connection, _CREATE.format(table=self._name))
            there = self._database.columns(connection, self._table)
        missing = [name for name in (*BarRow._fields, "conflicts") if name not in there]
        if missing:
            raise Misconfigured(
                f"the table {self._table} has no column {missing[0]}: clean it first, "
                f"BarTable(url, {self._table!r}).clean(ranks), which adds what is missing"
            )
        self._ready = True

    def clean(self, ranks: Mapping[str, int]) -> Cleaned:
        """Leave one row for every key of a table that holds some several times; all of it, or nothing.

        The rank of its `source` decides, then the version if the table has one, then who counted more quotes;
        not when a row came. Columns that are missing are added, and a unique key, so that it stays clean.
        """
        with self._database.transaction() as connection:
            if self._database.kind == "postgresql":
                self._database.run(connection, f"LOCK TABLE {self._name} IN SHARE ROW EXCLUSIVE MODE")
            there = self._database.columns(connection, self._table)
            _check_bars(self._table, there)
            before, conflicts = self._number(connection), self._differing(connection)
            self._widen(connection, there, ranks)
            self._database.run(connection, self._surplus)
            unique = quoted(self._database.kind, f"{self._table.replace('.', '_')}_once"[:63])
            self._database.run(
                connection,
                f"CREATE UNIQUE INDEX IF NOT EXISTS {unique} ON {self._name} ({self._columns(KEY)})",
            )
            return Cleaned(before, self._number(connection), conflicts)

    def _number(self, connection: Any) -> int:
        _, [(number,)] = self._database.run(connection, f"SELECT count(*) FROM {self._name}")
        return int(number)

    def _differing(self, connection: Any) -> int:
        differ = " OR ".join(f"min({name}) <> max({name})" for name in VALUES[:-1])
        keys = f"SELECT 1 FROM {self._name} GROUP BY {self._columns(KEY)} HAVING {differ}"
        _, [(number,)] = self._database.run(connection, f"SELECT count(*) FROM ({keys}) AS keys")
        return int(number)

    def _widen(self, connection: Any, there: Mapping[str, str], ranks: Mapping[str, int]) -> None:
        for name, kind in _ADDED.items():
            if name not in there:
                self._database.run(connection, f"ALTER TABLE {self._name} ADD COLUMN {name} {kind}")
        for source, rank in ranks.items():
            sql = f"UPDATE {self._name} SET source_rank = ? WHERE source = ?"
            self._database.run(connection, sql, (rank, source))

    @property
    def _surplus(self) -> str:
        place = "rowid" if self._database.kind == "sqlite" else "ctid"
        best = ", ".join(f"{name} DESC" for name in (*VERSION, "volume", "open", "high", "low", "close"))
        numbered = (
            f"SELECT {place} AS place, row_number() OVER "
            f"(PARTITION BY {self._columns(KEY)} ORDER BY {best}) AS number FROM {self._name}"
        )
        surplus = f"SELECT place FROM ({numbered}) AS numbered WHERE number > 1"
        return f"DELETE FROM {self._name} WHERE {place} IN ({surplus})"

    def _columns(self, names: Iterable[str]) -> str:
        return listed(self._database.kind, names)


_WITHIN = "symbol = ? AND timeframe = ? AND timestamp_ms >= ? AND timestamp_ms < ?"
_LOCK = 0x626172735F6F6E63
"""Any number that nobody else takes: it names the making of this table."""

_CREATE = """
CREATE TABLE IF NOT EXISTS {table} (
    symbol VARCHAR(64) NOT NULL,
    timeframe VARCHAR(16) NOT NULL,
    timestamp_ms BIGINT NOT NULL,
    open DOUBLE PRECISION NOT NULL,
    high DOUBLE PRECISION NOT NULL,
    low DOUBLE PRECISION NOT NULL,
    close DOUBLE PRECISION NOT NULL,
    volume DOUBLE PRECISION NOT NULL,
    vwap DOUBLE PRECISION,
    range_pips DOUBLE PRECISION,
    source VARCHAR(64) NOT NULL,
    source_rank BIGINT NOT NULL DEFAULT 0,
    final BIGINT NOT NULL DEFAULT 1,
    revision BIGINT NOT NULL DEFAULT 0,
    conflicts BIGINT NOT NULL DEFAULT 0,
    PRIMARY KEY (symbol, timeframe, timestamp_ms)
)
"""

_ADDED = {
    "vwap": "DOUBLE PRECISION",
    "range_pips": "DOUBLE PRECISION",
    "source_rank": "BIGINT NOT NULL DEFAULT 0",
    "final": "BIGINT NOT NULL DEFAULT 1",
    "revision": "BIGINT NOT NULL DEFAULT 0",
    "conflicts": "BIGINT NOT NULL DEFAULT 0",
}


def _check_bars(table: str, there: Mapping[str, str]) -> None:
    missing = [name for name in (*KEY, *VALUES[:-1], "source") if name not in there]
    if missing:
        raise Misconfigured(f"the table {table} has no column {missing[0]}: it holds no bars")


def _place(row: BarRow) -> tuple[str, str, int]:
    return row.key


def _places(names: Sequence[str]) -> str:
    return ", ".join("?" * len(names))


def _file(url: str) -> Path:
    return Path(unquote(urlsplit(url).path[1:]))
