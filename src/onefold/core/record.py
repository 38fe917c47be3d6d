"""What sources show and what becomes of it: records, pages, gaps and fates.

Plain values that sources, the worker and sinks hand to each other. Nothing here reads or writes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

At = float | int
"""A record's place in its source's order: a time in seconds, a block, a sequence number."""

Fate = Literal["done", "parked", "kept", "open"]
"""What became of a record: *kept* stands in its entry for a later attempt, *open* is nobody's yet."""


class Record(NamedTuple):
    """Something a source showed us: plain JSON values under an id."""

    id: str
    body: Any
    at: At
    source: str = ""
    retracts: str | None = None
    """What this record takes back, as the source names it; None for everything that simply happened."""


class Standing(NamedTuple):
    """How a record stands in the ledger, for a source that shows it where people look."""

    record: Record
    fate: Fate
    attempt: int = 0
    due: float | None = None
    """From when on it may be tried again, in seconds since 1970 by the store's clock; None for at once."""
    error: str = ""
    why: str | None = None
    """Why it is parked."""


class Gap(NamedTuple):
    """A stretch of a source's order that could not be read. It is recorded and shown, never skipped."""

    since: At | None
    until: At
    reason: str


class Broken(NamedTuple):
    """Something a source showed that is no record: its text, cut, and what is wrong with it."""

    raw: str
    reason: str


class Mark(NamedTuple):
    """What a source must find again to go on, as the content of a file, or the steps of a walk."""

    since: At | None
    """A cursor that is held back before this place keeps the mark that it has; None for a mark that no place
    depends on."""
    known: Any
    """Plain JSON values. The worker stores them beside the cursor, and only the source reads them."""


class Page(NamedTuple):
    """What a source showed at once. With `more` it has not caught up yet."""

    records: Sequence[Record]
    gap: Gap | None = None
    more: bool = False
    broken: Sequence[Broken] = ()
    mark: Mark | None = None
