"""Clients for the tests of stand-ins, on asyncio streams: they see every byte, and when a connection ends."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Literal, TypeVar
from urllib.parse import urlsplit

from onefold.worlds.chain import Node
from onefold.worlds.serving import StandIn

Mode = Literal["with", "async with"]
"""How a stand-in is entered. In tests/fast both serve on the loop; elsewhere `with` starts a thread."""

S = TypeVar("S", bound=StandIn | Node)


@asynccontextmanager
async def served(stand_in: S, mode: Mode) -> AsyncIterator[S]:
    """Serve a stand-in by `with` or by `async with`."""
    if mode == "async with":
        async with stand_in:
            yield stand_in
    else:
        with stand_in:
            yield stand_in


class Caller:
    """One connection to a stand-in."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    def say(self, text: bytes) -> None:
        self.writer.write(text)

    async def line(self) -> bytes:
        """Read one line; empty if the connection ended."""
        return await self.reader.readline()

    async def rest(self) -> bytes:
        """Read until the connection ends."""
        return await self.reader.read()

    def ask(self, path: str, body: bytes | None = None) -> None:
        """Send a question by HTTP: GET, or POST if there is a body."""
        method = "GET" if body is None else "POST"
        head = f"{method} {path} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body or b'')}\r\n\r\n"
        self.say(head.encode() + (body or b""))

    async def answer(self) -> tuple[int, dict[str, str], bytes]:
        """Read an answer of HTTP: status, headers and body."""
        first, *lines = (await self.reader.readuntil(b"\r\n\r\n")).decode().strip().split("\r\n")
        headers = dict(line.lower().split(": ", 1) for line in lines)
        body = await self.reader.readexactly(int(headers["content-length"]))
        return int(first.split()[1]), headers, body


@asynccontextmanager
async def calling(url: str) -> AsyncIterator[Caller]:
    place = urlsplit(url)
    reader, writer = await asyncio.open_connection(place.hostname, place.port)
    try:
        yield Caller(reader, writer)
    finally:
        writer.close()
        await writer.wait_closed()


async def fetch(url: str, path: str, body: Any = None) -> Any:
    """Ask once and return the body of a success."""
    async with calling(url) as caller:
        caller.ask(path, None if body is None else json.dumps(body).encode())
        status, _, raw = await caller.answer()
    assert status == 200, raw
    return json.loads(raw)
