"""A leader's trades from `/activity`: a poll whose rows are summed to trades before they are handed on."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence

from onefold.apps.copytrade.trades import closed
from onefold.core.cursor import Cursor
from onefold.core.record import Broken, Fate, Gap, Page, Record
from onefold.runtime import now
from onefold.sources.poll import Poll


class Activity:
    """Hands on trades of closed groups; rows of an open one are read again in the next round."""

    repeats = True
    timed = True

    def __init__(self, poll: Poll, settle: float, clock: Callable[[], float] = now) -> None:
        self._poll = poll
        self._settle = settle
        self._clock = clock
        self.lag = poll.lag
        self.reach = poll.reach

    async def tell(self, fates: Sequence[tuple[Record, Fate]]) -> None:
        """A list does not want to know."""

    async def read(self, cursor: Cursor) -> AsyncIterator[Page]:
        """Read one round to its end, and sum it."""
        # By name: a row in the overlap of two pages is one, though its words may have changed in between.
        rows: dict[str, Record] = {}
        broken: list[Broken] = []
        gap: Gap | None = None
        more = False
        async for page in self._poll.read(cursor):
            for record in page.records:
                rows.setdefault(record.id, record)
            broken += page.broken
            gap, more = gap or page.gap, page.more
        # A round that was cut ends inside of a group, however old it is.
        settled = 0.0 if more else self._clock() - self._settle
        trades, unread = closed([*rows.values()], settled)
        yield Page(trades, gap, more, [*broken, *unread])
