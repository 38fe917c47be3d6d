"""Price bars: what names one, what makes one wrong, and how far it moved in pips.

Rows come from outside and are checked here, once. A bar is named by symbol, timeframe and start: bars of one
minute and of five may start together. It asks nobody, and knows no clock but the one it is given.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, NamedTuple

from onefold.core.coverage import Span
from onefold.core.errors import Misconfigured
from onefold.core.tiles import Series
from onefold.core.wire import flaw, quoted
from onefold.sinks.bars import BarRow

DAY = 86_400
WEEK = 7 * DAY

SCOPE = "candles"


class Timeframe(NamedTuple):
    """The length of a bar, as the service names it, and of the tiles that are fetched at once."""

    name: str
    multiplier: int
    timespan: str
    seconds: int
    tile: int
    """No more base aggregates than one answer may hold: the service counts minutes, not bars."""


TIMEFRAMES = {
    one.name: one
    for one in (
        Timeframe("1m", 1, "minute", 60, DAY),
        Timeframe("5m", 5, "minute", 300, WEEK),
        Timeframe("15m", 15, "minute", 900, WEEK),
        Timeframe("30m", 30, "minute", 1800, WEEK),
        Timeframe("1h", 1, "hour", 3600, 4 * WEEK),
        Timeframe("4h", 4, "hour", 14_400, 4 * WEEK),
        Timeframe("1d", 1, "day", DAY, 4 * WEEK),
    )
}


def timeframe(name: str) -> Timeframe:
    """Return a timeframe by its name."""
    if name not in TIMEFRAMES:
        raise Misconfigured(f"{name!r:.40} names no timeframe: write one of {', '.join(TIMEFRAMES)}")
    return TIMEFRAMES[name]


def series(symbol: str, frame: Timeframe) -> Series:
    """Name the series of a pair, and its one grid."""
    return Series(SCOPE, f"{symbol} {frame.name}", frame.tile)


class Bar(NamedTuple):
    """One price bar; `start` in seconds since 1970, of UTC."""

    symbol: str
    timeframe: str
    start: int
    open: float
    high: float
    low: float
    close: float
    volume: float
    vwap: float | None

    @property
    def key(self) -> tuple[str, str, int]:
        return (self.symbol, self.timeframe, self.start)


class Checked(NamedTuple):
    """What an answer held: its bars in order, and what was wrong with the rest."""

    bars: list[Bar]
    invalid: list[str]
    repeated: int
    """Rows that say again, word for word, what another one said."""
    differing: int
    """Rows of a start that another row, with other values, has too."""


def checked(rows: Iterable[Any], symbol: str, frame: Timeframe, tile: Span) -> Checked:
    """Sort the rows of an answer: bars, one for each start, and what is none."""
    found: dict[int, Bar] = {}
    invalid: list[str] = []
    repeated = differing = 0
    for row in rows:
        try:
            bar = read(row, symbol, frame, tile)
        except ValueError as error:
            invalid.append(f"{error}: {quoted(row)[:200]}")
            continue
        other = found.get(bar.start)
        if other == bar:
            repeated += 1
        elif other is not None:
            differing += 1
        # Of two that differ, the one that is made of more quotes knew more.
        if other is None or bar.volume > other.volume:
            found[bar.start] = bar
    return Checked([found[start] for start in sorted(found)], invalid, repeated, differing)


def read(row: Any, symbol: str, frame: Timeframe, tile: Span) -> Bar:
    """Read a row of the service; a ValueError says what is wrong with it."""
    wrong = flaw(row)
    if wrong or not isinstance(row, dict):
        raise ValueError(wrong or "it is no object")
    start = _start(row.get("t"), frame, tile)
    opened, high, low, close = (_price(row, name) for name in "ohlc")
    if not low <= min(opened, close) <= max(opened, close) <= high:
        raise ValueError("its prices do not lie between its low and its high")
    volume = _number(row, "v")
    if volume < 0:
        raise ValueError(f"its v is {volume}, below zero")
    vwap = None if row.get("vw") is None else _price(row, "vw")
    return Bar(symbol, frame.name, start, opened, high, low, close, volume, vwap)


def _start(value: Any, frame: Timeframe, tile: Span) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise ValueError(f"its t is {value!r:.40}, no whole number of milliseconds")
    start, rest = divmod(value, 1000)
    if rest or start % frame.seconds:
        raise ValueError(f"its t is {value}, at which no bar of {frame.name} starts")
    if not tile.since <= start < tile.until:
        raise ValueError(f"its t is {moment(start)}, outside of what was asked for")
    return start


def _price(row: dict[str, Any], name: str) -> float:
    value = _number(row, name)
    if value <= 0:
        raise ValueError(f"its {name} is {value}, not above zero")
    return value


def _number(row: dict[str, Any], name: str) -> float:
    value = row.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ValueError(f"its {name} is {value!r:.40}, no number")
    return float(value)


def moment(at: float) -> str:
    """Write a time, always of UTC."""
    return datetime.fromtimestamp(at, UTC).isoformat().replace("+00:00", "Z")


# ----- pips

_PIPS = {"XAU": Decimal("0.01")}
"""By the base: gold moves in cents."""
_QUOTED = {"JPY": Decimal("0.01"), "HUF": Decimal("0.01")}
"""By the quote: so many units go on one of the others that two digits are enough."""
_USUAL = Decimal("0.0001")


def pip(symbol: str) -> Decimal:
    """Say what one pip of a pair is."""
    base, _, quote = symbol.partition("/")
    return _PIPS.get(base) or _QUOTED.get(quote, _USUAL)


def range_pips(bar: Bar) -> float:
    """Say how far a bar reached, in pips; by decimals, because floats leave crumbs."""
    return float((Decimal(str(bar.high)) - Decimal(str(bar.low))) / pip(bar.symbol))


# ----- what is published and stored


class Origin(NamedTuple):
    """Where a bar comes from, and how much its word counts; never when it arrived."""

    source: str
    rank: int
    revision: int
    """Which asking it answers: a later one counts more, however long an earlier one's answer took."""
    corrects: bool = True
    """Whether a later answer may replace a bar that was final."""


def stored(bar: Bar, origin: Origin, final_before: float) -> BarRow:
    """Write a bar as it is stored. One that is not over yet is not final: it will change."""
    final = bar.start + TIMEFRAMES[bar.timeframe].seconds <= final_before
    return BarRow(
        symbol=bar.symbol,
        timeframe=bar.timeframe,
        timestamp_ms=bar.start * 1000,
        open=bar.open,
        high=bar.high,
        low=bar.low,
        close=bar.close,
        volume=bar.volume,
        vwap=bar.vwap,
        range_pips=range_pips(bar),
        source=origin.source,
        source_rank=origin.rank,
        final=int(final),
        revision=origin.revision if origin.corrects or not final else 0,
    )
