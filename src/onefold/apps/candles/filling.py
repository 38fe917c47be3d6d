"""Fills one tile: asks, checks, publishes, and says how the tile stands by what the sink confirms.

The order is the promise: a tile is in when its bars are stored, not when they were downloaded or published.
It never claims, and never tries again by itself: what is not in is left to come later, with a note.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from onefold.apps.candles.bars import Checked, Origin, Timeframe, checked, moment, stored
from onefold.apps.candles.download import Api, Shown
from onefold.apps.candles.progress import Progress
from onefold.apps.candles.transport import BarSink, Transport, message
from onefold.core.calendar import Calendar, expected
from onefold.core.coverage import Span, TileState, judge
from onefold.core.errors import Later, Rejected, Unreachable
from onefold.core.ports import Claim
from onefold.core.record import Record
from onefold.core.terms import Seconds
from onefold.core.tiles import IN, Series, noted
from onefold.sources.web import Refusing
from onefold.worker.coverage import Noted, note
from onefold.worker.settings import Live

log = logging.getLogger("onefold.candles")

NEVER = frozenset({400, 403, 404})
"""Answers that another asking does not change: not known, or beyond what the plan shows."""


class Wanted(NamedTuple):
    """A series that is to be filled."""

    symbol: str
    ticker: str
    frame: Timeframe
    series: Series
    since: int
    until: int | None


class Manner(NamedTuple):
    """How tiles are judged and asked for again."""

    calendar: Calendar
    least: float
    """The share of the bars that the calendar expects below which an answer is not believed."""
    settle: Seconds
    """How long after its end a bar may still change."""
    refresh: Seconds
    """How often a tile that is not over is asked for again."""
    again: Seconds
    """How soon a tile that failed is."""
    source: str
    rank: int
    corrects: bool


class Verdict(NamedTuple):
    """How a tile stands, and why it is not in."""

    state: TileState
    reason: str = ""
    doubted: bool = False
    """Whether all went well, and yet it is not believed."""


def stands(trouble: object, shown: int, confirmed: int, likely: float, closed: bool) -> Verdict:
    """Say how a tile stands, from what the source showed and what the sink confirmed of it.

    Minutes without a quote have no bar: a count below the calendar's is normal, far fewer are not believed.
    """
    if trouble is not None:
        return Verdict("partial", str(trouble))
    if confirmed < shown:
        return Verdict("partial", f"the sink confirms {confirmed} of {shown} bars")
    if not closed:
        return Verdict("provisional", "it is not over yet")
    if shown < likely:
        return Verdict("partial", f"{shown} bars were shown, while the market was open for more", True)
    return Verdict(judge(confirmed, None, closed))


def pause(verdict: Verdict, manner: Manner, ended_ago: Seconds) -> Seconds:
    """Say when to ask for a tile again. The longer it is over, the less its answer will change."""
    if verdict.state == "provisional":
        return manner.refresh
    return max(manner.again, ended_ago / 10) if verdict.doubted else manner.again


class Filling:
    """Fills tiles of several series."""

    def __init__(
        self,
        wanted: Sequence[Wanted],
        api: Api,
        transport: Transport,
        sink: BarSink,
        manner: Manner,
        live: Live,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._wanted: Mapping[str, Wanted] = {one.series.name: one for one in wanted}
        self._api = api
        self._transport = transport
        self._sink = sink
        self._manner = manner
        self._live = live
        self._clock = clock
        self._noted: set[str] = set()
        self._progress = Progress([(one.series, one.since, one.until) for one in wanted], clock)

    async def fill(self, record: Record, claim: Claim) -> dict[str, Any]:
        """Fill the tile that a record names, under its claim; return what is known of it, or come later."""
        one = self._wanted[record.body["series"]]
        tile = Span(record.body["since"], record.body["until"])
        await self._note(one)
        settled = self._clock() - self._manner.settle
        shown = await self._api.rows(one.ticker, one.frame, tile)
        read = checked(shown.rows, one.symbol, one.frame, tile)
        confirmed, conflicts = await self._store(one, tile, read, claim.fence, settled)
        likely = expected(tile, one.frame.seconds, self._manner.calendar)
        verdict = stands(
            shown.trouble, len(read.bars), confirmed, likely * self._manner.least, tile.until <= settled
        )
        known = {**noted(verdict.state, confirmed, likely), **_told(read, conflicts)}
        self._progress.tell(verdict.state, confirmed)
        if verdict.state in IN:
            return known
        raise self._later(one, tile, verdict, shown, known)

    async def _store(
        self, one: Wanted, tile: Span, read: Checked, fence: int, settled: float
    ) -> tuple[int, int]:
        """Publish bars, then ask the sink which of them it has; only its answer counts."""
        # The fence grows with every attempt at a tile: a slow, older answer cannot pass for a correction.
        origin = Origin(self._manner.source, self._manner.rank, fence, self._manner.corrects)
        try:
            await self._transport.publish([message(stored(bar, origin, settled)) for bar in read.bars])
            there = await self._sink.stored(one.symbol, one.frame.name, tile)
        except Unreachable as error:
            raise Later(f"bars cannot be stored: {error}", self._manner.again, noted("partial", 0)) from error
        return sum(bar.start in there for bar in read.bars), sum(there.values())

    def _later(
        self, one: Wanted, tile: Span, verdict: Verdict, shown: Shown, known: dict[str, Any]
    ) -> Exception:
        reason = f"{one.series.name} from {moment(tile.since)}: {verdict.reason}"
        if isinstance(shown.trouble, Refusing) and shown.trouble.status in NEVER:
            return Rejected(f"{reason}; asking again changes nothing, unless the plan or the settings do")
        wait = pause(verdict, self._manner, self._clock() - tile.until)
        return Later(reason, wait, known)

    async def _note(self, one: Wanted) -> None:
        """Write down that this series is filled, so that `onefold coverage` shows it."""
        if one.series.name in self._noted:
            return
        calendar, bar = self._manner.calendar.name, one.frame.seconds
        await self._live.ask(note(Noted(one.series, one.since, one.until, bar, calendar)))
        self._noted.add(one.series.name)


def _told(read: Checked, conflicts: int) -> dict[str, Any]:
    """Count what is out of the ordinary; what was left out is said where people look, and in the log."""
    counts = {"invalid": len(read.invalid), "repeated": read.repeated, "differing": read.differing}
    counts["conflicts"] = conflicts
    if read.invalid:
        log.warning(
            "%d rows are no bars and were left out; the first: %s", len(read.invalid), read.invalid[0]
        )
    return {name: number for name, number in counts.items() if number}
