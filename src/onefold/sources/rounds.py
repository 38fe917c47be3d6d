"""Records from code that blocks, such as questions to a database: asked in a thread, round after round.

What is shown, and what is made of how records stand, is the caller's. It keeps no cursor.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Protocol

from onefold.core.cursor import Cursor
from onefold.core.record import Fate, Page, Record, Standing
from onefold.core.terms import Duration, Seconds, seconds
from onefold.runtime import current
from onefold.runtime.threads import LINGER


class Shows(Protocol):
    """What a round asks. Every call may block."""

    def pages(self, cursor: Cursor) -> Iterator[Page]:
        """Show what there is from a cursor on, minus the lag; the last page is the present."""

    def note(self, standings: Sequence[Standing]) -> None:
        """Hear how records stand, at every showing."""

    def close(self) -> None:
        """Let go of connections."""


class Rounds:
    """Reads all pages of `shows`, rests for `every`, and reads again from the cursor minus `lag`."""

    reach = None
    repeats = True

    def __init__(
        self, shows: Shows, *, every: Duration, lag: Duration | None = None, timed: bool = False
    ) -> None:
        self.lag: Seconds = 0.0 if lag is None else seconds(lag, "lag")
        self.timed = timed
        self._shows = shows
        self._every = seconds(every, "every")

    async def read(self, cursor: Cursor) -> AsyncIterator[Page]:
        pages = self._shows.pages(cursor)
        while (page := await current().blocking(next, pages, None, linger=LINGER)) is not None:
            yield page
        await current().sleep(self._every)

    async def tell(self, fates: Sequence[tuple[Record, Fate]]) -> None:
        """Nothing to do: `note` hears more."""

    async def note(self, standings: Sequence[Standing]) -> None:
        await current().blocking(self._shows.note, standings, linger=LINGER)

    async def aclose(self) -> None:
        await current().blocking(self._shows.close)
