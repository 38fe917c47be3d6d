"""What the PostgreSQL store asks of a connection: batches as arrays, and then what is stored.

An upsert that returns its rows tells racing losers "nothing stored"; so the write comes first and a look
follows it, in the same pipeline. The server's clock sets versions and times. Nothing is decided here.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, NamedTuple

from onefold.core.entry import NOTHING, OPEN, STATES, UNKNOWN, Change, Entry, Reply, Seen, State
from onefold.core.errors import Unanswered
from onefold.core.flow import Found
from onefold.core.key import Key
from onefold.stores.shells import Row, on_client
from onefold.stores.sql import statements

_SQL = statements("postgresql")
_FIELDS = len(Entry._fields)


class Statement(NamedTuple):
    """One statement and its arguments."""

    sql: str
    args: Sequence[Any] = ()


class PostgresPlan:
    """The three methods of a store, as flows over `execute_many`."""

    async def get(self, keys: Sequence[Key]) -> Sequence[Seen]:
        [rows] = await on_client("execute_many", [_look(keys)])
        found = _by_id(rows)
        return [found.get(key.id, NOTHING) for key in keys]

    async def swap(self, changes: Sequence[Change]) -> Sequence[Reply]:
        writes = [
            Statement(_SQL[name], _columns(name, chosen))
            for name, chosen in _sorted_out(changes).items()
            if chosen
        ]
        keys = [change.key for change in changes]
        try:
            replies = await on_client("execute_many", [*writes, _look(keys)])
        except Unanswered:
            return [UNKNOWN] * len(changes)
        found = _by_id(replies[-1])
        return [found.get(key.id, NOTHING) for key in keys]

    async def scan(
        self, scope: str | None, states: Sequence[State], due: bool, after: str | None, limit: int
    ) -> tuple[Sequence[Found], str | None]:
        found: list[Found] = []
        wanted = [state for state in STATES if state in states and (state in OPEN or not due)]
        if not wanted:
            return found, None
        start: list[Any] = json.loads(after) if after else [wanted[0], "", -1.0, ""]
        for state in wanted[wanted.index(start[0]) :]:
            place = start[1:] if state == start[0] else ["", -1.0, ""]
            page = _page(state, scope, due, place, limit - len(found))
            [rows] = await on_client("execute_many", [page])
            found += [(Key.stored(row[1], bytes(row[0]), row[15]), _seen(row)) for row in rows]
            if len(found) == limit:
                last = rows[-1]
                return found, json.dumps([state, last[1], last[18], bytes(last[0]).hex()])
        return found, None


def _sorted_out(changes: Sequence[Change]) -> dict[str, list[Change]]:
    """Split changes by the statement that makes them."""
    chosen: dict[str, list[Change]] = {"insert": [], "update": [], "remove": []}
    for change in changes:
        name = "remove" if change.entry is None else "insert" if change.expected is None else "update"
        chosen[name].append(change)
    return chosen


def _columns(name: str, changes: Sequence[Change]) -> list[list[Any]]:
    """Turn changes into the arrays that a statement takes."""
    if name == "remove":
        return [[change.key.id for change in changes], [change.expected for change in changes]]
    return [list(column) for column in zip(*map(_values, changes), strict=True)]


def _values(change: Change) -> Row:
    entry = change.entry
    assert entry is not None, "a removal writes no entry"
    return (
        change.key.id,
        change.key.scope,
        entry.state,
        entry.why,
        entry.token,
        entry.fence,
        entry.effect,
        entry.begun,
        change.begin,
        entry.lease,
        entry.attempt,
        change.delay,
        change.keep,
        entry.fingerprint,
        entry.label,
        entry.source,
        entry.body,
        change.expected,
    )


def _look(keys: Sequence[Key]) -> Statement:
    return Statement(_SQL["get"], ([key.id for key in keys],))


def _page(state: State, scope: str | None, due: bool, place: list[Any], limit: int) -> Statement:
    after_scope, after_due, after_id = place[0], place[1], bytes.fromhex(place[2])
    if state not in OPEN:
        return Statement(_SQL["walk_done"], (after_id, scope, scope, limit))
    return Statement(_SQL["scan_open"], (state, after_scope, after_due, after_id, scope, scope, due, limit))


def _by_id(rows: Sequence[Row]) -> dict[bytes, Seen]:
    return {bytes(row[0]): _seen(row) for row in rows}


def _seen(row: Row) -> Seen:
    entry = Entry._make(row[2 : 2 + _FIELDS])
    return Seen(entry, max(row[19] - entry.written, 0.0))
