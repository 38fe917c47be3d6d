"""The lists of all leaders as one source: each is polled on its own, and leaders come and go while it runs.

One list that fails or hangs holds no other up; it is asked again after a pause of its own, and said to fail
when it did so several times in a row. How a list is read is decided in `activity`, who is a leader in
`leaders`.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import AsyncGenerator, Callable, Sequence

from onefold.apps.copytrade.activity import Activity
from onefold.apps.copytrade.leaders import Leaders
from onefold.core.backoff import Backoff, pause
from onefold.core.cursor import Cursor
from onefold.core.errors import OnefoldError
from onefold.core.record import At, Fate, Page, Record
from onefold.core.wire import Unreadable
from onefold.runtime import current

log = logging.getLogger("onefold.apps.copytrade")

FAILURES = 3
"""After so many failures in a row of one list, the source is said to fail."""

Make = Callable[[str, float], Activity]
"""Makes the list of a leader, to be read from a time on."""


class _List:
    """One leader's list: how far it was read in this process, and how often it failed since."""

    def __init__(self, activity: Activity) -> None:
        self.activity = activity
        self.reached: At | None = None
        self.open: dict[str, At] = {}
        """What was handed on and is not accounted for; it is read again."""
        self.read = False
        """Whether it was read to its present once."""
        self.failures = 0
        self.due = -math.inf

    @property
    def cursor(self) -> Cursor:
        return Cursor(min(self.open.values(), default=self.reached))

    def hand_on(self, page: Page) -> None:
        self.read = self.read or not page.more
        self.open |= {one.id: one.at for one in page.records}
        self.reached = max((one.at for one in page.records), default=self.reached)

    def go_back(self, cursor: Cursor) -> None:
        """Begin again at what the worker has accounted for; what it was handed since may be lost."""
        if cursor.at is not None and self.reached is not None:
            self.reached = min(self.reached, cursor.at)


Handed = asyncio.Queue[tuple[str, Page | Exception]]


class Following:
    """Trades of all leaders, from their lists."""

    repeats = True
    timed = True
    reach = None

    def __init__(
        self,
        leaders: Leaders,
        make: Make,
        first: Callable[[], float],
        lag: float,
        pauses: Backoff | None = None,
    ) -> None:
        """`first` says from when on lists are read if none was read before."""
        self.lag = lag
        # The lists pause one by one; a pause of the source would hold up those that are well.
        self.backoff = Backoff(0.5, 2.0)
        self._pauses = pauses or Backoff(0.5, 30.0)
        self._first = first
        self._leaders = leaders
        self._make = make
        self._lists: dict[str, _List] = {}

    async def tell(self, fates: Sequence[tuple[Record, Fate]]) -> None:
        """Hear what is accounted for: a list is read on from the first trade that is not."""
        for record, fate in fates:
            one = self._lists.get(record.body["leader"])
            if one is not None and fate == "open":
                one.open[record.id] = record.at
            elif one is not None:
                one.open.pop(record.id, None)

    async def read(self, cursor: Cursor) -> AsyncGenerator[Page, None]:
        """Read all lists again and again, until one of them keeps failing."""
        for one in self._lists.values():
            one.go_back(cursor)
        handed: Handed = asyncio.Queue(1)
        tasks: dict[str, asyncio.Task[None]] = {}
        try:
            while True:
                await self._follow(cursor, handed, tasks)
                page = await self._next(handed, tasks)
                if page is not None:
                    yield page
        finally:
            for task in tasks.values():
                task.cancel()
            await asyncio.gather(*tasks.values(), return_exceptions=True)

    async def _follow(self, cursor: Cursor, handed: Handed, tasks: dict[str, asyncio.Task[None]]) -> None:
        """Begin to read who was added, and stop reading who was removed."""
        leaders = await self._leaders.since()
        # In the order in which they are named: a set of texts has another order in every process.
        for gone in [one for one in tasks if one not in leaders]:
            tasks.pop(gone).cancel()
            self._lists.pop(gone, None)
        for leader in [one for one in leaders if one not in tasks]:
            if leader not in self._lists:
                since = self._first() if cursor.at is None else cursor.at - self.lag
                self._lists[leader] = _List(self._make(leader, max(since, leaders[leader])))
            tasks[leader] = asyncio.create_task(self._rounds(leader, self._lists[leader], handed))

    async def _next(self, handed: Handed, tasks: dict[str, asyncio.Task[None]]) -> Page | None:
        """Wait for a page, no longer than until the leaders are to be looked at again."""
        try:
            async with asyncio.timeout(self._leaders.every):
                leader, page = await handed.get()
        except TimeoutError:
            return None
        if leader not in tasks:
            return None  # removed meanwhile
        if isinstance(page, Exception):
            raise page
        waiting = any(not self._lists[one].read for one in tasks)
        return page._replace(more=page.more or waiting)

    async def _rounds(self, leader: str, one: _List, handed: Handed) -> None:
        while True:
            await current().sleep(max(one.due - current().monotonic(), 0))
            try:
                async for page in one.activity.read(one.cursor):
                    one.hand_on(page)
                    await handed.put((leader, page))
                one.failures = 0
            except (
                Exception
            ) as error:  # whatever a list raises is its own trouble: it is said, and tried again
                one.failures += 1
                wait = pause(self._pauses, one.failures, current().random())
                one.due = current().monotonic() + wait
                log.warning("the list of %s failed, reading it again in %.1f s: %s", leader, wait, error)
                if one.failures >= FAILURES:
                    await handed.put((leader, _named(leader, error)))


def _named(leader: str, error: Exception) -> OnefoldError:
    return Unreadable(f"the list of {leader} keeps failing: {error}")
