"""A store and its ledger in either colour behind one face, so that one test serves both."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from onefold import AsyncLedger, Key, Ledger
from onefold.core.entry import Change, Reply, Seen
from onefold.stores import shells


class Blocking:
    """The blocking store and door."""

    def __init__(self, store: shells.Blocking) -> None:
        self.store = store
        self.ledger = Ledger(store)

    def swap(self, changes: Sequence[Change]) -> Sequence[Reply]:
        return self.store.swap(changes)

    def get(self, keys: Sequence[Key]) -> Sequence[Seen]:
        return self.store.get(keys)

    def call(self, key: Key, value: object = None, **how: Any) -> str:
        return self.ledger.call(key, lambda: value, **how).state

    def close(self) -> None:
        self.store.close()


class Awaited:
    """The awaited ones, on an event loop of their own."""

    def __init__(self, store: shells.Awaited) -> None:
        self._runner = asyncio.Runner()
        self.store = store
        self.ledger = AsyncLedger(store)

    def swap(self, changes: Sequence[Change]) -> Sequence[Reply]:
        return self._runner.run(self.store.swap(changes))

    def get(self, keys: Sequence[Key]) -> Sequence[Seen]:
        return self._runner.run(self.store.get(keys))

    def call(self, key: Key, value: object = None, **how: Any) -> str:
        async def effect() -> object:
            return value

        return self._runner.run(self.ledger.call(key, effect, **how)).state

    def close(self) -> None:
        self._runner.run(self.store.close())
        self._runner.close()
