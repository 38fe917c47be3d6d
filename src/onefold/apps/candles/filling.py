"""Fills one tile: asks, checks, publishes, and says how the tile stands by what the sink confirms.

The order is the promise: a tile is in when its bars are stored, not when they were downloaded or published.
It never claims, and never tries again by itself: what is not in is left to come later, with a note.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, NamedTuple

from onefold.apps.candles.bars import Checked, Origin, Timeframe, checked, moment, stored
from onefold.apps.candles.download import Api, Shown
from onefold.apps.candles.progress import Progress
from onefold.apps.candles.transport import BarSink, Transport, message
from onefold.core.calendar import Calendar, expected
from onefold.core.coverage import Span, TileState, judge
from onefold.core.errors import Later, Rejected, Unreachable
from onefold.core.ports import Claim
from onefold.core.record import Broken, Record
from onefold.core.terms import Seconds
from onefold.core.tiles import IN, Series, noted
from onefold.runtime import now
from onefold.sources.web import Refusing
from onefold.worker.coverage import Noted, note
from onefold.worker.settings import Live

SetsAside = Callable[[str, Sequence[Broken]], Awaitable[None]]
"""Parks what the source of this name showed and what cannot be used."""

REMEMBERED = 50_000
"""Refused rows that are remembered in memory."""

REASONS = 3
REASON_LENGTH = 200

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


def stands(
    trouble: object, shown: int, confirmed: int, likely: float, closed: bool, refused: Sequence[Broken] = ()
) -> Verdict:
    """Say how a tile stands, from what the source showed and what the sink confirmed of it.

    Minutes without a quote have no bar: a count below the calendar's is normal, far fewer are not believed.
    A row that was refused may have been a bar, so its tile is not in.
    """
    if trouble is not None:
        return Verdict("partial", str(trouble))
    if confirmed < shown:
        return Verdict("partial", f"the sink confirms {confirmed} of {shown} bars")
    if not closed:
        return Verdict("provisional", "it is not over yet")
    if refused:
        number = f"{len(refused)} of {shown + len(refused)} rows were refused"
        return Verdict("partial", f"{number}, the first because {refused[0].reason}", True)
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
        clock: Callable[[], float] = now,
    ) -> None:
        self._wanted: Mapping[str, Wanted] = {one.series.name: one for one in wanted}
        self._api = api
        self._transport = transport
        self._sink = sink
        self._manner = manner
        self._live = live
        self._clock = clock
        self._noted: set[str] = set()
        self._set_aside: SetsAside | None = None
        self._refused: OrderedDict[int, None] = OrderedDict()
        self._progress = Progress([(one.series, one.since, one.until) for one in wanted], clock)

    def attend(self, set_aside: SetsAside) -> None:
        """Park and count refused rows by this function from now on."""
        self._set_aside = set_aside

    async def fill(self, record: Record, claim: Claim) -> dict[str, Any]:
        """Fill the tile that a record names, under its claim; return what is known of it, or come later."""
        one = self._known(record.body["series"])
        tile = Span(record.body["since"], record.body["until"])
        await self._note(one)
        settled = self._clock() - self._manner.settle
        shown = await self._api.rows(one.ticker, one.frame, tile)
        read = checked(shown.rows, one.symbol, one.frame, tile, one.ticker)
        await self._refuse(record.source, one, tile, read.invalid)
        confirmed, conflicts = await self._store(one, tile, read, claim.fence, settled)
        likely = expected(tile, one.frame.seconds, self._manner.calendar)
        least, closed = likely * self._manner.least, tile.until <= settled
        verdict = stands(shown.trouble, len(read.bars), confirmed, least, closed, read.invalid)
        known = {**noted(verdict.state, confirmed, likely), **_told(read, conflicts)}
        self._progress.tell(verdict.state, confirmed)
        if verdict.state in IN:
            return known
        raise self._later(one, tile, verdict, shown, known)

    def _known(self, series: str) -> Wanted:
        """Return a series by its name, or leave its tile to a worker whose settings have it."""
        if series not in self._wanted:
            # Settings change one worker after another: a tile must not be parked because of an old one.
            raise Later(f"the settings of this worker do not want {series}", self._manner.refresh)
        return self._wanted[series]

    async def _refuse(self, source: str, one: Wanted, tile: Span, refused: Sequence[Broken]) -> None:
        """Set refused rows aside, each once in a run: a tile that is not in is asked for again and again."""
        new = [row for row in refused if hash((one.series, tile, row)) not in self._refused]
        if not new or self._set_aside is None:
            return
        where = f"{one.series.name} from {moment(tile.since)}"
        await self._set_aside(source, [Broken(row.raw, f"{where}: {row.reason}") for row in new])
        self._refused.update((hash((one.series, tile, row)), None) for row in new)
        while len(self._refused) > REMEMBERED:
            self._refused.popitem(last=False)

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
    """Count what is out of the ordinary, and give the reasons of some refused rows: people see them."""
    counts = {"invalid": len(read.invalid), "repeated": read.repeated, "differing": read.differing}
    counts |= {"conflicts": conflicts, "unweighted": read.unweighted}
    told: dict[str, Any] = {name: number for name, number in counts.items() if number}
    if read.invalid:
        told["reasons"] = [f"{row.reason}: {row.raw[:REASON_LENGTH]}" for row in read.invalid[:REASONS]]
    return told
