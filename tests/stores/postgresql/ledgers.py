"""Stores and ledgers on PostgreSQL in both colours behind one face, and words to look around them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from typing import Any

import pytest

from onefold import AsyncLedger, Key, Ledger
from onefold.core.entry import Change, Entry, Reply, Seen
from onefold.stores import shells
from onefold.stores.postgresql.client import AsyncClient, Client
from onefold.stores.postgresql.plan import PostgresPlan
from tests.servers.fixtures import OwnServer
from tests.servers.server import Launched
from tests.stores.callers import Caller, option

__all__ = ["Awaited", "Blocking", "Caller", "inserts", "launched", "option", "token"]

PASSWORD = "only-for-tests"


class Blocking:
    """The blocking store and door."""

    def __init__(self, url: str, **how: Any) -> None:
        self.store = shells.Blocking(PostgresPlan(), Client(url, **how))
        self.ledger = Ledger(self.store)

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

    def __init__(self, url: str, **how: Any) -> None:
        self._runner = asyncio.Runner()
        self.store = shells.Awaited(PostgresPlan(), AsyncClient(url, **how))
        self.ledger = AsyncLedger(self.store)

    def swap(self, changes: Sequence[Change]) -> Sequence[Reply]:
        return self._runner.run(self._await(self.store.swap(changes)))

    def get(self, keys: Sequence[Key]) -> Sequence[Seen]:
        return self._runner.run(self._await(self.store.get(keys)))

    def call(self, key: Key, value: object = None, **how: Any) -> str:
        async def effect() -> object:
            return value

        return self._runner.run(self.ledger.call(key, effect, **how)).state

    async def _await(self, what: Any) -> Any:
        return await what

    def close(self) -> None:
        self._runner.run(self._await(self.store.close()))
        self._runner.close()


def inserts(keys: Iterable[Key], **fields: Any) -> list[Change]:
    """Claim keys, in the order that a store wants."""
    wanted = Entry("held", token="ann", lease=60.0, **fields)
    return [Change(key, None, wanted) for key in sorted(keys, key=lambda key: key.id)]


def token(reply: Reply) -> str | None:
    """Say whose write stands."""
    assert isinstance(reply, Seen)
    return reply.entry.token if reply.entry else None


def launched(own_server: OwnServer) -> Launched:
    """Return a server that only this test has, and may do anything to."""
    server = own_server("postgresql")
    if not isinstance(server, Launched):
        pytest.skip("only a server of our own is stopped, changed or filled")
    return server
