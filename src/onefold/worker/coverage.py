"""Which series a store knows, and how their tiles stand: for lists, pictures and metrics.

A worker that fills a series notes it here; the tiles themselves are read from their entries (`core.tiles`).
"""

from __future__ import annotations

from typing import Any, NamedTuple

from onefold.core.calendar import expected, named
from onefold.core.coverage import Span, Tile
from onefold.core.documents import listed, save
from onefold.core.documents import named as document
from onefold.core.tiles import Series
from onefold.runtime import current


class Noted(NamedTuple):
    """A series with what is wanted of it."""

    series: Series
    since: int
    until: int | None
    """None: up to the present."""
    bar: int
    """Seconds per row, for the expected counts."""
    calendar: str = "24/7"

    def wanted(self, now: float) -> Span:
        """Return the stretch that is wanted as of now."""
        until = int(now) if self.until is None else min(self.until, int(now))
        return Span(self.since, max(until, self.since + 1))

    def expected(self, span: Span) -> int:
        """Say how many rows a stretch should hold, by its calendar."""
        return expected(span, self.bar, named(self.calendar))


async def note(noted: Noted) -> None:
    """Write down that a series is filled, and from when on; a wider wish widens it."""
    series = noted.series
    key = document("series", series.scope, series.name)
    await save(key, current().token(), lambda stands: _wider(stands, noted))


def _wider(stands: Any, noted: Noted) -> dict[str, Any] | None:
    since = min(noted.since, stands["since"]) if stands else noted.since
    wanted = {**noted.series._asdict(), "since": since, "until": noted.until}
    wanted |= {"bar": noted.bar, "calendar": noted.calendar}
    return None if stands == wanted else wanted


async def known() -> list[Noted]:
    """List the series that workers filled."""
    return [_read(text.value) for _, text in await listed("series")]


def _read(value: dict[str, Any]) -> Noted:
    series = Series(value["scope"], value["name"], value["step"])
    return Noted(series, value["since"], value["until"], value["bar"], value["calendar"])


def open_tiles(noted: Noted, tiles: list[Tile], now: float) -> int:
    """Count the tiles of what is wanted that are not in yet."""
    wanted = noted.wanted(now)
    step = noted.series.step
    total = -(-wanted.until // step) - wanted.since // step
    return total - sum(one.state in ("complete", "empty") for one in tiles)
