"""A right store, taken apart into steps, so that a wrong one can get one of them wrong.."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec.structs import replace

from onefold.core.entry import Change, Entry, Reply, Seen, State
from onefold.core.flow import Found
from onefold.core.key import Key
from onefold.stores.memory import MemoryStore

Page = tuple[Sequence[Found], str | None]
EVERYTHING = 1_000_000


class Right(MemoryStore):
    """A right store in steps: which key, what is really tried, what is said, what is shown."""

    def __init__(self, clock: Callable[[], float]) -> None:
        super().__init__(clock)
        self.clock = clock

    def swap(self, changes: Sequence[Change]) -> Sequence[Reply]:
        return [self.one(change) for change in changes]

    def one(self, change: Change) -> Seen:
        tried = self.wanted(replace(change, key=self.named(change.key)))
        return self.shown(tried.key, self.told(change, self.tried(tried)))

    def get(self, keys: Sequence[Key]) -> Sequence[Seen]:
        return [
            self.shown(key, seen) for key in map(self.named, keys) for seen in MemoryStore.get(self, [key])
        ]

    def scan(
        self, scope: str | None, states: Sequence[State], due: bool, after: str | None, limit: int
    ) -> Page:
        found, after = super().scan(scope, states, due, after, limit)
        return [(key, self.shown(key, seen)) for key, seen in found], after

    # ----- the steps

    def named(self, key: Key) -> Key:
        return key

    def wanted(self, change: Change) -> Change:
        return change

    def told(self, change: Change, seen: Seen) -> Seen:
        return seen

    def shown(self, key: Key, seen: Seen) -> Seen:
        return seen

    # ----- what the steps ask

    def tried(self, change: Change) -> Seen:
        [reply] = super().swap([change])
        assert isinstance(reply, Seen)
        return reply

    def stored(self, key: Key) -> Entry | None:
        [seen] = super().get([key])
        return seen.entry

    def version(self, key: Key) -> int | None:
        entry = self.stored(key)
        return entry.version if entry else None

    def all(self, scope: str | None, states: Sequence[State], due: bool) -> list[Found]:
        return list(Right.scan(self, scope, states, due, None, EVERYTHING)[0])


class Clockless(Right):
    """A right store that has no clock: its workers' clocks stand in for it, and may differ."""

    max_skew = 60.0

    def shown(self, key: Key, seen: Seen) -> Seen:
        return replace(seen, skew=self.max_skew) if seen.entry else seen
