"""How the rows of a SQL server are read: what a look found, and a scan, page after page.

PostgreSQL and MariaDB give the columns of an entry in one order, between its id and scope and the server's
time. Statements, and how a scope is stored, are the backend's.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

from onefold.core.entry import FIELDS, NOTHING, OPEN, STATES, Entry, Seen, State
from onefold.core.flow import Found
from onefold.core.key import Key
from onefold.stores.shells import Row, on_client

Place = list[Any]
"""Where a page starts: behind this scope, due time and id."""

_ENTRY = slice(2, 2 + len(FIELDS))
_ID, _SCOPE, _LABEL, _DUE, _NOW = 0, 1, 15, 18, 19


def found(keys: Sequence[Key], rows: Sequence[Row]) -> list[Seen]:
    """Say for each key what a look has found."""
    stored = {row[_ID]: _seen(row) for row in rows}
    return [stored.get(key.id, NOTHING) for key in keys]


def _seen(row: Row) -> Seen:
    entry = Entry(*row[_ENTRY])
    return Seen(entry, max(row[_NOW] - entry.written, 0.0))


async def listed(
    states: Sequence[State],
    due: bool,
    after: str | None,
    limit: int,
    page: Callable[[State, Place, int], Any],
    scope: Callable[[Any], str],
) -> tuple[Sequence[Found], str | None]:
    """Read state by state, each by the statement that `page` makes; `scope` reads how one is stored."""
    read: list[Found] = []
    wanted = [state for state in STATES if state in states and (state in OPEN or not due)]
    if not wanted:
        return read, None
    start: list[Any] = json.loads(after) if after else [wanted[0], "", -1.0, ""]
    for state in wanted[wanted.index(start[0]) :]:
        place = start[1:] if state == start[0] else ["", -1.0, ""]
        [rows] = await on_client("execute_many", [page(state, place, limit - len(read))])
        read += [(Key.stored(scope(row[_SCOPE]), row[_ID], row[_LABEL]), _seen(row)) for row in rows]
        if len(read) == limit:
            last = rows[-1]
            return read, json.dumps([state, scope(last[_SCOPE]), last[_DUE], last[_ID].hex()])
    return read, None
