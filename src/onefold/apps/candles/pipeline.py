"""The pipeline of candles: which series are wanted, where bars come from, and where they are kept."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime
from typing import Literal

import msgspec

from onefold.apps.candles.bars import DAY, SCOPE, series, timeframe
from onefold.apps.candles.download import URL, Aggregates
from onefold.apps.candles.filling import Filling, Manner, Wanted
from onefold.apps.candles.transport import BarSink, Bridge, Embedded, Transport
from onefold.core.calendar import Calendar, named
from onefold.core.coverage import Span
from onefold.core.errors import Misconfigured
from onefold.core.terms import Terms, epoch, seconds
from onefold.runtime import now
from onefold.sinks.bars import BarTable
from onefold.sinks.function import Function
from onefold.sources.tiles import Tiles
from onefold.worker.pipeline import Pipeline
from onefold.worker.secret import Secret
from onefold.worker.settings import Live


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """What `[apps.candles]` may say."""

    api_key: Secret
    pairs: tuple[str, ...]
    """As in "EUR/USD"; a ticker of the service, as in "X:BTCUSD", is taken as it is."""
    since: str
    """The first day, as in "2025-10-08", or a time with a zone."""
    until: str = ""
    """Up to here, this day or moment not included; without it up to the present, for ever."""
    timeframes: tuple[str, ...] = ("1m",)
    bars: str = "sqlite:///bars.db"
    """The database of the bars; its table is made if it is not there."""
    table: str = "bars"
    url: str = URL
    parallel: int = 3
    """How many tiles are fetched side by side."""
    pace: float = 0.2
    """Seconds between two requests."""
    calendar: Literal["fx", "24/7"] = "fx"
    holidays: tuple[str, ...] = ()
    """Days on which the market stays closed, as in "2025-12-25"."""
    least: float = 0.5
    """An answer with a smaller share of the bars that the calendar expects is not believed."""
    settle: str = "5m"
    """How long after its end a bar may still change."""
    refresh: str = "5m"
    """How often a day that is not over is asked for again."""
    again: str = "30s"
    """How soon a tile that failed is asked for again."""
    every: str = "30s"
    """How often it is looked whether a new tile has begun."""
    source: str = "polygon_historical"
    rank: int = 1
    """How much this source's word counts against others' in the same table."""
    corrections: Literal["take", "refuse"] = "take"
    """Whether a later answer may replace a bar that was final."""

    def __post_init__(self) -> None:
        if not self.pairs:
            raise ValueError('pairs is empty: write at least one, like ["EUR/USD"]')
        if self.parallel < 1:
            raise ValueError(f"parallel is {self.parallel}: write 1 or more")
        if not 0 <= self.least <= 1:
            raise ValueError(f"least is {self.least}: write a share from 0 to 1")
        if self.pace < 0:
            raise ValueError(f"pace is {self.pace}: write 0 or more seconds")


def pipelines(settings: Settings, live: Live) -> Pipeline:
    """Say what is to be done, with the embedded stream."""
    return streamed(settings, live, Embedded(), BarTable(settings.bars, settings.table))


def streamed(
    settings: Settings,
    live: Live,
    transport: Transport,
    sink: BarSink,
    clock: Callable[[], float] = now,
) -> Pipeline:
    """Say what is to be done, with this stream and this store of bars."""
    series_wanted = wanted(settings)
    transport.subscribe(Bridge(sink).receive)
    api = Aggregates(settings.url, settings.api_key, settings.pace)
    filling = Filling(series_wanted, api, transport, sink, manner(settings), live, clock)
    return Pipeline(
        SCOPE,
        # With its start in the name: a wider wish is read from its own beginning, and skips what is in.
        sources={
            f"{one.series.name} since {settings.since}": _tiles(one, settings, clock) for one in series_wanted
        },
        key=lambda record: (record.body["series"], record.body["since"]),
        sink=_Fills(filling, sink),
        terms=Terms(lease="2m", backoff=("1s", "10m")),
        at_once=settings.parallel,
        timeout="15m",
    )


def _tiles(one: Wanted, settings: Settings, clock: Callable[[], float]) -> Tiles:
    # No more at a time than are fetched side by side, twice: the rest is left for other workers.
    every, page = settings.every, settings.parallel
    return Tiles(one.series, one.since, one.until, every=every, page=page, ahead=2, clock=clock)


class _Fills(Function):
    """Fills tiles, and lets go of the bars' database at the end. A tile may be filled again at any time."""

    def __init__(self, filling: Filling, sink: BarSink) -> None:
        super().__init__(filling.fill, effect="idempotent")
        self.attend = filling.attend
        self._sink = sink

    async def aclose(self) -> None:
        await self._sink.aclose()


def wanted(settings: Settings) -> list[Wanted]:
    """Name the series that are wanted: every pair in every timeframe."""
    since = point(settings.since, "since of [apps.candles]")
    until = point(settings.until, "until of [apps.candles]") if settings.until else None
    if until is not None and until <= since:
        raise Misconfigured(f"until of [apps.candles] is {settings.until}, not after since, {settings.since}")
    frames = [timeframe(name) for name in dict.fromkeys(settings.timeframes)]
    pairs = list(dict.fromkeys(settings.pairs))
    return [
        Wanted(pair, ticker(pair), frame, series(pair, frame), since, until)
        for pair in pairs
        for frame in frames
    ]


def ticker(pair: str) -> str:
    """Name a pair as the service does."""
    if ":" in pair:
        return pair
    base, slash, quote = pair.partition("/")
    if not (slash and base.isalnum() and quote.isalnum() and pair == pair.upper()):
        raise Misconfigured(f'{pair!r:.40} in pairs of [apps.candles] names no pair: write it like "EUR/USD"')
    return f"C:{base}{quote}"


def point(written: str, what: str) -> int:
    """Read a day, which begins at midnight of UTC, or a time with a zone."""
    try:
        if len(written) == len("2025-10-08"):
            day = date.fromisoformat(written)
            return int(datetime(day.year, day.month, day.day, tzinfo=UTC).timestamp())
        return int(epoch(datetime.fromisoformat(written), what))
    except ValueError as error:
        if isinstance(error, Misconfigured):
            raise
        raise Misconfigured(
            f'{what} is {written!r:.40}: write a day like "2025-10-08", or a time with a zone'
        ) from None


def manner(settings: Settings) -> Manner:
    """Say how tiles are judged."""
    return Manner(
        market(settings.calendar, settings.holidays),
        settings.least,
        seconds(settings.settle, "settle of [apps.candles]"),
        seconds(settings.refresh, "refresh of [apps.candles]"),
        seconds(settings.again, "again of [apps.candles]"),
        settings.source,
        settings.rank,
        settings.corrections == "take",
    )


def market(calendar: str, holidays: Sequence[str]) -> Calendar:
    """Say when the market is open."""
    days = [point(one, "a day in holidays of [apps.candles]") for one in holidays]
    return named(calendar, [Span(day, day + DAY) for day in days])
