"""The few words that promises are written in: an entry, a write that must win, a look, a walk."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from onefold.core.entry import Change, Entry, Reply, Seen, State, Unknown
from onefold.core.flow import Found, get, scan, swap
from onefold.core.key import Key

SPAN = 0.1
"""Seconds that a promise lets pass; short, because some stores read a real clock."""

LONG = 3600.0
"""Seconds that will not have passed."""

SCOPE = "contract"
ALL: tuple[State, ...] = ("free", "held", "done", "parked")


def key(*parts: str | int, scope: str = SCOPE) -> Key:
    """Name a key of the promise at hand."""
    return Key(scope, *parts)


def keys(count: int, scope: str = SCOPE) -> list[Key]:
    """Name several keys, in the order that a store wants them."""
    return sorted((Key(scope, number) for number in range(count)), key=lambda key: key.id)


def entry(state: State = "held", token: str = "ann", lease: float = LONG, **fields: Any) -> Entry:
    """Say what a caller asks for."""
    return Entry(state, token=token, lease=lease, why="failed" if state == "parked" else None, **fields)


def in_order(changes: Iterable[Change]) -> list[Change]:
    """Sort changes as a store wants them."""
    return sorted(changes, key=lambda change: change.key.id)


async def send(changes: Sequence[Change]) -> list[Seen]:
    """Try changes on a store that answers."""
    return [_told(reply) for reply in await swap(changes)]


def _told(reply: Reply) -> Seen:
    assert not isinstance(reply, Unknown), "without a fault, a store knows what it has stored"
    return reply


async def tell(change: Change) -> Seen:
    """Try one change; hear what is stored afterwards."""
    [reply] = await send([change])
    return reply


async def put(key: Key, wanted: Entry, expected: int | None = None, **asked: Any) -> Entry:
    """Write an entry that nothing stands against; return it as stored."""
    seen = await tell(Change(key, expected, wanted, **asked))
    assert seen.entry is not None, "the write was refused"
    assert seen.entry.token == wanted.token, "the write was refused"
    return seen.entry


async def look(key: Key) -> Seen:
    """Read one key."""
    [seen] = await get([key])
    return seen


async def stored(key: Key) -> Entry:
    """Read one key that must be there."""
    seen = await look(key)
    assert seen.entry is not None, "the entry is not there"
    return seen.entry


async def walk(
    scope: str | None, states: Sequence[State] = ALL, due: bool = False, limit: int = 1000
) -> list[Found]:
    """Read all pages of a scan."""
    found: list[Found] = []
    after: str | None = None
    while True:
        page, after = await scan(scope, states, due, after, limit)
        assert len(page) <= limit, "a page is larger than was asked"
        found += page
        if after is None:
            return found


def ids(found: Iterable[Found]) -> list[bytes]:
    """Name what a scan found, in an order of our own."""
    return sorted(key.id for key, _ in found)
