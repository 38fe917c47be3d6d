"""What a process needs from outside itself: time, chance, tokens, threads, connections and programs.

`current()` is the runtime of the running code. In production that is the real one; a simulation puts another
in its place, in which time is virtual and every draw comes from a seed. Nothing in the worker, in sources,
sinks, tables, the ledger or the applications waits, draws or connects in any other way; a test over their
syntax trees enforces that. A runtime decides nothing: it has no opinion about keys, retries or answers.

It travels in a context variable, like the running event loop (docs/decisions/0037). A pipeline is made before
any worker exists, and its functions are plain functions: there is no constructor to pass a runtime to.
"""

from __future__ import annotations

import random
import time
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from contextvars import ContextVar
from os import urandom
from typing import TYPE_CHECKING, Any, Self, TypeVar

from onefold.core.errors import Misconfigured
from onefold.core.terms import Seconds

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop, StreamReader, StreamWriter

    from onefold.runtime.commands import Ended
    from onefold.runtime.http import Answer, Ask, Clients
    from onefold.runtime.listener import Listener
    from onefold.runtime.threads import Drawn
    from onefold.runtime.websocket import Connection, Opening

T = TypeVar("T")


CLOSING: Seconds = 2.0
"""The longest that the end of a worker waits for its HTTP connections to close."""


class Runtime:
    """The real one: the clocks of this machine, its random numbers, threads, sockets and programs."""

    inline = False
    """Whether blocking functions run on the event loop itself, because time stands still meanwhile."""

    loop: AbstractEventLoop | None = None
    """The event loop that beats for blocking ledgers, if time is virtual; else a thread does."""

    proxies = True
    """Whether connections go through the proxies that the environment names."""

    def __init__(self) -> None:
        self._clients: Clients | None = None

    def another(self) -> Runtime:
        """Return a runtime of the same kind, for one more worker."""
        return Runtime()

    # ----- time

    def time(self) -> float:
        """Return the time of day, in seconds since 1970."""
        return time.time()

    def monotonic(self) -> float:
        """Return this process's monotonic time, in seconds."""
        return time.monotonic()

    async def sleep(self, seconds: Seconds) -> None:
        """Let time pass, awaiting."""
        import asyncio  # here: a command that blocks need not pay for it

        await asyncio.sleep(seconds)

    def wait(self, seconds: Seconds) -> None:
        """Let time pass, blocking."""
        time.sleep(seconds)

    # ----- chance

    def random(self) -> float:
        """Draw a number from 0 to 1, for pauses that must differ between workers."""
        return random.random()

    def uniform(self, least: float, most: float) -> float:
        """Draw a number between two others."""
        return least + (most - least) * self.random()

    def tokens(self, count: int) -> list[str]:
        """Draw tokens for attempts, from the system's generator.

        Nothing is drawn in advance: a process that is forked, or restored twice from one snapshot, would use
        a token twice, and two workers would both believe that they had won. One draw for a batch costs a
        tenth of one for each token.
        """
        drawn = urandom(16 * count).hex()
        return [drawn[at : at + 32] for at in range(0, 32 * count, 32)]

    def token(self) -> str:
        """Draw one token."""
        return urandom(16).hex()

    # ----- threads and programs

    async def blocking(self, function: Callable[..., T], *args: Any, linger: Seconds = 0.0) -> T:
        """Run a blocking function in a thread; a cancelled caller waits for it for `linger` seconds."""
        from onefold.runtime.threads import in_thread

        return await in_thread(function, *args, linger=linger)

    def drawn(self, items: Iterable[T], most: int) -> Drawn[T]:
        """Iterate over blocking items in a thread, and give what has come, at most `most` at a time."""
        from onefold.runtime.threads import Drawn

        return Drawn(items, most)

    async def command(
        self, program: Sequence[str], text: str, variables: Mapping[str, str], within: Seconds
    ) -> Ended:
        """Run a program to its end, with a text on its standard input; kill it if it takes longer."""
        from onefold.runtime.commands import run

        return await self.blocking(run, program, text, variables, within)

    # ----- the network

    async def http(self, ask: Ask) -> Answer:
        """Send one HTTP request, once, and return the answer."""
        from onefold.runtime.http import Clients, exchange

        if self._clients is not None:
            return await exchange(self._clients, ask)
        # Outside of a worker nobody would close what is kept.
        clients = Clients(self.proxies)
        try:
            return await exchange(clients, ask)
        finally:
            await clients.aclose()

    async def websocket(self, opening: Opening) -> Connection:
        """Open a websocket."""
        from onefold.runtime.websocket import connect

        return await connect(opening, self.proxies)

    async def stream(self, host: str, port: int, longest: int) -> tuple[StreamReader, StreamWriter]:
        """Open a connection for a stream of bytes, whose lines have at most `longest` of them."""
        import asyncio

        return await asyncio.open_connection(host, port, limit=longest)

    def listener(self, host: str, port: int) -> Listener:
        """Take a port, to be served later; port 0 takes any. One that is in use raises OSError."""
        from onefold.runtime.listener import Listener

        return Listener(host, port)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[Self]:
        """Be the runtime of everything inside the block, and keep HTTP connections until its end."""
        from anyio import move_on_after

        from onefold.runtime.http import Clients

        if self._clients is not None:
            raise Misconfigured("this runtime runs a worker already: give each worker a runtime of its own")
        self._clients = clients = Clients(self.proxies)
        try:
            with using(self):
                yield self
        finally:
            self._clients = None
            # Perhaps the caller was cancelled: connections are closed all the same, and quickly.
            with move_on_after(CLOSING, shield=True):
                await clients.aclose()


_CURRENT: ContextVar[Runtime] = ContextVar("onefold_runtime", default=Runtime())  # noqa: B039  (it keeps nothing)


def current() -> Runtime:
    """Return the runtime of the running code; outside of a worker it is the real one."""
    return _CURRENT.get()


@contextmanager
def using(runtime: Runtime) -> Iterator[None]:
    """Put another runtime in the place of the current one, for this block and the tasks it starts."""
    before = _CURRENT.set(runtime)
    try:
        yield
    finally:
        _CURRENT.reset(before)


def now() -> float:
    """Return the time of day by the current runtime: the default of every `clock=`."""
    return _CURRENT.get().time()


def monotonic() -> float:
    """Return the monotonic time by the current runtime."""
    return _CURRENT.get().monotonic()


__all__ = ["Runtime", "current", "monotonic", "now", "using"]
