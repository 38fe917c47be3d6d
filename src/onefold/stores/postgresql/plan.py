"""What the PostgreSQL store asks of a connection: batches as arrays, and then what is stored.

An upsert that returns its rows tells racing losers "nothing stored"; so the write comes first and a look
follows it, in the same pipeline. The server's clock sets versions and times. Nothing is decided here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple, TypeVar

from onefold.core.entry import OPEN, UNKNOWN, Change, Reply, Seen, State
from onefold.core.errors import Unanswered
from onefold.core.flow import Found
from onefold.core.key import Key
from onefold.stores.rows import Place, found, listed
from onefold.stores.shells import on_client
from onefold.stores.sql import statements

T = TypeVar("T")

_SQL = statements("postgresql")


class Statement(NamedTuple):
    """One statement and its arguments."""

    sql: str
    args: Sequence[Any] = ()


class PostgresPlan:
    """The three methods of a store, as flows over `execute_many`.

    `before` and `after` stand around every write, inside its pipeline.
    """

    def __init__(self, before: Sequence[Statement] = (), after: Sequence[Statement] = ()) -> None:
        self._before = before
        self._after = after

    async def get(self, keys: Sequence[Key]) -> Sequence[Seen]:
        [rows] = await on_client("execute_many", [_look(keys)])
        return found(keys, rows)

    async def swap(self, changes: Sequence[Change]) -> Sequence[Reply]:
        keys = [change.key for change in changes]
        asked = [*self._before, *_writes(changes), _look(keys)]
        try:
            replies = await on_client("execute_many", [*asked, *self._after])
        except Unanswered:
            return [UNKNOWN] * len(changes)
        return found(keys, replies[len(asked) - 1])

    async def scan(
        self, scope: str | None, states: Sequence[State], due: bool, after: str | None, limit: int
    ) -> tuple[Sequence[Found], str | None]:
        return await listed(states, due, after, limit, partial(_page, scope, due), str)


def _writes(changes: Sequence[Change]) -> list[Statement]:
    """Sort changes out by the statement that makes them."""
    new = [change for change in changes if change.expected is None and change.entry]
    later = [change for change in changes if change.expected is not None and change.entry]
    gone = [change for change in changes if change.entry is None]
    writes = []
    if new:
        writes.append(Statement(_SQL["insert"], _columns(new)))
    if later:
        writes.append(Statement(_SQL["update"], [*_columns(later), _versions(later)]))
    if gone:
        writes.append(Statement(_SQL["remove"], [_ids([change.key for change in gone]), _versions(gone)]))
    return writes


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


def _versions(changes: Sequence[Change]) -> str:
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


def _look(keys: Sequence[Key]) -> Statement:
    return Statement(_SQL["get"], [_ids(keys)])


def _page(scope: str | None, due: bool, state: State, place: Place, limit: int) -> Statement:
    after_scope, after_due, after_id = place[0], place[1], bytes.fromhex(place[2])
    if state not in OPEN:
        return Statement(_SQL["walk_done"], (after_id, scope, scope, limit))
    if scope is None:
        return Statement(_SQL["scan_open"], (state, after_scope, after_due, after_id, due, limit))
    return Statement(_SQL["scan_open_in_scope"], (state, scope, after_due, after_id, due, limit))
