"""An HTTP site: routes answer requests, and mischief spoils some of the answers.

It knows no service. Each stand-in defines what its routes answer, and what they write into its journal.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, urlsplit

import h11

from onefold.worlds.mischief import Mischief, Trick
from onefold.worlds.serving import StreamStandIn


class Request(NamedTuple):
    """What was asked."""

    method: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    body: bytes
    raw_query: str = ""
    """As it was sent, for those who ask for one name several times."""

    def json(self) -> Any:
        return json.loads(self.body)


class Response(NamedTuple):
    """What is answered; a body that is not bytes is sent as JSON."""

    body: Any = None
    status: int = 200
    headers: Mapping[str, str] = {}

    def raw(self) -> bytes:
        return self.body if isinstance(self.body, bytes) else json.dumps(self.body).encode()


Route = Callable[[Request], Response]

PIECE = 2**16
"""How many bytes are read or written at once."""
LONGEST_HEAD = 2**16
"""The longest request line with headers, in bytes."""


class Site(StreamStandIn):
    """Serves routes by (method, path); a path that ends in `*` matches every path with that prefix."""

    def __init__(self, routes: Mapping[tuple[str, str], Route], mischief: Mischief | None = None) -> None:
        super().__init__()
        self.routes = dict(routes)
        self.mischief = mischief or Mischief()
        self.requests: list[Request] = []
        self._answers: dict[str, Response] = {}

    @property
    def url(self) -> str:
        return f"http://{self.address}"

    def answer(self, request: Request) -> tuple[Response | None, Trick | None]:
        """Answer a request, or spoil the answer; None as an answer means that the connection is cut."""
        self.requests.append(request)
        trick = self.mischief.draw()
        match trick:
            case "cut-before":
                return None, trick
            case "error":
                return Response({"error": "internal"}, 500), trick
            case "busy":
                return Response({"error": "too many requests"}, 429, {"Retry-After": "0.2"}), trick
            case "empty" if request.method == "GET":
                return Response([]), trick
            case "garbage" if request.method == "GET":
                return Response(b"<html>oops"), trick
            case "stale" if request.path in self._answers and request.method == "GET":
                return self._answers[request.path], trick
        response = self._route(request)
        self._answers[request.path] = response
        return (None, trick) if trick == "cut-after" else (response, trick)

    def _route(self, request: Request) -> Response:
        for (method, path), route in self.routes.items():
            fits = request.path.startswith(path[:-1]) if path.endswith("*") else request.path == path
            if method == request.method and fits:
                answer: Response = route(request)
                return answer
        return Response({"error": "not found"}, 404)

    async def _talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        line = h11.Connection(h11.SERVER, max_incomplete_event_size=LONGEST_HEAD)
        while (request := await _asked(line, reader)) is not None:
            response, trick = await self._call(self.answer, request)
            if trick == "stall":
                await asyncio.sleep(self.mischief.stall)
            if response is None:
                return
            await _send(line, writer, response, half=trick == "half")
            if line.our_state is not h11.DONE:  # only half was sent, or the client wants no further answer
                return
            line.start_next_cycle()


async def _asked(line: h11.Connection, reader: asyncio.StreamReader) -> Request | None:
    """Read the next request; None if the client left, died while it spoke, or speaks no HTTP."""
    try:
        head = await _event(line, reader)
        if not isinstance(head, h11.Request):
            return None
        parts = []
        while isinstance(part := await _event(line, reader), h11.Data):
            parts.append(bytes(part.data))
    except h11.RemoteProtocolError:
        return None
    split = urlsplit(head.target.decode())
    query = dict(parse_qsl(split.query, keep_blank_values=True))
    headers = {name.decode(): value.decode("latin-1") for name, value in head.headers.raw_items()}
    return Request(head.method.decode(), split.path, query, headers, b"".join(parts), split.query)


async def _event(line: h11.Connection, reader: asyncio.StreamReader) -> object:
    while (event := line.next_event()) is h11.NEED_DATA:
        line.receive_data(await reader.read(PIECE))
    return event


async def _send(
    line: h11.Connection, writer: asyncio.StreamWriter, response: Response, *, half: bool
) -> None:
    raw = response.raw()
    headers = {"Content-Type": "application/json", **response.headers, "Content-Length": str(len(raw))}
    head = h11.Response(status_code=response.status, headers=list(headers.items()))
    end = len(raw) // 2 if half else len(raw)
    ready = line.send(head) or b""
    # In pieces: tests send answers of a hundred megabytes and measure memory in the same process.
    for at in range(0, end, PIECE):
        writer.write(ready + (line.send(h11.Data(raw[at : min(at + PIECE, end)])) or b""))
        await writer.drain()
        ready = b""
    if not half:
        ready += line.send(h11.EndOfMessage()) or b""
    writer.write(ready)
    await writer.drain()
