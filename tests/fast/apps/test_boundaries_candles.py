"""Candles survives any row and any answer: no exception, no other row lost, nothing stored that is not ours.

A failing test names its seed; `mutations.page(ROWS, SEED, owners=…)` gives the same page again.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import anyio
import pytest

from onefold.apps.candles.bars import TIMEFRAMES, Timeframe, checked, series
from onefold.apps.candles.download import Page, Shown, read_page, whole
from onefold.apps.candles.filling import Filling, Manner, Wanted
from onefold.apps.candles.transport import Bridge, Embedded
from onefold.core.calendar import always
from onefold.core.coverage import Span
from onefold.core.errors import Later
from onefold.core.record import Broken, Record
from onefold.core.wire import Unreadable, parse
from onefold.drive import AsyncPorts, Inline
from onefold.sinks.bars import BarRow, Kept
from onefold.stores.memory import MemoryStore
from onefold.worker.settings import Live
from tests import mutations
from tests.checkout import FIXTURES

needs_recorded = pytest.mark.skipif(not FIXTURES.exists(), reason="the recorded data is not here")

DAY = 86_400
MONDAY = 1_759_708_800
HOME = "https://api.polygon.io"


class Asked(NamedTuple):
    """A question to the service, and rows that answer it."""

    symbol: str
    ticker: str
    frame: Timeframe
    tile: Span
    rows: Sequence[dict[str, Any]]

    @property
    def owners(self) -> dict[str, Any]:
        """Fields that say whose row it is, each with a value of somebody else."""
        return {"T": "C:ZARCHF", "t": (self.tile.until + 7 * DAY) * 1000}


def own() -> Asked:
    rows = [
        {
            "T": "C:EURUSD",
            "v": 1000 + number,
            "vw": 1.08505,
            "o": 1.085,
            "c": 1.0852,
            "h": 1.0855 + number / 1e5,
            "l": 1.0848,
            "t": (MONDAY + 60 * number) * 1000,
            "n": 80,
        }
        for number in range(40)
    ]
    return Asked("EUR/USD", "C:EURUSD", TIMEFRAMES["1m"], Span(MONDAY, MONDAY + DAY), rows)


def recorded_days() -> Asked:
    file = FIXTURES / "polygon_io_aggs" / "C_EURUSD_1_day_2023-01-01_2023-01-10_asc.json"
    rows = json.loads(file.read_text())["results"]
    return Asked("EUR/USD", "C:EURUSD", TIMEFRAMES["1d"], _around(rows), rows)


def recorded_minutes() -> Asked:
    file = FIXTURES / "forex_bars" / "fxcm_GBPUSD_m1_bid_2012-02-02_to_02-07.csv"
    rows = [_row(line) for line in csv.DictReader(file.read_text().splitlines())][:1500]
    return Asked("GBP/USD", "C:GBPUSD", TIMEFRAMES["1m"], _around(rows), rows)


def _row(line: dict[str, str]) -> dict[str, Any]:
    start = datetime.fromisoformat(line["timestamp"]).astimezone(UTC).timestamp()
    prices = {name[0]: float(line[name]) for name in ("open", "high", "low", "close")}
    return {"t": int(start * 1000), **prices, "v": 1}


def _around(rows: Sequence[dict[str, Any]]) -> Span:
    first, last = rows[0]["t"] // 1000, rows[-1]["t"] // 1000
    return Span(first // DAY * DAY, last // DAY * DAY + DAY)


CASES = [
    pytest.param(own, id="our own"),
    pytest.param(recorded_days, id="recorded days", marks=needs_recorded),
    pytest.param(recorded_minutes, id="recorded minutes", marks=needs_recorded),
]


class Table:
    """Bars that are stored, in memory."""

    def __init__(self) -> None:
        self.rows: dict[tuple[str, str, int], BarRow] = {}

    async def keep(self, rows: Sequence[BarRow]) -> Kept:
        self.rows.update({(row.symbol, row.timeframe, row.timestamp_ms): row for row in rows})
        return Kept(len(rows), 0, 0, 0)

    async def stored(self, symbol: str, timeframe: str, span: Span) -> Mapping[int, int]:
        return {at // 1000: 0 for _, _, at in self.rows}

    async def aclose(self) -> None:
        """Nothing is open."""


class Answers:
    """The service: it answers with the text that it was given."""

    def __init__(self) -> None:
        self.text = ""

    async def rows(self, ticker: str, frame: Timeframe, span: Span) -> Shown:
        return Shown(read_page(parse(self.text), ticker, frame).rows)


class Claim:
    """What a sink is told of its claim."""

    fence = 1


class Stage:
    """A filling with everything in memory."""

    def __init__(self, asked: Asked) -> None:
        self.asked, self.api, self.table, self.live = asked, Answers(), Table(), Live()
        self.refused: list[Broken] = []
        wanted = Wanted(
            *(
                asked.symbol,
                asked.ticker,
                asked.frame,
                series(asked.symbol, asked.frame),
                asked.tile.since,
                None,
            )
        )
        manner = Manner(always(), 0.0, 0.0, 1.0, 1.0, "polygon", 1, True)
        transport = Embedded()
        transport.subscribe(Bridge(self.table).receive)
        clock = lambda: float(asked.tile.until + 10 * DAY)  # noqa: E731
        self.filling = Filling([wanted], self.api, transport, self.table, manner, self.live, clock)
        self.filling.attend(self._set_aside)
        body = {"series": wanted.series.name, "since": asked.tile.since, "until": asked.tile.until}
        self.record = Record("tile", body, asked.tile.since, "bars")

    async def _set_aside(self, source: str, broken: Sequence[Broken]) -> None:
        self.refused += broken

    async def fill(self, page: mutations.Page) -> dict[str, Any]:
        """Fill the tile from a page; return what is known of it then."""
        self.table.rows.clear()
        self.refused.clear()
        self.api.text = f'{{"status":"OK","ticker":{json.dumps(self.asked.ticker)},"results":{page.text}}}'
        try:
            return await self.filling.fill(self.record, Claim())  # type: ignore[arg-type]
        except Later as later:
            known: dict[str, Any] = later.note
            return known


@pytest.mark.parametrize("case", CASES)
def test_mutated_rows_cost_no_other_row_and_store_nothing_that_was_not_asked_for(case, count):
    asked: Asked = case()
    stage = Stage(asked)

    async def main() -> None:
        await stage.live.attend(AsyncPorts(Inline(MemoryStore())))
        for page in mutations.pages(asked.rows, owners=asked.owners, count=count):
            try:
                judge(page, await stage.fill(page))
            except Exception as error:
                raise AssertionError(f"seed {page.seed}: {page.how}") from error

    def judge(page: mutations.Page, known: dict[str, Any]) -> None:
        kept = [json.loads(row) for at, row in enumerate(page.rows) if at != page.spoiled]
        stored = stage.table.rows
        for row in kept:
            bar = stored[asked.symbol, asked.frame.name, row["t"]]
            assert (bar.open, bar.high, bar.low, bar.close) == tuple(float(row[name]) for name in "ohlc")
        assert len(stored) + known.get("invalid", 0) == len(page.rows)
        assert all(asked.tile.since <= at // 1000 < asked.tile.until for _, _, at in stored)
        # A row that was refused keeps the tile out of what is in; a known one is set aside only once.
        assert known["state"] == ("partial" if known.get("invalid") else "complete")
        assert len(stage.refused) <= known.get("invalid", 0)
        if page.how.endswith(" of somebody else"):
            assert known["invalid"] == 1

    anyio.run(main)


def envelope(asked: Asked) -> dict[str, Any]:
    since, last = asked.tile.since * 1000, asked.tile.until * 1000 - 1
    path = f"/v2/aggs/ticker/{asked.ticker}/range/{asked.frame.multiplier}/{asked.frame.timespan}"
    return {
        "ticker": asked.ticker,
        "queryCount": 3,
        "resultsCount": 3,
        "adjusted": True,
        "results": list(asked.rows[:3]),
        "status": "OK",
        "request_id": "0f",
        "count": 3,
        "next_url": f"{HOME}{path}/{since + 60_000}/{last}?cursor=1",
    }


LINKS = (
    "https://evil.example/v2/aggs/ticker/C:EURUSD/range/1/minute/1759708860000/1759795199999?cursor=1",
    "https://api.polygon.io@evil.example/",
    "//evil.example/x",
    "http://[::1",
    "https://api.polygon.io:x/",
    "\\\\evil",
    "/v2/aggs/ticker/C:ZARCHF/range/1/minute/1759708860000/1759795199999",
    "javascript:1",
    "https://:0/",
    "\u0000",
)


@pytest.mark.parametrize("case", CASES)
def test_mutated_answers_raise_nothing_and_lead_nowhere_else(case, count):
    asked: Asked = case()
    whole_answer = envelope(asked)
    since, last = asked.tile.since * 1000, asked.tile.until * 1000 - 1
    first = f"{HOME}{urlsplit(whole_answer['next_url']).path.rsplit('/', 2)[0]}/{since}/{last}?limit=5"
    expected = urlsplit(first).path.rsplit("/", 2)[0]

    async def main() -> None:
        for seed in range(count):
            owners = {"ticker": "C:ZARCHF", "next_url": LINKS[seed % len(LINKS)], "timespan": "week"}
            page = mutations.page([whole_answer], seed, owners=owners, size=1)
            try:
                await follow(page)
            except Exception as error:
                raise AssertionError(f"seed {seed}: {page.how}") from error

    async def follow(page: mutations.Page) -> None:
        urls: list[str] = []

        async def ask(url: str) -> Page:
            urls.append(url)
            if len(urls) == 1:
                return read_page(parse(page.rows[0]), asked.ticker, asked.frame)
            raise Unreadable("the second page is not here")

        shown = await whole(first, ask)
        found = checked(shown.rows, asked.symbol, asked.frame, asked.tile, asked.ticker)
        assert len(found.bars) + len(found.invalid) + found.repeated + found.differing <= max(
            len(shown.rows), 3
        )
        assert {urlsplit(url).netloc for url in urls} == {urlsplit(HOME).netloc}
        assert {urlsplit(url).path.rsplit("/", 2)[0] for url in urls} == {expected}
        if page.how in ("ticker of somebody else", "timespan of somebody else"):
            assert not shown.rows
        if page.how == "next_url of somebody else":
            assert (len(shown.rows), urls, bool(shown.trouble)) == (3, [first], True)

    anyio.run(main)
