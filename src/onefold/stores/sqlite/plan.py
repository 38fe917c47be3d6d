"""What the SQLite stores ask of a connection, whoever owns it: the same statements, inside a transaction
that somebody else begins and commits. It compares versions and says what is stored; it decides nothing.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Protocol

from msgspec.structs import astuple

from onefold.core.entry import FIELDS, NOTHING, OPEN, STATES, Change, Entry, Seen, State, due, stamped
from onefold.core.errors import Misconfigured
from onefold.core.flow import Found
from onefold.core.key import Key
from onefold.stores.sql import migrations, statements
from onefold.stores.versions import refuse_newer

Row = tuple[Any, ...]

_SQL = statements("sqlite")
_GET, _INSERT, _UPDATE, _SETTLE, _REMOVE = (
    _SQL[name] for name in ("get", "insert", "update", "settle", "remove")
)
_FIELDS = len(FIELDS)


class Client(Protocol):
    """One face for every kind of connection: read rows, or change one and hear whether there was one."""

    def rows(self, sql: str, bound: Sequence[Any] = ()) -> list[Row]: ...

    def change(self, sql: str, bound: Sequence[Any]) -> bool: ...


def get(client: Client, keys: Sequence[Key], now: float) -> list[Seen]:
    """Read what is stored, one look-up per key."""
    return [_stored(client, key, now) for key in keys]


def swap(client: Client, changes: Sequence[Change], now: float) -> list[Seen]:
    """Try all changes inside a transaction that the caller has begun and will commit."""
    write, version = client.change, int(now * 1_000_000)
    replies = []
    for change in changes:
        key, expected = change.key, change.expected
        if change.entry is None:
            written, reply = write(_REMOVE, (key.id, expected, now)), NOTHING
        elif expected is None:
            entry = stamped(change, version, now)
            written, reply = write(_INSERT, (key.id, key.scope, *astuple(entry), due(entry))), Seen(entry)
        elif change.settles:
            entry = stamped(change, expected + 1, now)
            bound = (entry.version, now, entry.expires, entry.body, key.id, expected)
            written, reply = write(_SETTLE, bound), Seen(entry)
        else:
            entry = stamped(change, expected + 1, now)
            written, reply = write(_UPDATE, (*astuple(entry), due(entry), key.id, expected)), Seen(entry)
        replies.append(reply if written else _stored(client, key, now))
    return replies


def _stored(client: Client, key: Key, now: float) -> Seen:
    return _seen(client.rows(_GET, (key.id,)), now)


def scan(
    client: Client,
    scope: str | None,
    states: Sequence[State],
    until: float,
    after: str | None,
    limit: int,
    now: float,
) -> tuple[list[Found], str | None]:
    """Read a page: state by state through the index of open entries, done ones by a walk."""
    found: list[Found] = []
    # What is done is never due, so a scan for what is due has no use for the walk over everything.
    wanted = [state for state in STATES if state in states and (state in OPEN or until == float("inf"))]
    if not wanted:
        return [], None
    start: list[Any] = json.loads(after) if after else [wanted[0], "", -1.0, ""]
    for state in wanted[wanted.index(start[0]) :]:
        place = start[1:] if state == start[0] else ["", -1.0, ""]
        rows = _page(client, scope, state, place, until, limit - len(found))
        found += [(Key.stored(row[1], row[0], row[15]), _seen([row], now)) for row in rows]
        if len(found) == limit:
            last = rows[-1]
            return found, json.dumps([state, last[1], last[-1], last[0].hex()])
    return found, None


def _page(
    client: Client, scope: str | None, state: State, place: list[Any], until: float, limit: int
) -> list[Row]:
    after_scope, after_due, after_id = place[0], place[1], bytes.fromhex(place[2])
    if state not in OPEN:
        return client.rows(_SQL["walk_done"], (after_id, scope, limit))
    bound = (state, after_scope, after_due, after_id, until, limit)
    if scope is None:
        return client.rows(_SQL["scan_open"], bound)
    return client.rows(_SQL["scan_open_in_scope"], (*bound, scope))


def _seen(rows: list[Row], now: float) -> Seen:
    if not rows:
        return NOTHING
    entry = Entry(*rows[0][2 : 2 + _FIELDS])
    return Seen(entry, max(now - entry.written, 0.0))


# ----- the schema


def migrate(client: Client, name: str) -> None:
    """Bring the tables to this version, inside a transaction that the caller has begun."""
    known = migrations("sqlite")
    version = schema_version(client)
    refuse_newer(name, version, len(known))
    for script in known[version:]:
        for statement in script:
            client.rows(statement)
    if version < len(known):
        client.rows(
            "INSERT OR REPLACE INTO onefold_meta (name, value) VALUES ('schema', ?)", (str(len(known)),)
        )


def schema_version(client: Client) -> int:
    """Return the number of the last migration this database has seen, 0 if none."""
    if not client.rows("SELECT 1 FROM sqlite_schema WHERE name = 'onefold_meta'"):
        return 0
    rows = client.rows("SELECT value FROM onefold_meta WHERE name = 'schema'")
    if rows and not rows[0][0].isdecimal():
        raise Misconfigured(f"onefold_meta gives the schema as {rows[0][0]!r:.40}: restore it from a backup")
    return int(rows[0][0]) if rows else 0
