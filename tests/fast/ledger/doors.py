"""Both doors behind one face, so that a scenario is written once and runs blocking and awaited.

It also has the store that loses replies. It asserts nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from onefold import AsyncLedger, Key, Ledger
from onefold.core.entry import UNKNOWN, Change, Entry, Reply, Seen, State
from onefold.core.flow import Found
from onefold.core.ports import Store
from onefold.drive import Inline
from onefold.ledger import Outcome


class Time:
    """A store's clock that stands still until told to move."""

    def __init__(self, now: float = 1_700_000_000.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


class Instant:
    """A worker's clock on which waiting takes no time: it moves on by as much at once."""

    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


class AsyncInstant(Instant):
    """The same, awaited."""

    async def monotonic(self) -> float:  # type: ignore[override]
        return self.now

    async def sleep(self, seconds: float) -> None:  # type: ignore[override]
        self.now += seconds


class Blocking:
    """The blocking door."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.ledger = Ledger(store)
        self.ledger.clock = Instant()

    def call(self, key: Key, fn: Callable[[], Any], **how: Any) -> Outcome:
        return self.ledger.call(key, fn, **how)

    def do(self, what: Any) -> Any:
        return what

    def close(self) -> None:
        self.ledger.close()


class Awaited:
    """The awaited door, on an event loop of its own."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.ledger = AsyncLedger(Inline(store))
        self.ledger.clock = AsyncInstant()
        self._runner = asyncio.Runner()

    def call(self, key: Key, fn: Callable[[], Any], **how: Any) -> Outcome:
        async def effect() -> Any:
            return fn()

        return self._runner.run(self.ledger.call(key, effect, **how))

    def do(self, what: Any) -> Any:
        async def wait() -> Any:
            return await what

        return self._runner.run(wait())

    def close(self) -> None:
        self._runner.run(self.ledger.close())
        self._runner.close()


class Losing:
    """A store that writes and then loses the reply, for as many swaps as it is told to."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.lose = 0

    def get(self, keys: Sequence[Key]) -> Sequence[Seen]:
        return self._store.get(keys)

    def swap(self, changes: Sequence[Change]) -> Sequence[Reply]:
        replies = self._store.swap(changes)
        if self.lose:
            self.lose -= 1
            return [UNKNOWN] * len(changes)
        return replies

    def scan(
        self, scope: str | None, states: Sequence[State], due: bool, after: str | None, limit: int
    ) -> tuple[Sequence[Found], str | None]:
        return self._store.scan(scope, states, due, after, limit)

    def close(self) -> None:
        self._store.close()


def stored(store: Store, key: Key) -> Entry:
    """Return what a store has under a key, asked around the ledger."""
    [seen] = store.get([key])
    assert seen.entry is not None
    return seen.entry
