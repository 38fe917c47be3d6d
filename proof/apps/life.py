"""One life of one worker: its runtime, its view of the store, and the way it ends.

A life ends before or after any call on the store, on a service or in a thread, or at any moment. From then on
none of its calls is answered and none of its bytes arrives, as after a kill; what is left of its tasks can
change nothing. It decides nothing about the application.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from onefold.core.entry import UNKNOWN, Change, Reply, Seen, State
from onefold.core.errors import Unreachable
from onefold.core.flow import Found
from onefold.core.key import Key
from onefold.core.ports import Store
from onefold.core.terms import Seconds
from onefold.runtime.http import Answer, Ask
from onefold.testing.runtime import VirtualRuntime

if TYPE_CHECKING:
    from onefold.runtime.websocket import Connection, Opening
    from proof.apps.history import History

T = TypeVar("T")


class Life(VirtualRuntime):
    """The runtime of a worker that may die."""

    def __init__(self, history: History, name: str, dies_at: int | None) -> None:
        super().__init__(history.loop, f"{history.seed} {name}", history.part.began)
        self.name = name
        self.died = asyncio.Event()
        self._history = history
        self._left = dies_at

    @property
    def is_dead(self) -> bool:
        return self.died.is_set()

    def die(self, where: str) -> None:
        """End this life: cut its connections, and answer nothing any more."""
        self.died.set()
        self._history.say(f"{self.name} dies {where}")
        self._history.loop.network.abandon(self, silently=self._history.random.random() < 0.5)

    async def step(self, what: str) -> None:
        """Come to a point at which this life may end."""
        if not self.is_dead and self._left is not None:
            self._left -= 1
            if self._left == 0:
                self.die(what)
        if self.is_dead:
            await asyncio.get_running_loop().create_future()

    # ----- everything that leaves the process

    async def http(self, ask: Ask) -> Answer:
        await self.step(f"before {ask.method}")
        answer = await super().http(ask)
        await self.step(f"after {ask.method}")
        return answer

    async def websocket(self, opening: Opening) -> Connection:
        await self.step("before it opens a websocket")
        connection = await super().websocket(opening)
        await self.step("after it opened a websocket")
        return connection

    async def stream(
        self, host: str, port: int, longest: int
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        await self.step("before it opens a connection")
        streams = await super().stream(host, port, longest)
        await self.step("after it opened a connection")
        return streams

    async def blocking(self, function: Callable[..., T], *args: Any, linger: Seconds = 0.0) -> T:
        await self.step("before a blocking call")
        result = await super().blocking(function, *args, linger=linger)
        await self.step("after a blocking call")
        return result


class View:
    """The shared store as one life sees it: late, away at times, and silent after its death."""

    def __init__(self, history: History, life: Life, store: Store) -> None:
        self._history = history
        self._life = life
        self._store = store

    async def get(self, keys: Sequence[Key]) -> Sequence[Seen]:
        await self._reach("get")
        seen = self._store.get(keys)
        self._history.noted(self._life.name, "get", keys, seen)
        return seen

    async def swap(self, changes: Sequence[Change]) -> Sequence[Reply]:
        await self._reach("swap")
        replies = self._store.swap(changes)
        if self._history.swapped(self._life.name, changes, replies) and not self._life.is_dead:
            self._life.die("right after it wrote this")
        await self._life.step("after swap")
        if self._history.loses_a_reply():
            self._history.say(f"{self._life.name} hears nothing of it")
            return [UNKNOWN] * len(changes)
        return replies

    async def scan(
        self, scope: str | None, states: Sequence[State], due: bool, after: str | None, limit: int
    ) -> tuple[Sequence[Found], str | None]:
        await self._reach("scan")
        found, following = self._store.scan(scope, states, due, after, limit)
        self._history.noted(self._life.name, "scan", [key for key, _ in found], [seen for _, seen in found])
        return found, following

    async def close(self) -> None:
        """The store outlives its workers."""

    async def _reach(self, what: str) -> None:
        await self._life.step(f"before {what}")
        await asyncio.sleep(self._history.latency())
        if self._life.is_dead:
            await asyncio.get_running_loop().create_future()
        if self._history.is_away():
            self._history.say(f"{self._life.name} cannot reach the store")
            raise Unreachable("the store is away")
