"""One history of coverage: tiles filled from a service whose pages are empty or fail, over a lossy transport.

The application's own filling runs on virtual time; the service, the transport and the table of bars are
played. A tile that is said to be in must hold every bar that exists in it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from random import Random
from types import SimpleNamespace
from typing import Any

from onefold.apps.candles.bars import Timeframe
from onefold.apps.candles.download import Page, Shown, whole
from onefold.apps.candles.filling import Filling, Manner, Wanted
from onefold.apps.candles.transport import Message, Receives
from onefold.core.calendar import always
from onefold.core.coverage import Span
from onefold.core.errors import Later
from onefold.core.record import Record
from onefold.core.tiles import Series
from onefold.core.wire import Unreadable
from onefold.drive import AsyncPorts, Inline
from onefold.stores.memory import MemoryStore
from onefold.testing.virtual import VirtualLoop
from onefold.worker.settings import Live
from proof.sim.working import Broken

PROMISES = {
    "coverage": "A tile that is in holds every bar that exists in it.",
    "stuck": "Every tile is in, sooner or later.",
}

FRAME = Timeframe("1m", 1, "minute", 60, 600)
SERIES = Series("candles", "EUR/USD 1m", FRAME.tile)
TRIES = 60
NOW = 1_700_000_000.0


class Service:
    """Bars that exist, in pages that may be empty without being the last, and that fail now and then."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self.exist = {start for start in range(0, 3 * FRAME.tile, 60) if random.random() < 0.8}

    async def rows(self, ticker: str, frame: Timeframe, span: Span) -> Shown:
        starts = [start for start in sorted(self.exist) if span.since <= start < span.until]
        pages = [starts[at : at + 3] for at in range(0, len(starts), 3)]
        for _ in range(self._random.randint(0, 2)):
            pages.insert(self._random.randint(0, len(pages)), [])

        async def ask(url: str) -> Page:
            if self._random.random() < 0.1:
                raise Unreadable("the page could not be read")
            place = int(url.rpartition("/")[2])
            following = f"http://bars.test/{place + 1}" if place + 1 < len(pages) else None
            return Page([_bar(start) for start in (pages[place] if pages else [])], following)

        return await whole("http://bars.test/0", ask)


class Lossy:
    """A transport that takes everything on, and delivers some of it."""

    def __init__(self, random: Random, table: Table) -> None:
        self._random = random
        self._table = table

    async def publish(self, messages: Sequence[Message]) -> None:
        await asyncio.sleep(0.01)
        self._table.stored_at.update(one.key[2] for one in messages if self._random.random() < 0.95)

    def subscribe(self, receive: Receives) -> None:
        """It delivers by itself."""


class Table:
    """The bars that are stored."""

    def __init__(self) -> None:
        self.stored_at: set[int] = set()

    async def keep(self, rows: Sequence[Any]) -> Any:
        raise NotImplementedError("the transport delivers by itself")

    async def stored(self, symbol: str, timeframe: str, span: Span) -> Mapping[int, int]:
        return dict.fromkeys((one for one in self.stored_at if span.since <= one < span.until), 0)

    async def aclose(self) -> None:
        """Nothing is open."""


class Town:
    """Everything of one history."""

    def __init__(self, seed: int, tracing: bool = False) -> None:
        self.seed = seed
        self.lines: list[str] | None = [] if tracing else None
        self.violations: list[Broken] = []
        random = Random(f"tiles {seed}")
        self.service, self.table = Service(random), Table()
        self._live = live = Live()
        wanted = Wanted("EUR/USD", "C:EURUSD", FRAME, SERIES, 0, 3 * FRAME.tile)
        manner = Manner(always(), 0.0, 0.0, 1.0, 1.0, "polygon", 1, False)
        self.filling = Filling(
            [wanted], self.service, Lossy(random, self.table), self.table, manner, live, lambda: NOW
        )

    async def run(self) -> None:
        await self._live.attend(AsyncPorts(Inline(MemoryStore())))
        for since in range(0, 3 * FRAME.tile, FRAME.tile):
            await self._fill(Span(since, since + FRAME.tile))

    async def _fill(self, tile: Span) -> None:
        body = {"series": SERIES.name, "since": tile.since, "until": tile.until}
        for attempt in range(TRIES):
            try:
                known = await self.filling.fill(
                    Record(str(tile.since), body, tile.since),
                    SimpleNamespace(fence=attempt + 1),
                )
            except Later as error:
                self._say(f"tile {tile.since}: {error}")
                continue
            self._say(f"tile {tile.since}: {known}")
            self._check(tile)
            return
        self.violations.append(Broken("stuck", f"tile {tile.since} is not in after {TRIES} attempts"))

    def _check(self, tile: Span) -> None:
        missing = [one for one in self.service.exist - self.table.stored_at if tile.since <= one < tile.until]
        if missing:
            self.violations.append(
                Broken("coverage", f"tile {tile.since} is in, and {len(missing)} of its bars are not stored")
            )

    def _say(self, text: str) -> None:
        if self.lines is not None:
            self.lines.append(text)


def _bar(start: int) -> dict[str, float]:
    return {"t": start * 1000, "o": 1.0, "h": 1.2, "l": 0.9, "c": 1.1, "v": 5, "vw": 1.0}


def live(seed: int, tracing: bool = False) -> Town:
    """Live through one history and hold every promise against it."""
    town = Town(seed, tracing)
    loop = VirtualLoop()
    try:
        loop.live(town.run())
    except Exception as error:
        town.violations.append(Broken("errors", f"it broke off: {error!r}"))
    finally:
        loop.close()
    return town
