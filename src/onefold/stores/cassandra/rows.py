"""Entries as rows of Cassandra, and back; and what is asked for, as values.

An entry is one JSON text beside its version. It asks nobody and decides nothing.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from math import ceil
from typing import Any, NamedTuple

from msgspec.structs import asdict

from onefold.core.entry import Change, Entry
from onefold.core.errors import OnefoldError
from onefold.core.key import Key

PARTS = 16
"""Partitions of the hints, so that no single one takes all writes."""

LINGER = 86_400
"""Seconds that Cassandra's own expiry waits beyond ours: it goes by another clock, and is hygiene only."""

LONGEST_TTL = 5 * 365 * 86_400
"""Seconds. Cassandra before 5 cannot count beyond January 2038; what is kept for longer is purged by hand."""

Row = dict[str, Any]
Outcome = list[Row] | OnefoldError
"""What became of a statement: its rows, or why there are none."""


class Statement(NamedTuple):
    """A statement by its name in `statements.cql`, and its arguments."""

    name: str
    args: Sequence[Any] = ()


def write(change: Change, entry: Entry, max_skew: float) -> Statement:
    """Ask for one change: on the version that was seen, or where there was nothing."""
    args = [ttl(change, entry, max_skew), entry.version, text(change.key, entry), change.key.id]
    if change.expected is None:
        return Statement("insert", args)
    return Statement("update", [*args, change.expected])


def ttl(change: Change, entry: Entry, max_skew: float) -> int:
    """Say after how many seconds Cassandra may remove what a change writes; 0 is never."""
    if entry.state != "done" or change.keep is None or change.keep > LONGEST_TTL:
        return 0
    return ceil(change.keep + 2 * max_skew) + LINGER


def look(id: bytes) -> Statement:
    """Ask for an entry as it is now."""
    return Statement("look", [id])


def listed(key: Key, version: int) -> Statement:
    """Ask for a hint to an open entry."""
    return Statement("list", [part(key.id), key.id, version, key.scope, version])


def unlisted(id: bytes, version: int) -> Statement:
    """Ask for the end of a hint, unless there is one to a newer version."""
    return Statement("unlist", [version, part(id), id])


def part(id: bytes) -> int:
    """Say in which partition the hint to an entry stands."""
    return id[0] % PARTS


def text(key: Key, entry: Entry) -> str:
    """Write an entry; JSON takes every text, also one that is not valid Unicode."""
    fields = asdict(entry)
    del fields["version"]
    return json.dumps({"scope": key.scope, **fields})


def found(row: Row | None, id: bytes) -> tuple[Key, Entry] | None:
    """Read a row; None if there is no entry in it."""
    if row is None or row.get("entry") is None:
        return None
    fields = json.loads(row["entry"])
    scope = fields.pop("scope")
    return Key.stored(scope, id, fields["label"]), Entry(version=row["version"], **fields)
