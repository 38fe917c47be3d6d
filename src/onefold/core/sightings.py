"""What this process has seen of other holders, and for how long.

A store's clock may jump back, or be missing; then a dead holder would look alive for ever. Whoever
has watched one version for a whole lease, by its own monotonic clock, knows better. Bounded: what
is forgotten only makes a take-over later, never earlier.
"""

from __future__ import annotations

from collections.abc import Sequence

from onefold.core.entry import UNKNOWN, Change, Reply, Seen

LIMIT = 10_000


class Sightings:
    """Remembers when each version of somebody else's claim was first seen."""

    def __init__(self, limit: int = LIMIT) -> None:
        self._limit = limit
        self._first: dict[bytes, tuple[int, float]] = {}

    def judge(self, changes: Sequence[Change], replies: Sequence[Reply], now: float) -> Sequence[Reply]:
        """Raise `idle` in the replies to what this process itself has watched."""
        judged = list(replies)
        for at in of_others(changes, replies):
            judged[at] = self._watched(changes[at].key.id, replies[at], now)
        return judged

    def _watched(self, id: bytes, reply: Reply, now: float) -> Reply:
        assert isinstance(reply, Seen)
        assert reply.entry is not None
        version, since = self._first.get(id, (0, now))
        if version != reply.entry.version:
            since = now
            self._first.pop(id, None)
            self._first[id] = (reply.entry.version, now)
            if len(self._first) > self._limit:
                del self._first[next(iter(self._first))]
        # What was watched is certain, however far apart the clocks of writers and readers are.
        return Seen(reply.entry, max(reply.idle, now - since + reply.skew), reply.skew)


def of_others(changes: Sequence[Change], replies: Sequence[Reply]) -> list[int]:
    """Say which replies show a claim of somebody else's."""
    found = []
    for at, reply in enumerate(replies):
        if reply is UNKNOWN or (stored := reply.entry) is None or stored.state != "held":
            continue
        wanted = changes[at].entry
        if wanted is not None and stored.token != wanted.token:
            found.append(at)
    return found
