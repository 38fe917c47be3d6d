"""How a stand-in listens: in a background thread on loopback, or on the event loop of its clients.

`with stand_in:` serves real sockets from a thread with its own event loop, and calls routes in more threads,
because a route may block. `async with stand_in:` serves on the running loop, calls everything there, and uses
no thread, no blocking socket and no clock but the loop's. Inside of `on(loop)`, `with stand_in:` serves on
that loop, too. The code of a stand-in is the same for all. This module must not know any protocol.
"""

from __future__ import annotations

import asyncio
import socket
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from types import TracebackType
from typing import Any, Protocol, Self, TypeVar

T = TypeVar("T")

# With a shorter queue, a burst of connections is reset or greeted late, which no test asked for.
BACKLOG = 256
LONGEST = 2**20
"""The longest line that a stream of bytes may hold."""
TURNS = 10
"""More turns of a loop than asyncio needs to accept a connection, or to close one."""
THREADS = 64
"""How many routes of one stand-in may block at the same time, if it serves from a background thread."""


_SHARED: ContextVar[asyncio.AbstractEventLoop | None] = ContextVar("onefold_serving_on", default=None)


@contextmanager
def on(loop: asyncio.AbstractEventLoop) -> Iterator[None]:
    """Let every `with stand_in:` of this block serve on a loop that clients run, such as a virtual one."""
    before = _SHARED.set(loop)
    try:
        yield
    finally:
        _SHARED.reset(before)


class Listening(Protocol):
    """A server of asyncio or of websockets."""

    @property
    def sockets(self) -> tuple[socket.socket, ...]: ...
    def close(self) -> None: ...
    async def wait_closed(self) -> None: ...


class StandIn(ABC):
    """Listens on one port and remembers every connection, so that it can cut them all when it stops."""

    def __init__(self) -> None:
        self._host, self._port = "127.0.0.1", 0
        self._socket: socket.socket | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._listening: Listening | None = None
        self._background: _Background | None = None
        # Not a set: the order in which connections are cut must not depend on addresses in memory.
        self._talks: dict[asyncio.Task[Any], asyncio.WriteTransport] = {}

    @abstractmethod
    async def _listen(self, **where: Any) -> Listening:
        """Start a server; `where` goes to `loop.create_server`."""

    # ----- where

    def at(self, host: str, port: int) -> Self:
        """Listen at this address instead of a free port of 127.0.0.1. Call it before serving."""
        self._host, self._port = host, port
        return self

    @property
    def port(self) -> int:
        """The port. Before serving, this binds a real socket to a free one: `with` uses it afterwards."""
        if not self._port:
            self._bind()
        return self._port

    @property
    def address(self) -> str:
        return f"{self._host}:{self.port}"

    @property
    @abstractmethod
    def url(self) -> str:
        """What a client connects to."""

    @property
    def running(self) -> bool:
        """Whether clients can connect."""
        return self._loop is not None

    def _bind(self) -> socket.socket:
        if self._socket is None:
            self._socket = socket.create_server((self._host, self._port), backlog=BACKLOG)
            self._port = self._socket.getsockname()[1]
        return self._socket

    # ----- from a background thread, or on the loop of its clients

    def __enter__(self) -> Self:
        shared = _SHARED.get()
        if shared is not None:
            self._refuse_a_socket()
            _complete(shared, self._start(host=self._host, port=self._port))
            return self
        where = self._bind()
        self._background = _Background(type(self).__name__)
        try:
            self._background.run(self._start(sock=where))
        except BaseException:
            self._leave()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._background:
            self._background.run(self._end())
            self._leave()
        elif self._loop and self._loop.is_running():
            self._hang_up()
            self._listening = None
        elif self._loop:
            self._loop.run_until_complete(self._end())

    def _leave(self) -> None:
        background, self._background = self._background, None
        bound, self._socket = self._socket, None
        if background:
            background.close()
        if bound:
            bound.close()

    # ----- on the running loop

    async def __aenter__(self) -> Self:
        self._refuse_a_socket()
        await self._start(host=self._host, port=self._port)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._end()

    # ----- on the loop, whichever it is

    async def _start(self, **where: Any) -> None:
        self._loop = asyncio.get_running_loop()
        try:
            self._listening = await self._listen(backlog=BACKLOG, **where)
        except BaseException:
            self._loop = None
            raise
        self._port = self._port or self._listening.sockets[0].getsockname()[1]

    def _refuse_a_socket(self) -> None:
        if self._socket:
            self._leave()
            raise RuntimeError(
                f"the URL of {type(self).__name__} was read before it served, which bound a real socket: "
                "read it inside of the block, or give an address with at()"
            )

    def _hang_up(self) -> None:
        """Cut every connection and stop listening, without waiting for tasks to end."""
        self._loop = None
        for task, transport in self._talks.items():
            transport.abort()
            task.cancel()
        if self._listening:
            # After the connections: a server of websockets says goodbye to those that are still open.
            self._listening.close()

    async def _end(self) -> None:
        if self._loop and self._socket:
            # asyncio loses a connection that it accepts in the moment in which its server closes.
            self._loop.remove_reader(self._socket)
            await asyncio.sleep(0)
        if self.running:
            self._hang_up()
        while self._talks:
            await asyncio.gather(*self._talks, return_exceptions=True)
        if self._listening:
            await self._listening.wait_closed()
            self._listening = None

    def _track(self, task: asyncio.Task[Any], transport: asyncio.WriteTransport) -> None:
        """Remember a connection until its task ends."""
        self._talks[task] = transport
        task.add_done_callback(self._talks.__delitem__)

    async def _call(self, act: Callable[..., T], *args: Any) -> T:
        """Call a function that may block: in a thread if there is a background thread, else right here."""
        if self._background is None:
            return act(*args)
        return await asyncio.get_running_loop().run_in_executor(self._background.threads, act, *args)

    def _soon(self, act: Callable[..., object], *args: Any) -> None:
        """Call a function on the serving loop, if there is one; from any thread if the loop is in one."""
        loop = self._loop
        if loop is None:
            return
        if self._background is None:
            loop.call_soon(act, *args)
            return
        with suppress(RuntimeError):  # the loop was closed by another thread in between
            loop.call_soon_threadsafe(act, *args)


