"""Health, readiness and metrics of a worker over HTTP, on loopback unless somebody says otherwise.

It only answers what is known; it changes nothing and believes nothing that it is sent. `/health` says that
the worker is alive, `/ready` that every source was read to its present, `/metrics` is for Prometheus.
"""

from __future__ import annotations

import asyncio
import json
import logging
from contextlib import suppress
from ipaddress import ip_address
from typing import Any

import anyio

from onefold.core.errors import Misconfigured, OnefoldError
from onefold.drive import AsyncPorts
from onefold.runtime import current
from onefold.runtime.listener import Listener
from onefold.worker.metrics import exposition
from onefold.worker.observing import Observation

log = logging.getLogger("onefold.worker")

PATIENCE = 5.0
"""Seconds in which a client must have sent its request and taken the answer."""

LONGEST = 8192

Answer = tuple[str, str, bytes]


def address(written: str, origin: str) -> tuple[str, int]:
    """Read HOST:PORT, or a port alone, which means loopback."""
    host, _, port = written.strip().rpartition(":")
    host = host.strip("[]") or "127.0.0.1"
    if not port.isdecimal() or int(port) > 65535:
        raise Misconfigured(f"listen is {written!r} (from {origin}): write 127.0.0.1:9100, or 9100")
    return host, int(port)


def bound(written: str, origin: str) -> Listener:
    """Take the port before anything runs, so that a port in use is said at once."""
    host, port = address(written, origin)
    try:
        taken = current().listener(host, port)
    except OSError as error:
        raise Misconfigured(
            f"listen is {written!r} (from {origin}), but {host} port {port} cannot be had: {error.strerror}; "
            "choose another, or 0 for any"
        ) from error
    if not _is_loopback(taken.address[0]):
        log.warning("health and metrics can be read by whoever reaches %s: nothing asks for a password", host)
    return taken


def _is_loopback(host: str) -> bool:
    return ip_address(host).is_loopback


class Listening:
    """Answers questions about one worker."""

    def __init__(self, taken: Listener, observation: Observation) -> None:
        self._taken = taken
        self._observation = observation

    @property
    def url(self) -> str:
        """Where to ask; the port is the real one, also if any was asked for."""
        host, port = self._taken.address
        return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"

    async def attend(self, ports: AsyncPorts) -> None:
        """Answer until cancelled."""
        await self._taken.serve(self._served, LONGEST)

    async def _served(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            with anyio.move_on_after(PATIENCE), suppress(OSError, ValueError, asyncio.IncompleteReadError):
                asked = (
                    (await reader.readuntil(b"\r\n\r\n")).partition(b"\r\n")[0].decode("latin-1").split(" ")
                )
                writer.write(_written(*self.answer(*asked[:2]), body=asked[0] != "HEAD"))
                await writer.drain()
        except asyncio.LimitOverrunError:
            writer.write(_written("431 Request Header Fields Too Large", "text/plain", b""))
        finally:
            writer.close()

    def answer(self, method: str = "", path: str = "") -> Answer:
        """Say what a request is answered with."""
        if method not in ("GET", "HEAD"):
            return "405 Method Not Allowed", "text/plain", b"only GET is answered\n"
        match path.partition("?")[0]:
            case "/health":
                return _json("200 OK", self._health())
            case "/ready":
                ready = self._observation.worker.ready and not self._observation.worker.stopping
                return _json("200 OK" if ready else "503 Service Unavailable", self._readiness(ready))
            case "/metrics":
                return self._metrics()
            case _:
                return "404 Not Found", "text/plain", b"/health, /ready and /metrics are answered\n"

    def _health(self) -> dict[str, Any]:
        worker = self._observation.worker
        return {"alive": True, "worker": worker.name, "stopping": worker.stopping}

    def _readiness(self, ready: bool) -> dict[str, Any]:
        sources = {
            f"{reader.pipeline.name}/{reader.name}": {
                "caught_up": reader.caught_up,
                "lag": round(reader.lag, 1),
                "error": reader.tally.errors.get(reader.name),
            }
            for reader in self._observation.worker.readers
        }
        return {"ready": ready, "sources": sources}

    def _metrics(self) -> Answer:
        try:
            return "200 OK", "text/plain; version=0.0.4; charset=utf-8", exposition(self._observation)
        except OnefoldError as error:
            return "501 Not Implemented", "text/plain", f"{error}\n".encode()


def _json(status: str, value: dict[str, Any]) -> Answer:
    return status, "application/json", json.dumps(value).encode() + b"\n"


def _written(status: str, kind: str, content: bytes, body: bool = True) -> bytes:
    head = (
        f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {len(content)}\r\n"
        "Cache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\nConnection: close\r\n\r\n"
    )
    return head.encode() + (content if body else b"")
