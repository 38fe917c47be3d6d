"""A small HTTP server and the shortest way to run something on a virtual loop. It checks nothing itself."""

import asyncio
import contextlib
import ssl
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

import httpx2

from onefold.testing.virtual import VirtualLoop
from tests.servers.stores.tls import AUTHORITY, CERTIFICATES

T = TypeVar("T")
Answer = Callable[[bytes, bytes], Awaitable[bytes]]


def live(main: Callable[[VirtualLoop], Coroutine[Any, Any, T]], seed: int | None = 1) -> T:
    """Run a function of the loop to its end on a fresh loop."""
    loop = VirtualLoop(seed)
    return loop.run(main(loop))


def certified(name: str) -> ssl.SSLContext:
    """Return what a server needs to prove a name: `local` is localhost, `other` is other.example."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(CERTIFICATES / f"{name}.pem")
    return context


def trusting() -> ssl.SSLContext:
    """Return what a client needs to verify such a server."""
    return ssl.create_default_context(cafile=AUTHORITY)


def client(**options: Any) -> httpx2.AsyncClient:
    """Make a client that ignores the proxies of this machine."""
    return httpx2.AsyncClient(trust_env=False, **options)


def response(body: bytes, length: int | None = None) -> bytes:
    size = len(body) if length is None else length
    return b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % size + body


async def echo(request: bytes, body: bytes) -> bytes:
    """Answer with the first line of the request and its body."""
    return response(request.partition(b"\r\n")[0] + b"|" + body)


class Site:
    """Answers HTTP requests one after another on kept connections."""

    def __init__(self, answer: Answer = echo) -> None:
        self.answer = answer
        self.writers: list[asyncio.StreamWriter] = []
        self.requests = 0

    async def serve(self, host: str = "feed.test", port: int = 80, **options: Any) -> asyncio.Server:
        return await asyncio.start_server(self._connected, host, port, **options)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.writers.append(writer)
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                size = next(
                    (
                        int(line[15:])
                        for line in head.split(b"\r\n")
                        if line.lower()[:15] == b"content-length:"
                    ),
                    0,
                )
                self.requests += 1
                writer.write(await self.answer(head, await reader.readexactly(size)))
                await writer.drain()
        writer.close()
