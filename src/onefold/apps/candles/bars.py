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
from onefold.core.record import Broken
from onefold.core.tiles import Series
from onefold.core.wire import flaw, quoted
from onefold.sinks.bars import BarRow

DAY = 86_400
WEEK = 7 * DAY

SCOPE = "candles"

HIGHEST = 1e12
"""No price is higher, in any money, and no volume a million times higher."""


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
    invalid: list[Broken]
    repeated: int
    """Rows that say again, word for word, what another one said."""
    differing: int
    """Rows of a start that another row, with other values, has too."""
    unweighted: int = 0
    """Bars whose average price made no sense and was dropped."""


def checked(rows: Iterable[Any], symbol: str, frame: Timeframe, tile: Span, ticker: str = "") -> Checked:
    """Sort the rows of an answer: bars, one for each start, and what is none, or not of this ticker."""
    found: dict[int, Bar] = {}
    invalid: list[Broken] = []
    repeated = differing = unweighted = 0
    for row in rows:
        try:
            bar = read(row, symbol, frame, tile, ticker)
        except ValueError as error:
            invalid.append(Broken(quoted(row), str(error)))
            continue
        unweighted += bar.vwap is None and row.get("vw") is not None
        other = found.get(bar.start)
        if other == bar:
            repeated += 1
        elif other is not None:
            differing += 1
        # Of two that differ, the one that is made of more quotes knew more.
        if other is None or bar.volume > other.volume:
            found[bar.start] = bar
    return Checked([found[start] for start in sorted(found)], invalid, repeated, differing, unweighted)


def read(row: Any, symbol: str, frame: Timeframe, tile: Span, ticker: str = "") -> Bar:
    """Read a row of the service; a ValueError says what is wrong with it."""
    if not isinstance(row, dict):
        raise ValueError(flaw(row) or "it is no object")
    # The average is an extra: without it a bar is still a bar.
    wrong = flaw({name: value for name, value in row.items() if name != "vw"})
    if wrong:
        raise ValueError(wrong)
    if ticker and row.get("T", ticker) != ticker:
        raise ValueError(f"it is about {row['T']!r:.40}, and {ticker} was asked for")
    start = _start(row.get("t"), frame, tile)
    opened, high, low, close = (_price(row, name) for name in "ohlc")
    if not low <= min(opened, close) <= max(opened, close) <= high:
        raise ValueError("its prices do not lie between its low and its high")
    volume = _number(row, "v")
    if volume < 0:
        raise ValueError(f"its v is {volume}, below zero")
    if max(high, volume / 1e6) > HIGHEST:
        raise ValueError(f"its h is {high:g} and its v {volume:g}, larger than any price or volume is")
    return Bar(symbol, frame.name, start, opened, high, low, close, volume, _average(row))


def _average(row: dict[str, Any]) -> float | None:
    """Read the average price; None if there is none, or one that cannot be."""
    try:
        return None if row.get("vw") is None else _price(row, "vw")
    except ValueError:
        return None


def _start(value: Any, frame: Timeframe, tile: Span) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise ValueError(f"its t is {value!r:.40}, no whole number of milliseconds")
    start, rest = divmod(value, 1000)
    if rest or start % frame.seconds:
        raise ValueError(f"its t is {value}, at which no bar of {frame.name} starts")
    if not tile.since <= start < tile.until:
        raise ValueError(f"its t is {_told(start)}, outside of what was asked for")
    return start


def _told(start: int) -> str:
    """Write a time that anybody may have sent; one that no calendar has stays a number."""
    try:
        return moment(start)
    except (ValueError, OverflowError, OSError):
        return f"{start:.6g}" if abs(start) < 10**300 else "a number of more than 300 digits"


def _price(row: dict[str, Any], name: str) -> float:
    value = _number(row, name)
    if value <= 0:
        raise ValueError(f"its {name} is {value}, not above zero")
    return value


def _number(row: dict[str, Any], name: str) -> float:
    value = row.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float) or not _is_finite(value):
        raise ValueError(f"its {name} is {value!r:.40}, no number")
    return float(value)


def _is_finite(value: float) -> bool:
    try:
        return math.isfinite(value)
    except OverflowError:  # a whole number that is too large for a float
        return False


def moment(at: float) -> str:
    """Write a time, always of UTC."""
    return datetime.fromtimestamp(at, UTC).isoformat().replace("+00:00", "Z")


# ----- pips

_CENT = Decimal("0.01")
_USUAL = Decimal("0.0001")

_METALS = ("XAU", "XAG", "XPT", "XPD")
"""By the base: metals move in cents."""
_COINS = (
    "BTC", "ETH", "BCH", "BSV", "BNB", "LTC", "SOL", "XMR", "ZEC", "DASH", "ETC", "AAVE", "AVAX", "LINK",
    "UNI", "MKR", "COMP", "YFI", "DOT", "ATOM",
)  # fmt: skip
"""By the base, if the quote is money: these coins move in cents. Coins that cost a few cents do not."""
_SMALL = ("JPY", "HUF", "KRW", "INR", "THB")
"""By the quote: so many units go on one of the others that two digits are enough."""


def pip(symbol: str) -> Decimal:
    """Say what one pip of a pair is; the pair may be named as the service does, like "X:BTCUSD"."""
    base, quote = _sides(symbol)
    counts_cents = base in _METALS or quote in _SMALL or (base in _COINS and quote not in _COINS)
    return _CENT if counts_cents else _USUAL


def _sides(symbol: str) -> tuple[str, str]:
    """Split a pair: at its slash, or before the last three letters of a ticker; USDT and USDC have four."""
    name = symbol.rpartition(":")[2]
    base, slash, quote = name.partition("/")
    if slash:
        return base, quote
    cut = -4 if name.endswith(("USDT", "USDC")) and len(name) > 6 else -3
    return name[:cut], name[cut:]


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
