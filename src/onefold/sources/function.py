"""Records from a function of the caller's: a generator, or one that returns a list, sync or async.

It calls the function, round after round, and keeps no cursor. A sync function may block: it runs in a thread.
"""

from __future__ import annotations

import math
import threading
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Callable, Iterable, Sequence
from contextlib import aclosing

from onefold.core.cursor import Cursor
from onefold.core.errors import Misconfigured
from onefold.core.record import Fate, Page, Record
from onefold.core.terms import Duration, Seconds, forever_or_seconds, seconds
from onefold.drive.functions import kind, name_of
from onefold.runtime import current
from onefold.runtime.threads import LINGER

Shown = Record | Page
Reads = Callable[[Cursor], AsyncIterable[Shown] | Iterable[Shown]]


class Function:
    """Calls a function with the cursor, and takes the records or pages that it yields.

    It is called again when it ends, unless it is `finite`: `every` so many seconds, from one beginning to the
    next, and immediately if its last page has records and says that there is `more`. A sync function runs in
    a thread and may block; it is not called again before it has ended.
    """

    def __init__(
        self,
        read: Reads,
        *,
        finite: bool = False,
        every: Duration = 2,
        repeats: bool = True,
        timed: bool = False,
        reach: Duration = "forever",
        lag: Duration | None = None,
        page: int = 100,
    ) -> None:
        if kind(read) == "async":
            raise Misconfigured(
                f"{name_of(read)} is async and yields nothing: let it yield records, or write a plain def"
            )
        if type(page) is not int or page < 1:
            raise Misconfigured(f"page is {page!r}: write 1 or more")
        self._read = read
        self._awaits = kind(read) == "async generator"
        self._page = page
        self._every = seconds(every, "every")
        self._due = -math.inf
        self._ended: threading.Event | None = None
        self.finite = finite
        self.repeats = repeats
        self.timed = timed
        self.reach: Seconds | None = forever_or_seconds(reach, "reach")
        self.lag: Seconds = 0.0 if lag is None else seconds(lag, "lag")

    async def read(self, cursor: Cursor) -> AsyncIterator[Page]:
        """Read one round, not before it is due, and hand on immediately what comes."""
        await current().sleep(max(self._due - current().monotonic(), 0))
        self._due = current().monotonic() + self._every
        more = False
        async with aclosing(self._pages(cursor)) as pages:
            async for page in pages:
                more = page.more and bool(page.records)
                yield page
        if more:
            self._due = -math.inf

    async def _pages(self, cursor: Cursor) -> AsyncGenerator[Page, None]:
        if self._ended is not None and not self._ended.is_set():
            # The last round was left while its thread was at work: two must not run at the same time.
            await current().blocking(self._ended.wait)
        if self._awaits:
            shown = self._read(cursor)
        else:
            shown = await current().blocking(self._read, cursor, linger=LINGER)
        if isinstance(shown, AsyncIterable):
            async for one in shown:
                yield _paged(one)
            return
        said = False
        async with aclosing(self._come(shown)) as coming:
            async for come in coming:
                said = isinstance(come[-1], Page)
                for page in _batched(come):
                    yield page
        if not said:  # then its own last page said whether that was the present
            yield Page([])

    async def _come(self, shown: Iterable[Shown]) -> AsyncGenerator[Sequence[Shown], None]:
        """Give what a sync function shows, as it comes; what is complete already needs no thread."""
        if isinstance(shown, list | tuple):
            for at in range(0, len(shown), self._page):
                yield shown[at : at + self._page]
            return
        drawn = current().drawn(shown, self._page)
        self._ended = drawn.ended
        async with aclosing(drawn.come()) as coming:
            async for come in coming:
                yield come

    async def tell(self, fates: Sequence[tuple[Record, Fate]]) -> None:
        """Nobody asked to hear."""


def _paged(one: Shown) -> Page:
    return one if isinstance(one, Page) else Page([one])


def _batched(come: Sequence[Shown]) -> Iterable[Page]:
    """Put neighbouring records on one page; what comes next decides whether that was the present."""
    batch: list[Record] = []
    for one in come:
        if isinstance(one, Record):
            batch.append(one)
            continue
        if batch:
            yield Page(batch, more=True)
            batch = []
        yield one
    if batch:
        yield Page(batch, more=True)
