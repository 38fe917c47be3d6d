"""A loopback proxy that loses what passes through it: the cable between a client and a server, to be cut.

It stands between any client and any server that talk over TCP, and knows nothing of what they say. It takes
turns for granted: what a client sends after the server last spoke is a *request*, what the server then sends
is its *reply*, and both together are an exchange. Each exchange suffers what was armed for it, or the next
mishap of a plan, or nothing. It runs in a thread of its own and serves blocking and awaited clients alike.

    with Proxy.before("postgresql://127.0.0.1:5432/shop") as proxy:
        store = connect(proxy.url)
        proxy.arm(Swallow(), when=b"INSERT")

Servers are parted from gently (they read all that was delivered, and then the end); clients are reset. Only
`cut` is rough to both. It must never wait longer than a mishap says, and never invent or change a byte.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
import threading
from collections.abc import Callable, Coroutine, Iterable
from types import TracebackType
from typing import Any, Self, TypeVar
from urllib.parse import parse_qs, parse_qsl, urlencode, urlsplit

from onefold.testing.mishaps import Delay, Drop, Exchange, Mishap, Reset, Silence, Swallow, at_random

__all__ = ["Delay", "Drop", "Exchange", "Mishap", "Proxy", "Reset", "Silence", "Swallow", "at_random"]

T = TypeVar("T")

PIECE = 65536
# Closing with this setting sends a reset instead of an orderly end.
ABRUPT = struct.pack("ii", 1, 0)


class _Cable:
    """One connection of a client, and ours to the server. Lives on the thread of the proxy only."""

    def __init__(self, proxy: Proxy, number: int, client: socket.socket) -> None:
        self.proxy = proxy
        self.number = number
        self.client = client
        self.server = socket.socket()
        self.server.setblocking(False)
        self.loop = asyncio.get_running_loop()
        self.exchange = Exchange(number)
        self.asking = False
        self.met = False
        """Whether it is settled what the present request suffers."""
        self.silent = False
        self.rough = False
        self.broken = self.loop.create_future()

    async def carry(self) -> None:
        """Carry both directions until both ends are done; whatever happens, close both."""
        try:
            if self.silent:
                await self._ask()
            else:
                await self.loop.sock_connect(self.server, self.proxy.target)
                await self._converse()
        except OSError:
            self.break_off()
        finally:
            if self.rough:
                _reset(self.client)
                _reset(self.server)
            self._part()
            self.close()

    def close(self) -> None:
        self.client.close()
        self.server.close()

    async def _converse(self) -> None:
        answering = asyncio.create_task(self._answer())
        try:
            await self._ask()
            self._part()
            await answering
        finally:
            await _ended(answering)

    def break_off(self) -> None:
        """The client is to be reset, as soon as nothing more is being delivered for it."""
        if not self.broken.done():
            self.broken.set_result(None)

    def _part(self) -> None:
        """Reset the client if the cable broke; in any case the server hears that nothing more will come."""
        if self.broken.done():
            _reset(self.client)
        with contextlib.suppress(OSError):
            self.server.shutdown(socket.SHUT_WR)

    async def _ask(self) -> None:
        while data := await self._from_client():
            if not self.asking:
                self.exchange, self.met = self.proxy._begin(self.number), False
            self.asking = True
            self.exchange.sent += len(data)
            if not self.met:
                self.met = self.proxy._befall(self.exchange, data)
            await self._deliver(data)
            self.proxy._tell()

    async def _from_client(self) -> bytes:
        """Receive the next bytes; none at the end, and none as soon as the cable is broken."""
        receiving = asyncio.create_task(self.loop.sock_recv(self.client, PIECE))
        try:
            await asyncio.wait({receiving, self.broken}, return_when=asyncio.FIRST_COMPLETED)
            # An exception is an end too: the client was killed, or reset its side.
            return b"" if self.broken.done() or receiving.exception() else receiving.result()
        finally:
            await _ended(receiving)

    async def _deliver(self, data: bytes) -> None:
        exchange = self.exchange
        match exchange.mishap:
            case Drop():
                data = b""
                self.break_off()
            case Silence():
                self.silent = True
            case Delay(seconds, "request") if not exchange.delivered:
                await self.proxy._pause(seconds)
            case Reset(after, "request") if exchange.delivered + len(data) >= after:
                data = data[: after - exchange.delivered]
                self.break_off()
        if not self.silent:
            exchange.delivered += len(data)
            await self.loop.sock_sendall(self.server, data)

    async def _answer(self) -> None:
        try:
            while data := await self.loop.sock_recv(self.server, PIECE):
                self.asking = False
                self.exchange.answered += len(data)
                await self._hear(data)
                self.proxy._tell()
        except ConnectionError:
            self.break_off()
        if not self.broken.done() and not self.silent:
            with contextlib.suppress(OSError):
                self.client.shutdown(socket.SHUT_WR)

    async def _hear(self, data: bytes) -> None:
        exchange = self.exchange
        match exchange.mishap:
            case Swallow():
                self.break_off()
            case Delay(seconds, "reply") if not exchange.heard:
                await self.proxy._pause(seconds)
            case Reset(after, "reply") if exchange.heard + len(data) >= after:
                await self._to_client(data[: after - exchange.heard])
                self.break_off()
        if not self.broken.done() and not self.silent:
            await self._to_client(data)

    async def _to_client(self, data: bytes) -> None:
        self.exchange.heard += len(data)
        # A client that is gone hears nothing; what it asked for still happens.
        with contextlib.suppress(ConnectionError):
            await self.loop.sock_sendall(self.client, data)


class Proxy:
    """Listens on a loopback port of its own from the start of a with-block to its end."""

    def __init__(self, host: str, port: int, plan: Iterable[Mishap] = ()) -> None:
        self.target = (host, port)
        self.journal: list[Exchange] = []
        """What became of every exchange so far, in the order in which they began."""
        self._plan = iter(plan)
        self._armed: list[tuple[Mishap, bytes]] = []
        self._cables: dict[asyncio.Task[None], _Cable] = {}
        self._mute = False
        self._listener = _bound(0)
        self.port: int = self._listener.getsockname()[1]
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name=f"proxy to {port}", daemon=True)
        self._released = asyncio.Event()
        self._changed = threading.Condition()
        self._accepted = 0
        self.url = ""
        """The URL that was given to `before`, by way of this proxy."""
        self.held = 0
        """How many requests and replies are being delayed now."""

    @classmethod
    def before(cls, url: str, plan: Iterable[Mishap] = ()) -> Self:
        """Stand before the server that a URL names, or its parameter `endpoint`; the port has to be in it."""
        whole = urlsplit(url)
        if endpoint := parse_qs(whole.query).get("endpoint"):
            whole = urlsplit(endpoint[0])
        if not whole.hostname or not whole.port:
            raise ValueError(f"the URL names no host and port to stand before: {whole.scheme}://…")
        proxy = cls(whole.hostname, whole.port, plan)
        proxy.url = proxy.through(url)
        return proxy

    def __enter__(self) -> Self:
        self._thread.start()
        self._do(self._listen())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def through(self, url: str) -> str:
        """Give the same URL by way of this proxy: its host and port, or those of its parameter `endpoint`."""
        whole = urlsplit(url)
        asked = dict(parse_qsl(whole.query, keep_blank_values=True))
        if "endpoint" in asked:
            return whole._replace(
                query=urlencode({**asked, "endpoint": self.through(asked["endpoint"])})
            ).geturl()
        who, at, _ = whole.netloc.rpartition("@")
        return whole._replace(netloc=f"{who}{at}127.0.0.1:{self.port}").geturl()

    def arm(self, *mishaps: Mishap, when: bytes = b"") -> None:
        """Have the next exchanges suffer these, before the plan goes on.

        With `when`, the next whose request holds these bytes, in one piece as it arrives.
        """
        self._do(self._call(lambda: self._armed.extend((mishap, when) for mishap in mishaps)))

    @property
    def armed(self) -> int:
        """How many armed mishaps have not befallen anything yet."""
        return len(self._armed)

    @property
    def connected(self) -> int:
        """How many connections there are. One that broke ends when the server has read all and hung up."""
        return len(self._cables)

    def wait(self, condition: Callable[[Self], bool], seconds: float = 30.0) -> None:
        """Return as soon as something holds of this proxy, say `lambda proxy: proxy.held == 1`."""
        with self._changed:
            if not self._changed.wait_for(lambda: condition(self), seconds):
                raise TimeoutError(f"it did not happen within {seconds:g} s")

    def cut(self) -> None:
        """Reset every connection now, on both sides, and refuse new ones until healed."""
        self._do(self._cut())

    def mute(self) -> None:
        """Be a black hole until healed: accept connections, and let nothing pass in new ones and old ones."""
        self._do(self._call(self._fall_silent))

    def heal(self) -> None:
        """Serve again. Connections that were silent are reset: what they lost cannot be made good."""
        self._do(self._heal())

    def release(self) -> None:
        """End every delay that is under way."""
        self._do(self._call(self._release))

    def close(self) -> None:
        """Reset what is connected and stop listening; nothing happens the second time."""
        if self._thread.is_alive():
            self._do(self._cut())
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
        self._listener.close()
        self._loop.close()

    # From here on, all but _do runs on the thread of the proxy.

    def _do(self, work: Coroutine[Any, Any, T]) -> T:
        """Have something done on the thread of the proxy, and return when it is."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    async def _call(self, act: Callable[[], None]) -> None:
        act()

    async def _listen(self) -> None:
        self._listener.listen()
        self._listening = True
        # Not awaited: a wait for the next client that is cancelled as one comes would lose its connection.
        asyncio.get_running_loop().add_reader(self._listener, self._accept)

    def _accept(self) -> None:
        try:
            client, _ = self._listener.accept()
        except OSError:  # it went away again
            return
        client.setblocking(False)
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._accepted += 1
        cable = _Cable(self, self._accepted, client)
        cable.silent = self._mute
        task = asyncio.create_task(cable.carry())
        self._cables[task] = cable
        task.add_done_callback(self._forget)

    def _forget(self, task: asyncio.Task[None]) -> None:
        self._cables.pop(task).close()  # which one that was cancelled before its first step could not do
        self._tell()

    def _begin(self, connection: int) -> Exchange:
        exchange = Exchange(connection)
        self.journal.append(exchange)
        return exchange

    def _befall(self, exchange: Exchange, data: bytes) -> bool:
        """Say what a request suffers: the first armed mishap that fits it, or the next of the plan.

        False if that is nothing, so that a later piece of the same request may still meet what is armed.
        """
        for armed in self._armed:
            if armed[1] in data:
                self._armed.remove(armed)
                exchange.mishap = armed[0]
                return True
        if len(data) == exchange.sent:
            exchange.mishap = next(self._plan, None)
        return exchange.mishap is not None

    async def _pause(self, seconds: float) -> None:
        self.held += 1
        self._tell()
        try:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._released.wait(), seconds)
        finally:
            self.held -= 1

    def _tell(self) -> None:
        with self._changed:
            self._changed.notify_all()

    def _release(self) -> None:
        self._released.set()
        self._released = asyncio.Event()

    def _fall_silent(self) -> None:
        self._mute = True
        for cable in self._cables.values():
            cable.silent = True

    async def _cut(self) -> None:
        asyncio.get_running_loop().remove_reader(self._listener)
        self._listening = False
        self._listener.close()
        # Bound and not listening: connections are refused, and nobody else gets the port.
        self._listener = _bound(self.port)
        for cable in self._cables.values():
            cable.rough = True
        await self._end(self._cables)

    async def _heal(self) -> None:
        self._mute = False
        silent = [task for task, cable in self._cables.items() if cable.silent]
        for task in silent:
            self._cables[task].break_off()
        await self._end(silent)
        if not self._listening:
            await self._listen()

    async def _end(self, tasks: Iterable[asyncio.Task[None]]) -> None:
        for task in list(tasks):
            await _ended(task)


async def _ended(task: asyncio.Task[Any]) -> None:
    """Cancel a task and wait until it is over."""
    task.cancel()
    await asyncio.wait({task})
    if not task.cancelled():
        # Asked for, so that nobody is told that it was not.
        task.exception()


def _reset(connection: socket.socket) -> None:
    with contextlib.suppress(OSError):
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, ABRUPT)
    connection.close()


def _bound(port: int) -> socket.socket:
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.setblocking(False)
    listener.bind(("127.0.0.1", port))
    return listener
