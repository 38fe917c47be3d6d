"""Which stretches of a series are in: half-open spans, cut into the fixed tiles of one grid.

A tile is complete only when the sink confirmed its count. An empty answer, a short count and an
unfinished last bar are states of their own, never "done". Nothing here asks a source or a sink.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Literal, NamedTuple

from onefold.core.errors import Misconfigured
from onefold.core.terms import epoch

TileState = Literal["complete", "partial", "empty", "provisional"]


class Span(NamedTuple):
    """A half-open stretch `[since, until)`, in whole seconds since 1970."""

    since: int
    until: int

    @classmethod
    def between(cls, since: datetime, until: datetime) -> Span:
        """Read a span from two datetimes with time zones."""
        return checked(cls(int(epoch(since, "since")), int(epoch(until, "until"))))


class Tile(NamedTuple):
    """One cell of a series' grid, with what is known of it."""

    span: Span
    state: TileState
    rows: int = 0
    refused: int = 0
    """Rows that the source showed and that are no rows of it."""
    reasons: tuple[str, ...] = ()
    """Why, for the first of them."""


def checked(span: Span) -> Span:
    """Refuse a span that ends before it starts."""
    if span.until <= span.since:
        raise Misconfigured(
            f"the span from {span.since} to {span.until} is empty: until must come after since"
        )
    return span


def tiles(wanted: Span, step: int) -> Iterator[Span]:
    """Cut a span into the cells of its grid; the first and last are whole cells, wherever it starts."""
    if step <= 0:
        raise Misconfigured(f"a grid of {step} seconds has no cells: the step must be positive")
    since = wanted.since // step * step
    while since < wanted.until:
        yield Span(since, since + step)
        since += step


def judge(confirmed: int, expected: int | None, closed: bool) -> TileState:
    """Say what a tile is, from what the sink confirmed and what the calendar expects.

    Without an expectation (None) any confirmed count of a closed tile is complete, and none is empty.
    """
    if not closed:
        return "provisional"
    if confirmed == 0 and not expected:
        return "empty"
    if expected is not None and confirmed < expected:
        return "partial"
    return "complete"


def merge(spans: Iterable[Span]) -> list[Span]:
    """Join spans that touch or overlap; sorted, disjoint."""
    merged: list[Span] = []
    for span in sorted(spans):
        if merged and span.since <= merged[-1].until:
            merged[-1] = Span(merged[-1].since, max(merged[-1].until, span.until))
        else:
            merged.append(span)
    return merged


def subtract(wanted: Span, have: Iterable[Span]) -> list[Span]:
    """Return what of a span is not covered, in order."""
    gaps: list[Span] = []
    since = wanted.since
    for span in merge(have):
        if span.until <= since or span.since >= wanted.until:
            continue
        if span.since > since:
            gaps.append(Span(since, span.since))
        since = span.until
    if since < wanted.until:
        gaps.append(Span(since, wanted.until))
    return gaps


def gaps(wanted: Span, known: Iterable[Tile]) -> list[Span]:
    """Return the stretches still to be fetched: all but complete and confirmed-empty tiles."""
    return subtract(wanted, (tile.span for tile in known if tile.state in ("complete", "empty")))
