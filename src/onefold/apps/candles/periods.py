"""The file `downloaded_periods.json` of older downloaders: taken over into the coverage, and written from it.

What the file says is not believed: a period counts only if the table of bars holds as many as it claims,
and a tile only if the periods hold it whole. A file that is torn is refused, and nothing is taken over.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from onefold.apps.candles.bars import SCOPE, TIMEFRAMES, Timeframe, moment, series
from onefold.apps.candles.pipeline import market, point
from onefold.core.calendar import Calendar, expected
from onefold.core.coverage import Span, Tile, merge
from onefold.core.errors import Misconfigured
from onefold.core.tiles import IN, Period, noted, tile, whole_tiles
from onefold.ledger import Ledger
from onefold.runtime import current
from onefold.sinks.bars import BarTable

LEAST = 0.5
SETTLE = 300.0
AT_ONCE = 500


class TakenOver(NamedTuple):
    """What came of a file."""

    tiles: int
    """Tiles that are in now because of it."""
    known: int
    """Tiles that were claimed or in before."""
    unconfirmed: int
    """Tiles that it claims and the table does not confirm: they will be downloaded."""


def take_over(
    file: Path,
    ledger: Ledger,
    bars: BarTable,
    *,
    calendar: str = "fx",
    holidays: Sequence[str] = (),
    now: float | None = None,
) -> TakenOver:
    """Take over what a file says was downloaded, as far as the table of bars confirms it."""
    periods = read(file)
    open_hours = market(calendar, holidays)
    available = int((current().time() if now is None else now) - SETTLE)
    counts = [
        _take_series(ledger, bars, symbol, frame, claimed, open_hours, available)
        for (symbol, frame), claimed in periods.items()
    ]
    return (
        TakenOver(*(sum(numbers) for numbers in zip(*counts, strict=True))) if counts else TakenOver(0, 0, 0)
    )


def _take_series(
    ledger: Ledger,
    bars: BarTable,
    symbol: str,
    frame: Timeframe,
    claimed: Sequence[Period],
    calendar: Calendar,
    available: int,
) -> TakenOver:
    true = [one for one in claimed if len(bars.read(symbol, frame.name, one.span)) >= (one.rows or 0)]
    whole = whole_tiles(true, frame.tile, available)
    receipts = {
        span: receipt
        for span in whole
        if (receipt := confirmed(span, len(bars.read(symbol, frame.name, span)), frame, calendar))
    }
    won = _settle(ledger, {series(symbol, frame).key(span.since): one for span, one in receipts.items()})
    every = len(whole_tiles(claimed, frame.tile, available))
    return TakenOver(won, len(receipts) - won, every - len(receipts))


def confirmed(span: Span, rows: int, frame: Timeframe, calendar: Calendar) -> dict[str, Any] | None:
    """Say what a tile is by what the table holds of it; None if that is too little to believe."""
    likely = expected(span, frame.seconds, calendar)
    if rows < likely * LEAST:
        return None
    return noted("complete" if rows else "empty", rows, likely)


def _settle(ledger: Ledger, receipts: Mapping[Any, dict[str, Any]]) -> int:
    keys, won = list(receipts), 0
    for at in range(0, len(keys), AT_ONCE):
        claims = ledger.claim_many(keys[at : at + AT_ONCE], effect="idempotent")
        mine = [claim for claim in claims if claim.won]
        won += len(mine) - len(ledger.settle_many([(claim, receipts[claim.key]) for claim in mine]))
    return won


# ----- the file


def read(file: Path) -> dict[tuple[str, Timeframe], list[Period]]:
    """Read the periods of a file; one that is torn, or says what cannot be, is refused as a whole."""
    try:
        said = json.loads(file.read_text("utf-8"))
    except FileNotFoundError:
        raise Misconfigured(f"there is no file {file}") from None
    except (ValueError, OSError) as error:
        raise Misconfigured(
            f"{file} cannot be read: {error}; it may have been torn while it was written. Nothing was taken "
            "over: restore a copy, or let the bars be downloaded again"
        ) from None
    if not isinstance(said, dict):
        raise Misconfigured(f'{file} holds no object of periods, as {{"EUR/USD_1m": [...]}}')
    return {_named(name, file): [_period(one, name, file) for one in rows] for name, rows in said.items()}


def _named(name: str, file: Path) -> tuple[str, Timeframe]:
    symbol, _, frame = name.rpartition("_")
    if not symbol or frame not in TIMEFRAMES:
        raise Misconfigured(f"{file} names {name!r:.60}: a pair and a timeframe are expected, as EUR/USD_1m")
    return symbol, TIMEFRAMES[frame]


def _period(row: Any, name: str, file: Path) -> Period:
    bar = _named(name, file)[1].seconds
    try:
        since, until = point(_stamp(row["start"]), "start"), _end(_stamp(row["end"]), bar)
        rows = row.get("bars_count")
        return Period(Span(since, until), None if rows is None else int(rows))
    except (KeyError, TypeError, ValueError) as error:
        raise Misconfigured(f"a period of {name} in {file} cannot be read: {error!s:.160}") from None


def _stamp(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError(f"{value!r:.40} is no time")
    return value


def _end(written: str, bar: int) -> int:
    """Read an end. A time is that of the last bar, as 23:59; a day alone is the first that is not in."""
    return point(written, "end") + (0 if len(written) == len("2025-10-08") else bar)


def write(file: Path, ledger: Ledger) -> int:
    """Write the periods that are in, as older readers want them; say how many. The file appears whole."""
    found: dict[str, list[Tile]] = {}
    for key, entry in ledger.entries(SCOPE, "done"):
        name, since = _placed(key.label)
        frame = TIMEFRAMES[name.rpartition(" ")[2]]
        known = tile(Span(since, since + frame.tile), entry)
        if known and known.state in IN:
            found.setdefault(name, []).append(known)
    text = {name.replace(" ", "_"): _rows(tiles, name) for name, tiles in sorted(found.items())}
    beside = file.with_name(f"{file.name}.new")
    beside.write_text(json.dumps(text, indent=2) + "\n", "utf-8")
    os.replace(beside, file)
    return sum(map(len, text.values()))


def _placed(label: str) -> tuple[str, int]:
    name, _, since = label.rpartition("/")
    return name.replace("\\/", "/"), int(since)


def _rows(tiles: Sequence[Tile], name: str) -> list[dict[str, Any]]:
    bar = TIMEFRAMES[name.rpartition(" ")[2]].seconds
    return [
        {
            "start": moment(span.since),
            "end": moment(span.until - bar),
            "downloaded_at": moment(int(current().time())),
            "bars_count": sum(one.rows for one in tiles if span.since <= one.span.since < span.until),
            "source": "onefold",
        }
        for span in merge(one.span for one in tiles)
    ]
