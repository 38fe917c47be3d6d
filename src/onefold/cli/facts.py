"""Entries as rows and as JSON. Times are written in UTC; nothing here asks a store or prints."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from math import isfinite
from typing import Any

from msgspec.structs import asdict

from onefold.core.entry import Entry, Seen
from onefold.core.key import Key
from onefold.core.story import moment

_ERROR = re.compile(r"([A-Z_]\w*)(?:: (.*))?", re.DOTALL)
_TIMES = ("begun", "written", "not_before", "expires")


def iso(at: float | None) -> str | None:
    """Write a point in time for programs; None where there is none that a calendar has."""
    if at is None:
        return None
    try:
        return datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    except (OverflowError, ValueError, OSError):
        return None


def place(at: float | int | None, timed: bool) -> str:
    """Write a place of a cursor so that it can be typed again: a time where the source orders by time."""
    if at is None:
        return "start"
    try:
        when = datetime.fromtimestamp(at, UTC) if timed else None
    except (OverflowError, ValueError, OSError):
        when = None
    return str(at) if when is None else when.isoformat().replace("+00:00", "Z")


def key_json(key: Key) -> dict[str, Any]:
    """Name a key for programs."""
    return {
        "scope": key.scope,
        "parts": list(key.parts) or None,
        "label": key.label,
        "id": key.id.hex(),
    }


def ending_json(text: Mapping[str, Any]) -> dict[str, Any]:
    """Give the record that an entry carries, and how its last attempt ended, for programs."""
    told = {name: text.get(name) for name in ("record", "for", "reason")}
    return {**told, "error": error_json(text.get("error"))}


def error_json(text: object) -> dict[str, str | None] | None:
    """Split an error that was stored as text into its type, where it names one, and its message."""
    if not text:
        return None
    named = _ERROR.fullmatch(str(text))
    return {"type": named[1], "message": named[2] or ""} if named else {"type": None, "message": str(text)}


def entry_json(entry: Entry) -> dict[str, Any]:
    """Give all that is stored, for programs."""
    told = asdict(entry)
    del told["label"], told["token"]
    # JSON has no infinity, and a file that others write may hold one.
    lease = entry.lease if isfinite(entry.lease) else None
    return {**told, "lease": lease, **{name: iso(told[name]) for name in _TIMES}}


def silent(seen: Seen) -> bool:
    """Say whether a holder let its lease run out."""
    return seen.entry is not None and seen.entry.state == "held" and seen.stood >= seen.entry.lease


def waits(seen: Seen) -> bool:
    """Say whether a free entry still waits for its time."""
    entry = seen.entry
    return entry is not None and entry.not_before is not None and entry.written + seen.idle < entry.not_before


def awaits(entry: Entry) -> str:
    """Say in a word or a time what an open entry waits for."""
    match entry.state:
        case "parked":
            return "a decision"
        case "held":
            return moment(entry.written + entry.lease)
        case "free":
            return "now" if entry.not_before is None else moment(entry.not_before)
        case _:
            return ""
