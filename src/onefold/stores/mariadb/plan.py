"""What the MariaDB store asks of a connection: writes in one round trip, and a look where some were refused.

First claims and settles are written and counted; the store looks only if it wrote fewer than it was asked to.
Any other batch is written and read in one transaction. COMMIT is sent last: a statement that fails before it
has written nothing. The server's clock sets versions and times. Nothing is decided here.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from functools import cache, partial
from typing import Any, NamedTuple

from onefold.core.entry import OPEN, UNKNOWN, Change, Entry, Reply, Seen, State, stamped
from onefold.core.errors import Misconfigured, OnefoldError, Unanswered, Unreachable
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


def _literal(value: str | bytes | float | None) -> str:
    """Write a value as SQL. Texts are written as digits: nothing in them can end the statement.

    That is also several times faster than escaping them, and right whatever the session's modes are.
    """
    if isinstance(value, str):
        return f"_utf8mb4 x'{_encoded(value).hex()}'"
    if isinstance(value, bytes):
        return f"x'{value.hex()}'"
    if value is None:
        return "NULL"
    text = repr(value)
    # Without an exponent the server would read a DECIMAL instead of a DOUBLE.
    return f"{text}e0" if "." in text and "e" not in text else text


def _encoded(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise Misconfigured(
            "MariaDB cannot store a text with a lone surrogate in it; nothing was asked"
        ) from None


BEGIN, COMMIT = Statement("START TRANSACTION"), Statement("COMMIT")
CLOCK = Statement(_SQL["clock"])


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
        if not self._joined and all(map(_is_quick, changes)):
            return await _swap_quickly(changes, keys)
        writes = _writes(changes)
        if len(writes) > 1 and not self._joined:
            writes.insert(0, _lock(keys))
        asked = [*self._before, *writes, _look(keys, self._looking)]
        replies = await on_client("execute_many", [*asked, *self._after])
        return found(keys, replies[len(asked) - 1])

    async def scan(
        self, scope: str | None, states: Sequence[State], due: bool, after: str | None, limit: int
    ) -> tuple[Sequence[Found], str | None]:
        return await listed(states, due, after, limit, partial(_page, scope, due), bytes.decode)


# ----- claiming and settling


def _is_quick(change: Change) -> bool:
    """Say whether a change is a first claim, or a settle that needs no more columns than `settle` writes."""
    entry = change.entry
    if entry is None or change.expected is None:
        return entry is not None
    plain = change.delay is None and not change.begin
    return change.settles and plain and entry.state == "done" and entry.why is None and entry.fence != 0


async def _swap_quickly(changes: Sequence[Change], keys: Sequence[Key]) -> list[Seen]:
    """Write first claims and settles; if all were written, make the replies from the clock's reading.

    Otherwise a second round trip looks at all of the keys: the number of affected rows does not tell which
    changes were refused. The look follows the commit, so it sees the row of a winner that was waited for.
    """
    writes = _quick_writes(changes)
    locks = [_lock(keys)] if len(writes) > 1 else []
    replies = await on_client("execute_many", [BEGIN, *locks, CLOCK, *writes, COMMIT])
    [[version, now]], *counts = replies[1 + len(locks) : -1]
    if sum(count for [[count]] in counts) == len(changes):
        return [
            Seen(stamped(one, version if one.expected is None else one.expected + 1, now)) for one in changes
        ]
    try:
        [rows] = await on_client("execute_many", [_look(keys)])
    except OnefoldError as error:
        # The write is committed: whatever went wrong with the look, "nothing was written" would be false.
        raise Unanswered(str(error)) from error
    return found(keys, rows)


def _quick_writes(changes: Sequence[Change]) -> list[Statement]:
    # Scopes, effects, receipts and the like are the same in most rows of a batch.
    shared = cache(_literal)
    rows = [_row(one, one.entry, shared) for one in changes if one.expected is None and one.entry]
    settles = [
        (one.key.id, one.expected, one.keep, one.entry.body)
        for one in changes
        if one.expected is not None and one.entry
    ]
    writes = [Statement(_SQL["insert_rows"] % ",\n".join(rows))] if rows else []
    if len(settles) == 1:
        [(id, expected, keep, body)] = settles
        writes.append(Statement(_SQL["settle_one"], (keep, body, id, expected)))
    elif settles:
        wanted = [(id.hex(), *rest) for id, *rest in settles]
        writes.append(Statement(_SQL["settle"], [_json(wanted)]))
    return writes


def _row(change: Change, entry: Entry, shared: Callable[[Any], str]) -> str:
    """Write a first claim as a row of literals, in the order of the columns; `due` is the last."""
    key, lease, delay = change.key, shared(entry.lease), change.delay
    later = {"held": lease, "free": shared(delay or 0.0), "parked": "0"}.get(entry.state)
    return (
        f"({_literal(key.id)},{shared(key.scope)},{shared(entry.state)},{shared(entry.why)},"
        f"{_literal(entry.token)},@onefold_version,{entry.fence or '@onefold_version'},"
        f"{shared(entry.effect)},{'@onefold_now' if change.begin else shared(entry.begun)},"
        f"{lease},@onefold_now,{entry.attempt},"
        f"@onefold_now + {shared(delay)},@onefold_now + {shared(change.keep)},{shared(entry.fingerprint)},"
        f"{_literal(entry.label)},{shared(entry.source)},{shared(entry.body)},"
        f"{'NULL' if later is None else f'@onefold_now + {later}'})"
    )


# ----- writing anything


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


def _lock(keys: Sequence[Key]) -> Statement:
    return Statement(_SQL["lock"], [_ids(keys)])


def _ids(keys: Sequence[Key]) -> str:
    return _json([key.id.hex() for key in keys])


def _json(rows: Sequence[Any]) -> str:
    return json.dumps(rows, ensure_ascii=False, separators=(",", ":"))


# ----- looking


def _look(keys: Sequence[Key], looking: str = "") -> Statement:
    if len(keys) == 1:
        return Statement(_SQL["get_one"] + looking, [keys[0].id])
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
