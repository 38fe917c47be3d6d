"""The stage on which candles is tested: a bar service, a worker, a look into the bars and the coverage."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from onefold.apps.candles import Settings
from onefold.apps.candles.bars import TIMEFRAMES, series
from onefold.apps.candles.pipeline import streamed
from onefold.apps.candles.transport import BarSink, Embedded, Transport
from onefold.core.coverage import Span, Tile
from onefold.core.terms import Terms
from onefold.core.tiles import covered
from onefold.drive import Ports, run
from onefold.runtime import monotonic
from onefold.sinks.bars import BarTable
from onefold.stores import connect
from onefold.tables import Database
from onefold.worker import Worker
from onefold.worker.secret import Secret
from onefold.worker.settings import Live
from onefold.worlds.bars import KEY, Bars
from onefold.worlds.mischief import Mischief

DAY = 86_400
MONDAY = 1_759_708_800
"""2025-10-06T00:00Z."""
NOW = MONDAY + 7 * DAY + 43_200
"""2025-10-13T12:00Z, a Monday too."""
WEEKDAYS = Span(MONDAY, MONDAY + 3 * DAY)

EUR = "EUR/USD"
TICKER = "C:EURUSD"


def world(*, now: float = NOW, page: int = 500, mischief: Mischief | None = None) -> Bars:
    return Bars(mischief, page=page, now=lambda: now)


def settings(world: Bars, folder: Path, **more: Any) -> Settings:
    said: dict[str, Any] = {
        "api_key": Secret(KEY),
        "pairs": (EUR,),
        "since": "2025-10-06",
        "until": "2025-10-09",
        "bars": f"sqlite:///{folder / 'bars.db'}",
        "url": world.url,
        "pace": 0.0,
        "again": "50ms",
        "refresh": "50ms",
        "every": "50ms",
    }
    return Settings(**{**said, **more})


def worker(
    said: Settings,
    store: str,
    *,
    now: float = NOW,
    transport: Transport | None = None,
    sink: BarSink | None = None,
    once: bool = False,
    lease: float = 120,
) -> Worker:
    live = Live("candles.")
    pipeline = streamed(
        said, live, transport or Embedded(), sink or BarTable(said.bars, said.table), lambda: now
    )
    pipeline = replace(pipeline, terms=Terms(lease=lease, backoff=pipeline.terms.backoff))
    return Worker([pipeline], store=store, grace=5, once=once, beside=[live.attend])


def coverage(store: str, span: Span = WEEKDAYS, frame: str = "1m", symbol: str = EUR) -> list[Tile]:
    """Read how the tiles of a stretch stand."""
    ledger = connect(store)
    try:
        return run(covered(series(symbol, TIMEFRAMES[frame]), span), Ports(ledger))
    finally:
        ledger.close()


def states(store: str, span: Span = WEEKDAYS, frame: str = "1m", symbol: str = EUR) -> list[str]:
    return [one.state for one in coverage(store, span, frame, symbol)]


Values = dict[tuple[str, str, int], tuple[float, ...]]


@contextmanager
def looking(url: str) -> Iterator[Any]:
    """Look into a database beside the code under test; give a function that runs a statement."""
    database = Database(url)
    try:
        with database.transaction() as connection:
            yield lambda sql, *args: database.run(connection, sql, args)[1]
    finally:
        database.close()


def stored(url: str) -> Values:
    """Read the bars that are stored, and refuse a key that stands twice."""
    with looking(url) as run_sql:
        rows = run_sql("SELECT symbol, timeframe, timestamp_ms, open, high, low, close, volume FROM bars")
    found = {row[:3]: row[3:] for row in rows}
    assert len(found) == len(rows)
    return found


def truth(world: Bars, span: Span, frame: str = "1m", symbol: str = EUR) -> Values:
    """Say which bars there are, by the world alone."""
    name = f"C:{symbol.replace('/', '')}"
    rows = world.truth(name, TIMEFRAMES[frame].seconds, span)
    return {
        (symbol, frame, row["t"]): tuple(float(row[one]) for one in ("o", "h", "l", "c", "v")) for row in rows
    }


def calmly(condition: Callable[[], bool], seconds: float = 0.2) -> Callable[[], bool]:
    """Ask for a condition now and then: each look opens a connection, and would take the worker's time."""
    next_look = 0.0

    def looked() -> bool:
        nonlocal next_look
        if monotonic() < next_look:
            return False
        found = condition()
        next_look = monotonic() + seconds
        return found

    return looked


def all_in(store: str, number: int = 3) -> bool:
    """Say whether that many tiles are known, and all are in."""
    found = states(store)
    return len(found) == number and set(found) <= {"complete", "empty"}
