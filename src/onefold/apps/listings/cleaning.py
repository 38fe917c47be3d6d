"""Takes away raw rows that were processed long ago, every hour; never one that waits or is parked."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from onefold.apps.listings.writing import Tables
from onefold.core.cursor import Cursor
from onefold.core.record import Page, Record, Standing
from onefold.core.terms import Seconds
from onefold.runtime import now

HOUR = 3600
ROWS = 1000
"""How many rows are taken away in one transaction."""


class Hours:
    """Shows every hour once."""

    def __init__(self, clock: Callable[[], float] = now) -> None:
        self._clock = clock

    def pages(self, cursor: Cursor) -> Iterator[Page]:
        hour = int(self._clock() // HOUR)
        new = cursor.at is None or hour > cursor.at
        yield Page([Record(str(hour), {}, hour)] if new else [])

    def note(self, standings: Sequence[Standing]) -> None:
        """Nobody asked to hear."""

    def close(self) -> None:
        """There is nothing to let go of."""


class Cleaning:
    """Takes away what is older than an age."""

    def __init__(self, tables: Tables, age: Seconds, clock: Callable[[], float] = now) -> None:
        self._tables = tables
        self._age = age
        self._clock = clock

    def __call__(self, record: Record) -> dict[str, int]:
        gone = 0
        try:
            while taken := self._some():
                gone += taken
        finally:
            self._tables.database.close()  # an hour is a long time for a connection with nothing to do
        return {"rows": gone}

    def _some(self) -> int:
        sql = (
            "DELETE FROM listings_raw WHERE id IN (SELECT id FROM listings_raw "
            f"WHERE processed_at IS NOT NULL AND processed_at < ? LIMIT {ROWS}) RETURNING id"
        )
        with self._tables.database.transaction() as connection:
            before = self._clock() - self._age
            until = self._tables.moment(connection, "listings_raw", "processed_at", before)
            return len(self._tables.run(connection, sql, until))
