"""Blocking stores, for awaiting: in threads, or at once where they never block for long.

They hand calls on and add nothing: no retry, no queue, no decision.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from onefold.core.entry import Change, Reply, Seen, State
from onefold.core.flow import Found
from onefold.core.key import Key
from onefold.core.ports import Store

T = TypeVar("T")


class Threaded:
    """A blocking store for awaiting: calls run in threads, to their end, even if the caller is cancelled."""

    def __init__(self, store: Store) -> None:
        self.store = store

    async def get(self, keys: Sequence[Key]) -> Sequence[Seen]:
        return await _in_thread(self.store.get, keys)

    async def swap(self, changes: Sequence[Change]) -> Sequence[Reply]:
        return await _in_thread(self.store.swap, changes)

    async def scan(
        self, scope: str | None, states: Sequence[State], due: bool, after: str | None, limit: int
    ) -> tuple[Sequence[Found], str | None]:
        return await _in_thread(self.store.scan, scope, states, due, after, limit)

    async def close(self) -> None:
        await _in_thread(self.store.close)


class Inline:
    """A store that never blocks for long, for awaiting: memory, or the caller's own connection."""

    def __init__(self, store: Store) -> None:
        self.store = store

    async def get(self, keys: Sequence[Key]) -> Sequence[Seen]:
        return self.store.get(keys)

    async def swap(self, changes: Sequence[Change]) -> Sequence[Reply]:
        return self.store.swap(changes)

    async def scan(
        self, scope: str | None, states: Sequence[State], due: bool, after: str | None, limit: int
    ) -> tuple[Sequence[Found], str | None]:
        return self.store.scan(scope, states, due, after, limit)

    async def close(self) -> None:
        self.store.close()


async def _in_thread(function: Callable[..., T], *args: Any) -> T:
    import anyio.to_thread

    return await anyio.to_thread.run_sync(function, *args)
