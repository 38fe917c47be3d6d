"""What the MariaDB store asks of a connection: batches as JSON, and then what is stored.

A write and the look that follows it are one transaction, and its end is asked for last: whatever fails before
has written nothing. The server's clock sets versions and times. Nothing is decided here.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

from onefold.core.entry import OPEN, UNKNOWN, Change, Entry, Reply, Seen, State
from onefold.core.errors import Misconfigured, Unanswered, Unreachable
from onefold.core.flow import Found
from onefold.core.key import Key
from onefold.stores.rows import Place, found, listed
from onefold.stores.shells import on_client
from onefold.stores.sql import statements

CHUNK = 1_500_000
"""Characters of records and receipts that leave together: well below the 16 MB that a server takes."""

_SQL = statements("mariadb")


class Statement(NamedTuple):
    """One statement and its arguments."""

    sql: str
    args: Sequence[Any] = ()

    @property
    def text(self) -> str:
        """The statement with its arguments in it."""
        return self.sql % tuple(_literal(value) for value in self.args) if self.args else self.sql


def _literal(value: str | float | None) -> str:
    """Write a value as SQL. Texts are written as digits: nothing in them can end the statement.

    That is also several times faster than escaping them, and right whatever the session's modes are.
    """
    if isinstance(value, str):
        return f"_utf8mb4 x'{_encoded(value).hex()}'"
    return "NULL" if value is None else repr(value)


def _encoded(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise Misconfigured(
            "MariaDB cannot store a text with a lone surrogate in it; nothing was asked"
        ) from None


BEGIN, COMMIT = Statement("START TRANSACTION"), Statement("COMMIT")


class MariaPlan:
    """The three methods of a store, as flows over `execute_many`.

    Joined, the transaction is the caller's, and may read as of its beginning: what a write meets is read as
    it is now. Nothing is locked before it is written, for there the gaps between rows would be locked too.
    """

    def __init__(self, joined: bool = False) -> None:
        self._joined = joined
        self._before = [] if joined else [BEGIN]
        self._after = [] if joined else [COMMIT]
        self._looking = " LOCK IN SHARE MODE" if joined else ""

    async def get(self, keys: Sequence[Key]) -> Sequence[Seen]:
        [rows] = await on_client("execute_many", [_look(keys)])
        return found(keys, rows)

    async def swap(self, changes: Sequence[Change]) -> Sequence[Reply]:
        replies: list[Reply] = []
        for some in _chunks(changes):
            try:
                replies += await self._swap(some)
            except Unreachable as error:
                if not replies and not isinstance(error, Unanswered):
                    raise
                return replies + [UNKNOWN] * (len(changes) - len(replies))
        return replies

    async def _swap(self, changes: Sequence[Change]) -> list[Seen]:
        keys = [change.key for change in changes]
        writes = _writes(changes)
        if len(writes) > 1 and not self._joined:
            writes.insert(0, Statement(_SQL["lock"], [_ids(keys)]))
        asked = [*self._before, *writes, _look(keys, self._looking)]
        replies = await on_client("execute_many", [*asked, *self._after])
        return found(keys, replies[len(asked) - 1])

    async def scan(
        self, scope: str | None, states: Sequence[State], due: bool, after: str | None, limit: int
    ) -> tuple[Sequence[Found], str | None]:
        return await listed(states, due, after, limit, partial(_page, scope, due), bytes.decode)


# ----- writing


def _chunks(changes: Sequence[Change]) -> Iterator[Sequence[Change]]:
    """Part a batch that no server would take at once; nearly every batch stays whole."""
    start, size = 0, 0
    for at, change in enumerate(changes):
        size += len(change.entry.body or "") if change.entry else 0
        if size > CHUNK and at > start:
            yield changes[start:at]
            start, size = at, 0
    if start < len(changes):
        yield changes[start:]


def _writes(changes: Sequence[Change]) -> list[Statement]:
    """Sort changes out by the statement that makes them."""
    new = [_columns(change, change.entry) for change in changes if change.expected is None and change.entry]
    later = [
        (*_columns(change, change.entry), change.expected)
        for change in changes
        if change.expected is not None and change.entry
    ]
    gone = [(change.key.id.hex(), change.expected) for change in changes if change.entry is None]
    asked = (("insert", new), ("update", later), ("remove", gone))
    return [Statement(_SQL[name], [_json(rows)]) for name, rows in asked if rows]


def _columns(change: Change, entry: Entry) -> tuple[Any, ...]:
    key = change.key
    return (
        key.id.hex(), key.scope, entry.state, entry.why, entry.token, entry.fence, entry.effect, entry.begun,
        int(change.begin), entry.lease, entry.attempt, change.delay, change.keep, entry.fingerprint,
        entry.label, entry.source, entry.body,
    )  # fmt: skip


def _ids(keys: Sequence[Key]) -> str:
    return _json([key.id.hex() for key in keys])


def _json(rows: Sequence[Any]) -> str:
    return json.dumps(rows, ensure_ascii=False, separators=(",", ":"))


# ----- looking


def _look(keys: Sequence[Key], looking: str = "") -> Statement:
    return Statement(_SQL["get"] + looking, [_ids(keys)])


def _page(scope: str | None, due: bool, state: State, place: Place, limit: int) -> Statement:
    after_scope, after_due, after_id = place
    if state not in OPEN:
        return Statement(_SQL["walk_done"], (after_id, scope, scope, limit))
    if scope is not None:
        return Statement(
            _SQL["scan_open_in_scope"], (state, scope, after_due, after_due, after_id, due, limit)
        )
    start = (after_scope, after_scope, after_due, after_scope, after_due, after_id)
    return Statement(_SQL["scan_open"], (state, *start, due, limit))
