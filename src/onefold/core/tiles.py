"""The coverage of a series, as entries: one per tile, claimed like any key and read without claiming.

A tile that is in (complete, or confirmed empty) is done, with its count as the receipt. One that is not in
yet is free or held, with what is known of it as a note beside the record. Nothing here fetches or counts.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from onefold.core.coverage import Span, Tile, TileState, merge, tiles
from onefold.core.entry import Entry
from onefold.core.errors import Misconfigured
from onefold.core.flow import get
from onefold.core.key import Key

READ = 500

IN: tuple[TileState, ...] = ("complete", "empty")


class Series(NamedTuple):
    """A named series of one pipeline, and the one grid on which it is cut."""

    scope: str
    name: str
    step: int

    def key(self, since: int) -> Key:
        """Return the key of the tile that starts here; it must stand on the grid."""
        if since % self.step:
            raise Misconfigured(
                f"no tile of {self.name} starts at {since}: tiles start at multiples of {self.step} s"
            )
        return Key(self.scope, self.name, since)


def noted(state: TileState, rows: int, expected: int | None = None) -> dict[str, Any]:
    """Write what is known of a tile: the receipt of one that is in, the note of one that is not."""
    return {"state": state, "rows": rows, **({} if expected is None else {"expected": expected})}


def tile(span: Span, entry: Entry | None) -> Tile | None:
    """Read what is known of a tile; None if nobody looked at it yet."""
    known = _known(entry)
    if known is None:
        return None
    refused, reasons = int(known.get("invalid", 0)), tuple(map(str, known.get("reasons", ())))
    return Tile(span, known["state"], int(known.get("rows", 0)), refused, reasons)


def _known(entry: Entry | None) -> dict[str, Any] | None:
    if entry is None or not entry.body:
        return None
    body = json.loads(entry.body)
    known = body if entry.state == "done" else isinstance(body, dict) and body.get("note")
    return known if isinstance(known, dict) and "state" in known else None


async def covered(series: Series, wanted: Span) -> list[Tile]:
    """Read the tiles of a wanted stretch, in order; those that nobody looked at are left out."""
    spans = list(tiles(wanted, series.step))
    found: list[Tile] = []
    for at in range(0, len(spans), READ):
        part = spans[at : at + READ]
        seen = await get([series.key(span.since) for span in part])
        known = (tile(span, one.entry) for span, one in zip(part, seen, strict=True))
        found += [one for one in known if one]
    return found


class Run(NamedTuple):
    """Neighbouring tiles in one state, merged for display; state None where nobody looked."""

    span: Span
    state: TileState | None
    rows: int
    tiles: int


def runs(series_step: int, wanted: Span, known: Iterable[Tile]) -> list[Run]:
    """Merge tiles for display: neighbours of one state become one line."""
    by_start = {one.span.since: one for one in known}
    merged: list[Run] = []
    for span in tiles(wanted, series_step):
        one = by_start.get(span.since)
        state, rows = (one.state, one.rows) if one else (None, 0)
        if merged and merged[-1].state == state:
            last = merged[-1]
            merged[-1] = Run(Span(last.span.since, span.until), state, last.rows + rows, last.tiles + 1)
        else:
            merged.append(Run(span, state, rows, 1))
    return merged


# ----- the file of old: {"EUR/USD_1m": [{"start", "end", "downloaded_at", "source", "bars_count"}]}


class Period(NamedTuple):
    """A downloaded period as the file has it, with its end made half-open."""

    span: Span
    rows: int | None


def whole_tiles(periods: Sequence[Period], step: int, available: int) -> list[Span]:
    """Say which tiles the periods hold whole: none that they only touch, none that lies in the future."""
    spans: list[Span] = []
    for span in merge(period.span for period in periods):
        until = min(span.until, available)
        spans += [one for one in tiles(span, step) if span.since <= one.since and one.until <= until]
    return spans
