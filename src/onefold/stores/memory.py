"""Entries in this process's memory: for tests, and the yardstick that every other store is compared with.

It forgets everything at exit, and it is the plainest statement of what `swap` means.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence

from onefold.core.entry import NOTHING, Change, Entry, Reply, Seen, State, due, expired, stamped
from onefold.core.errors import Misconfigured
from onefold.core.flow import Found
from onefold.core.key import Key
from onefold.drive import Inline
from onefold.drive.guard import Guard
from onefold.runtime import now


class MemoryStore:
    """A dictionary with one atomic write. `clock` is its clock, in seconds since 1970."""

    def __init__(self, clock: Callable[[], float] = now) -> None:
        self._clock = clock
        self._guard = Guard()
        self._entries: dict[bytes, tuple[Key, Entry]] = {}
        self._open: dict[bytes, None] = {}

    def get(self, keys: Sequence[Key]) -> Sequence[Seen]:
        now = self._clock()
        with self._guard:
            return [self._seen(key.id, now) for key in keys]

    def swap(self, changes: Sequence[Change]) -> Sequence[Reply]:
        now = self._clock()
        with self._guard:
            return [self._try(change, now) for change in changes]

    def _try(self, change: Change, now: float) -> Seen:
        id = change.key.id
        stored = self._entries.get(id)
        if (stored[1].version if stored else None) != change.expected:
            return self._seen(id, now)
        if change.entry is None:
            if stored and expired(stored[1], now):
                del self._entries[id]
            return self._seen(id, now)
        version = int(now * 1_000_000) if change.expected is None else change.expected + 1
        entry = stamped(change, version, now)
        self._entries[id] = (change.key, entry)
        if entry.state == "done":
            self._open.pop(id, None)
        else:
            self._open[id] = None
        return Seen(entry)

    def _seen(self, id: bytes, now: float) -> Seen:
        stored = self._entries.get(id)
        return Seen(stored[1], max(now - stored[1].written, 0.0)) if stored else NOTHING

    def scan(
        self, scope: str | None, states: Sequence[State], due: bool, after: str | None, limit: int
    ) -> tuple[Sequence[Found], str | None]:
        now = self._clock()
        with self._guard:
            ids = sorted(self._entries if "done" in states else self._open)
            start = bisect_right(ids, bytes.fromhex(after)) if after else 0
            found: list[Found] = []
            for id in ids[start:]:
                key, entry = self._entries[id]
                if entry.state in states and scope in (None, key.scope) and (not due or _is_due(entry, now)):
                    found.append((key, self._seen(id, now)))
                    if len(found) == limit:
                        return found, id.hex()
            return found, None

    def close(self) -> None:
        """Nothing to let go of: the entries last as long as the object."""


def _is_due(entry: Entry, now: float) -> bool:
    at = due(entry)
    return at is not None and at <= now


def connect(url: str, create: bool = True) -> MemoryStore:
    """Return a new, empty store; `memory:` has nothing to connect to and nothing to create."""
    if url not in ("memory:", "memory://"):
        raise Misconfigured(f"{url!r} says more than a store in memory can be told: write memory:")
    return MemoryStore()


def aconnect(url: str, create: bool = True) -> Inline:
    """Return a new, empty store for awaiting."""
    return Inline(connect(url, create))


def ddl() -> str:
    """Return the schema: memory has none."""
    return ""
