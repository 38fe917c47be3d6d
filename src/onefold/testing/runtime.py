"""A runtime in which time is virtual and every draw comes from a seed, for workers on a virtual loop.

HTTP and websocket clients are the real ones: the loop is their network. Blocking functions run on the loop
itself, and for them no time passes. It starts no thread and no program.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from random import Random
from typing import Any, TypeVar

from onefold.core.terms import Seconds
from onefold.runtime import Runtime
from onefold.runtime.commands import Ended, NotStarted
from onefold.runtime.listener import Answer, Listener
from onefold.runtime.threads import Drawn
from onefold.testing.virtual import VirtualLoop

T = TypeVar("T")

EPOCH = 1_700_000_000.0
"""The time of day at which a virtual loop starts, in seconds since 1970."""


class VirtualRuntime(Runtime):
    """The runtime of one worker on a virtual loop; each worker of a simulation has one of its own."""

    inline = True
    proxies = False  # of the machine that runs the simulation; its network has none

    def __init__(self, loop: VirtualLoop, seed: object = 0, began: float = EPOCH) -> None:
        super().__init__()
        self.ahead = 0.0
        """Seconds by which this worker's time of day is ahead of the true one; monotonic time never jumps."""
        self.loop: VirtualLoop = loop
        self._began = began
        self._random = Random(f"runtime {seed}")
        self._seed = seed
        self._others = 0

    def another(self) -> VirtualRuntime:
        self._others += 1
        return VirtualRuntime(self.loop, f"{self._seed} {self._others}", self._began)

    def time(self) -> float:
        return self._began + self.loop.time() + self.ahead

    def monotonic(self) -> float:
        return self.loop.time()

    def wait(self, seconds: Seconds) -> None:
        """Let virtual time pass; on the running loop nothing may block."""
        if self.loop.is_running():
            raise RuntimeError(
                f"something blocks for {seconds:g} s, but a virtual clock stands still meanwhile"
            )
        self.loop.run_until_complete(asyncio.sleep(seconds))

    def random(self) -> float:
        return self._random.random()

    def tokens(self, count: int) -> list[str]:
        return [self.token() for _ in range(count)]

    def token(self) -> str:
        return f"{self._random.getrandbits(128):032x}"

    async def blocking(self, function: Callable[..., T], *args: Any, linger: Seconds = 0.0) -> T:
        """Call the function here; other tasks get their turn before and after it, as with a thread."""
        await asyncio.sleep(0)
        result = function(*args)
        await asyncio.sleep(0)
        return result

    def drawn(self, items: Iterable[T], most: int) -> Drawn[T]:
        return _DrawnHere(items, most)

    def listener(self, host: str, port: int) -> Listener:
        return _ListenerHere(self.loop, host, port)

    async def command(
        self, program: Sequence[str], text: str, variables: Mapping[str, str], within: Seconds
    ) -> Ended:
        raise NotStarted(f"{program[0]} is not started: a simulation runs no programs")


class _ListenerHere(Listener):
    """A port on the network of the loop."""

    def __init__(self, loop: VirtualLoop, host: str, port: int) -> None:
        self._server = loop.network.bind(asyncio.Protocol, host, port)

    @property
    def address(self) -> tuple[str, int]:
        return self._server.addresses[0]

    async def serve(self, answer: Answer, longest: int) -> None:
        self.close()  # the server of the streams takes the port over before anybody else can
        async with await asyncio.start_server(answer, *self.address, limit=longest) as server:
            await server.serve_forever()

    def close(self) -> None:
        self._server.close()


class _DrawnHere(Drawn[T]):
    """Iterates on the loop; an item is given as soon as it is there."""

    async def come(self) -> AsyncGenerator[list[T], None]:
        try:
            for item in self._items:
                await asyncio.sleep(0)
                yield [item]
        finally:
            close = getattr(self._items, "close", None)
            if close:
                close()
            self.ended.set()