class StreamStandIn(StandIn):
    """A stand-in whose protocol is read from and written to streams of bytes."""

    @abstractmethod
    async def _talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection; it is closed afterwards."""

    async def _listen(self, **where: Any) -> Listening:
        return await asyncio.start_server(self._accept, limit=LONGEST, **where)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if not self.running:
            writer.transport.abort()
            return
        task = asyncio.get_running_loop().create_task(self._attend(reader, writer))
        self._track(task, writer.transport)
        task.add_done_callback(_complain)

    async def _attend(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            with suppress(ConnectionError, TimeoutError):  # clients leave in the middle of a sentence
                await self._talk(reader, writer)
        finally:
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()


def _complete(loop: asyncio.AbstractEventLoop, work: Coroutine[Any, Any, object]) -> None:
    """Run something on a loop to its end, even from a function that the loop is running."""
    if not loop.is_running():
        loop.run_until_complete(work)
        return
    try:
        for _ in range(TURNS):
            if work.send(None) is not None:  # it waits for a future, and not only for its next turn
                break
    except StopIteration:
        return
    work.close()
    raise RuntimeError("a stand-in waits while it begins: use `async with`")


def _complain(task: asyncio.Task[None]) -> None:
    """Report an error of a stand-in or of a test's route, which no client can see."""
    error = None if task.cancelled() else task.exception()
    if error:
        task.get_loop().call_exception_handler({"message": "a stand-in failed", "exception": error})


class _Background:
    """A thread with an event loop, and threads for functions that may block."""

    def __init__(self, name: str) -> None:
        self.loop = asyncio.new_event_loop()
        self.threads = ThreadPoolExecutor(THREADS, f"onefold-{name}")
        self._thread = threading.Thread(target=self.loop.run_forever, name=f"onefold-{name}", daemon=True)
        self._thread.start()

    async def _cut_off(self) -> None:
        """Cut connections that were accepted while the server closed: nobody has heard of them yet.

        asyncio takes some turns to tell a protocol of a new connection. If the loop ended before, the socket
        would stay open until it is collected.
        """
        for _ in range(TURNS):
            for transport in list(self.loop._transports.values()):  # type: ignore[attr-defined]
                transport.abort()
            await asyncio.sleep(0)

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self.loop).result()

    def close(self) -> None:
        self.threads.shutdown()
        self.run(self._cut_off())
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join()
        self.loop.close()
