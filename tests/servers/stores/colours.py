"""A store and its ledger in either colour behind one face, so that one test serves both."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing
from typing import Any, ClassVar

import pytest

from onefold import AsyncLedger, Key, Ledger
from onefold.core.entry import Change, Reply, Seen
from onefold.stores import shells


class Blocking:
    """The blocking store and door."""

    statement: ClassVar[Any]
    """How the store's client is asked for one of SQL."""

    def __init__(self, store: shells.Blocking) -> None:
        self.store = store
        self.ledger = Ledger(store)

    def swap(self, changes: Sequence[Change]) -> Sequence[Reply]:
        return self.store.swap(changes)

    def get(self, keys: Sequence[Key]) -> Sequence[Seen]:
        return self.store.get(keys)

    def call(self, key: Key, value: object = None, **how: Any) -> str:
        return self.ledger.call(key, lambda: value, **how).state

    def ask(self, sql: str) -> list[shells.Row]:
        [rows] = self.store.client.execute_many([self.statement(sql)])
        return list(rows)

    def close(self) -> None:
        self.store.close()


class Awaited:
    """The awaited ones, on an event loop of their own."""

    statement: ClassVar[Any]

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

    def ask(self, sql: str) -> list[shells.Row]:
        [rows] = self._runner.run(self.store.client.execute_many([self.statement(sql)]))
        return list(rows)

    def close(self) -> None:
        self._runner.run(self.store.close())
        self._runner.close()


def opened_in(blocking: Callable[..., Blocking], awaited: Callable[..., Awaited]) -> Any:
    """Make a fixture that opens stores in either colour; they are closed at the end."""

    @pytest.fixture(params=[blocking, awaited], ids=["blocking", "awaited"], name="opened")
    def opened(request: pytest.FixtureRequest) -> Iterator[Callable[..., Any]]:
        with ExitStack() as stack:
            yield lambda url, **how: stack.enter_context(closing(request.param(url, **how)))

    return opened
