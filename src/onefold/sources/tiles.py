"""The tiles of a wanted stretch as work: each is shown once, from the oldest to the one that is not over yet.

It fetches nothing. A tile that is claimed and not in yet waits in its own entry, and is not shown again.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence

from onefold.core.coverage import Span, tiles
from onefold.core.cursor import Cursor
from onefold.core.record import Fate, Page, Record
from onefold.core.terms import Duration, Seconds, seconds
from onefold.core.tiles import Series
from onefold.runtime import current, now

PAGE = 200
AHEAD = 4


class Tiles:
    """Shows the tiles of a series from `since` on, up to `until` or, without it, up to the present.

    A worker claims what it is shown: with small pages, and few of them `ahead`, others get a share of what
    takes long.
    """

    reach: Seconds | None = None
    repeats = True
    lag: Seconds = 0.0

    def __init__(
        self,
        series: Series,
        since: int,
        until: int | None = None,
        *,
        every: Duration = "30s",
        finite: bool = False,
        page: int = PAGE,
        ahead: int = AHEAD,
        clock: Callable[[], float] = now,
    ) -> None:
        self.series = series
        self.finite = finite
        self.ahead = ahead
        self._since = since
        self._until = until
        self._every = seconds(every, "every")
        self._page = page
        self._clock = clock
        self._rested = True

    async def read(self, cursor: Cursor) -> AsyncIterator[Page]:
        """Show what the cursor has not passed; the tile at the cursor is known by its entry."""
        if not self._rested and not self.finite:
            await current().sleep(self._every)
        self._rested = False
        since = self._since if cursor.at is None else max(self._since, int(cursor.at))
        until = min(self._until or int(self._clock()) + 1, int(self._clock()) + 1)
        if until <= since:
            return
        shown = [self._record(span) for span in tiles(Span(since, until), self.series.step)]
        for at in range(0, len(shown), self._page):
            yield Page(shown[at : at + self._page], more=at + self._page < len(shown))

    def _record(self, span: Span) -> Record:
        name = self.series.name
        body = {"series": name, "since": span.since, "until": span.until}
        return Record(f"{name}/{span.since}", body, span.since)

    async def tell(self, fates: Sequence[tuple[Record, Fate]]) -> None:
        """What became of a tile stands in its entry."""
