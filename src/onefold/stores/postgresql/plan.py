"""The statements that the PostgreSQL store sends: a write, and a look at the changes that it refused.

A write returns the version and time of each row it wrote, by the server's clock; the rest of the row is what
the change asked for. The look is a second statement, because the first cannot see a row that was committed
after its snapshot, and such a loser must not hear "nothing stored". Nothing is decided here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple, TypeVar

from onefold.core.entry import NOTHING, OPEN, UNKNOWN, Change, Entry, Reply, Seen, State, stamped
from onefold.core.errors import OnefoldError, Unanswered
from onefold.core.flow import Found
from onefold.core.key import Key
from onefold.stores.rows import Place, found, listed
from onefold.stores.shells import Row, on_client
from onefold.stores.sql import statements

T = TypeVar("T")

_SQL = statements("postgresql")

_STATE, _VERSION, _WRITTEN = 2, 5, 10
"""Where these columns are in a row of `get` and of `insert_one`."""


class Statement(NamedTuple):
    """One statement and its arguments."""

    sql: str
    args: Sequence[Any] = ()


class PostgresPlan:
    """The three methods of a store, as flows over `execute_many`."""

    async def get(self, keys: Sequence[Key]) -> Sequence[Seen]:
        [rows] = await on_client("execute_many", [look(keys)])
        return found(keys, rows)

    async def swap(self, changes: Sequence[Change]) -> Sequence[Reply]:
        single = len(changes) == 1
        asked = [_write_one(changes[0])] if single else writes(changes)
        try:
            told = await on_client("execute_many", asked)
        except Unanswered:
            return [UNKNOWN] * len(changes)
        if single:
            replies = [_reply_to_one(changes[0], told[0])]
        else:
            replies = _replies(changes, told)
        lost = [at for at, reply in enumerate(replies) if reply is UNKNOWN]
        if lost:
            await self._look_at(lost, [changes[at].key for at in lost], replies)
        return replies

    async def _look_at(self, lost: Sequence[int], keys: Sequence[Key], replies: list[Reply]) -> None:
        """Put what is stored now into the replies of the losers. If it cannot be read, they stay UNKNOWN.

        The winners keep their replies either way: their write was committed and acknowledged.
        """
        try:
            [rows] = await on_client("execute_many", [look(keys)])
        except OnefoldError:
            return
        for at, seen in zip(lost, found(keys, rows), strict=True):
            replies[at] = seen

    async def scan(
        self, scope: str | None, states: Sequence[State], due: bool, after: str | None, limit: int
    ) -> tuple[Sequence[Found], str | None]:
        return await listed(states, due, after, limit, partial(_page, scope, due), str)


# ----- replies


def _replies(changes: Sequence[Change], told: Sequence[Sequence[Row]]) -> list[Reply]:
    """Return what each change left behind; UNKNOWN for a change that wrote nothing."""
    written = {row[0]: row for rows in told for row in rows}
    replies: list[Reply] = []
    for change in changes:
        row = written.get(change.key.id)
        if row is None:
            replies.append(UNKNOWN)
        elif change.entry is None:
            replies.append(NOTHING)
        else:
            replies.append(Seen(stamped(change, row[1], row[2])))
    return replies


def _reply_to_one(change: Change, rows: Sequence[Row]) -> Reply:
    """Return what a single change left behind; UNKNOWN if it wrote nothing and saw no row either."""
    if not rows:
        return UNKNOWN
    if change.entry is None:
        return NOTHING
    [row] = rows
    if change.expected is not None:
        return Seen(stamped(change, row[1], row[2]))
    if row[_STATE] is None:
        return Seen(stamped(change, row[_VERSION], row[_WRITTEN]))
    [taken] = found([change.key], rows)
    return taken


# ----- single changes


def _write_one(change: Change) -> Statement:
    """Write a single change, without arrays."""
    key, entry, expected = change.key, change.entry, change.expected
    if entry is None:
        return Statement(_SQL["remove_one"], (key.id, expected))
    wait = _wait(change, entry)
    if _only_settles(change):
        ending = (entry.state, entry.why, change.delay, change.keep, entry.body, wait)
        return Statement(_SQL["settle_one"], (*ending, key.id, expected))
    columns = (
        entry.state, entry.why, entry.token, entry.fence, entry.effect, change.begin, entry.begun,
        entry.lease, entry.attempt, change.delay, change.keep, entry.fingerprint, entry.label, entry.source,
        entry.body, wait,
    )  # fmt: skip
    if expected is None:
        return Statement(_SQL["insert_one"], (key.id, key.id, key.scope, *columns))
    return Statement(_SQL["update_one"], (*columns, key.id, expected))


def _only_settles(change: Change) -> bool:
    """Say whether a change may be written by the statements that leave the other columns alone."""
    return change.settles and change.expected is not None and not change.begin


def _wait(change: Change, entry: Entry) -> float | None:
    """Return the seconds from now until the entry is due; None for a done entry, which never is."""
    match entry.state:
        case "held":
            return entry.lease
        case "free":
            return change.delay or 0.0
        case "parked":
            return 0.0
        case _:
            return None


# ----- batches


def writes(changes: Sequence[Change]) -> list[Statement]:
    """Return the statements that write a batch, one for each kind of change in it.

    Inserts come first. A batch that still inserts holds only rows that no other batch can lock yet, so two
    batches never wait for each other in a ring.
    """
    new: list[Change] = []
    later: list[Change] = []
    ends: list[Change] = []
    gone: list[Change] = []
    for change in changes:
        if change.entry is None:
            gone.append(change)
        elif change.expected is None:
            new.append(change)
        elif _only_settles(change):
            ends.append(change)
        else:
            later.append(change)
    made = [Statement(_SQL["insert"], _columns(new))] if new else []
    if bool(later) + bool(ends) + bool(gone) > 1:
        made.append(Statement(_SQL["lock"], _versions([*later, *ends, *gone])))
    if later:
        made.append(Statement(_SQL["update"], [*_columns(later), _expected(later)]))
    if ends:
        made.append(Statement(_SQL["settle"], [*_versions(ends), *_endings(ends)]))
    if gone:
        made.append(Statement(_SQL["remove"], _versions(gone)))
    return made


# ----- arrays, as PostgreSQL writes them: made here because that is several times faster than by the driver


def _columns(changes: Sequence[Change]) -> list[str]:
    """Turn changes into the arrays that a statement takes."""
    wanted = [change.entry for change in changes if change.entry]
    return [
        _ids([change.key for change in changes]),
        _texts([change.key.scope for change in changes]),
        _texts([entry.state for entry in wanted]),
        _texts([entry.why for entry in wanted]),
        _texts([entry.token for entry in wanted]),
        _numbers([entry.fence for entry in wanted]),
        _texts([entry.effect for entry in wanted]),
        _numbers([entry.begun for entry in wanted]),
        _numbers([change.begin for change in changes]),
        _numbers([entry.lease for entry in wanted]),
        _numbers([entry.attempt for entry in wanted]),
        _numbers([change.delay for change in changes]),
        _numbers([change.keep for change in changes]),
        _texts([entry.fingerprint for entry in wanted]),
        _texts([entry.label for entry in wanted]),
        _texts([entry.source for entry in wanted]),
        _texts([entry.body for entry in wanted]),
    ]


def _endings(changes: Sequence[Change]) -> list[str]:
    """Turn endings into the arrays of the columns that they write."""
    wanted = [change.entry for change in changes if change.entry]
    return [
        _texts([entry.state for entry in wanted]),
        _texts([entry.why for entry in wanted]),
        _numbers([change.delay for change in changes]),
        _numbers([change.keep for change in changes]),
        _texts([entry.body for entry in wanted]),
        _numbers([_wait(change, change.entry) for change in changes if change.entry]),
    ]


def _versions(changes: Sequence[Change]) -> list[str]:
    """Turn changes into the arrays of their ids and expected versions."""
    return [_ids([change.key for change in changes]), _expected(changes)]


def _expected(changes: Sequence[Change]) -> str:
    return _numbers([change.expected for change in changes])


def _ids(keys: Sequence[Key]) -> str:
    return _braced([f'"\\\\x{key.id.hex()}"' for key in keys])


def _numbers(values: Sequence[float | None]) -> str:
    return _array(values, repr)


def _texts(values: Sequence[str | None]) -> str:
    return _array(values, _quoted)


def _array(values: Sequence[T | None], write: Callable[[T], str]) -> str:
    first = values[0]
    if values.count(first) == len(values):  # most columns of a batch are the same in every row
        items = ["NULL" if first is None else write(first)] * len(values)
    else:
        items = ["NULL" if value is None else write(value) for value in values]
    return _braced(items)


def _braced(items: Sequence[str]) -> str:
    return "{" + ",".join(items) + "}"


def _quoted(text: str) -> str:
    if "\\" in text or '"' in text:
        text = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{text}"'


# ----- looking


def look(keys: Sequence[Key]) -> Statement:
    """Read what is stored under these keys."""
    return Statement(_SQL["get"], [_ids(keys)])


def _page(scope: str | None, due: bool, state: State, place: Place, limit: int) -> Statement:
    after_scope, after_due, after_id = place[0], place[1], bytes.fromhex(place[2])
    if state not in OPEN:
        return Statement(_SQL["walk_done"], (after_id, scope, scope, limit))
    if scope is None:
        return Statement(_SQL["scan_open"], (state, after_scope, after_due, after_id, due, limit))
    return Statement(_SQL["scan_open_in_scope"], (state, scope, after_due, after_id, due, limit))
