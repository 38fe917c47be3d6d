"""Records from a generator of the caller's, sync or async."""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable, Sequence

from onefold.core.cursor import Cursor
from onefold.core.record import Fate, Page, Record
from onefold.core.terms import Duration, Seconds, forever_or_seconds, seconds

Shown = Record | Page
Reads = Callable[[Cursor], AsyncIterable[Shown] | Iterable[Shown]]


class Function:
    """Calls a function with the cursor, and takes the records or pages that it yields.

    It is called again when it ends, unless it is `finite`. A sync generator must not block.
    """

    def __init__(
        self,
        read: Reads,
        *,
        finite: bool = False,
        repeats: bool = True,
        timed: bool = False,
        reach: Duration = "forever",
        lag: Duration | None = None,
        page: int = 100,
    ) -> None:
        self._read = read
        self._page = page
        self.finite = finite
        self.repeats = repeats
        self.timed = timed
        self.reach: Seconds | None = forever_or_seconds(reach, "reach")
        self.lag: Seconds = 0.0 if lag is None else seconds(lag, "lag")

    async def read(self, cursor: Cursor) -> AsyncIterator[Page]:
        """Hand on what comes; a single awaited record at once, because the next may be long in coming."""
        shown = self._read(cursor)
        if isinstance(shown, AsyncIterable):
            async for one in shown:
                yield _paged(one)
            return
        batch: list[Record] = []
        for one in shown:
            if isinstance(one, Page):
                yield one
                continue
            batch.append(one)
            if len(batch) >= self._page:
                yield Page(batch, more=True)
                batch = []
        yield Page(batch)

    async def tell(self, fates: Sequence[tuple[Record, Fate]]) -> None:
        """Nobody asked to hear."""


def _paged(one: Shown) -> Page:
    return one if isinstance(one, Page) else Page([one])
