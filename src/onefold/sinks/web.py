"""Sends one HTTP request and says what came of it. The only file of the sinks that knows the HTTP client.

It never repeats a request and never follows a redirect: whoever asks decides what an answer means. What it
raises tells apart that nothing was sent (`Refused`) from that nobody knows (`NoAnswer`), and quotes no
address with its secrets.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import NamedTuple

import anyio.lowlevel

from onefold.core.errors import Misconfigured, Refused
from onefold.core.redaction import host_of, hosts_alone
from onefold.core.terms import Seconds

try:
    import httpx2
except ImportError as missing:
    raise Misconfigured(
        'a sink over HTTP needs httpx2, which is not installed: pip install "onefold[worker]"'
    ) from missing

shown = host_of
"""How an address is named for people."""

CONNECT: Seconds = 10.0
"""The longest wait for a connection; nothing was sent until it stands."""

NOT_SENT = (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout, httpx2.UnsupportedProtocol)
"""What the client raises before the first byte of a request left."""


class NoAnswer(Exception):
    """A request left, at least in part, and no answer came: whether it happened is not known."""


class Answer(NamedTuple):
    """What a far side answered; the body may be cut, at the limit or by a lost connection."""

    status: int
    headers: Mapping[str, str]
    body: bytes
    whole: bool = True


class Web:
    """A client of one sink. It opens at first use in an event loop, and must be closed in the same."""

    def __init__(self, timeout: Seconds, limit: int) -> None:
        self._timeout = timeout
        self._limit = limit
        self._client: anyio.lowlevel.RunVar[httpx2.AsyncClient | None] = anyio.lowlevel.RunVar("client", None)

    async def send(self, method: str, url: str, headers: Mapping[str, str], body: bytes) -> Answer:
        """Send a request, once."""
        # What a far side packs may unpack to any size: ask for it plain, and read it raw.
        asked = {"Accept-Encoding": "identity", **headers}
        try:
            request = self._opened().build_request(method, url, headers=asked, content=body)
            response = await self._opened().send(request, stream=True)
        except (httpx2.InvalidURL, httpx2.LocalProtocolError, UnicodeError, ValueError) as error:
            raise Refused(f"{method} {shown(url)} cannot be sent: {type(error).__name__}") from None
        except NOT_SENT as error:
            raise Refused(f"{shown(url)} was not reached: {type(error).__name__}") from None
        except httpx2.HTTPError as error:
            raise NoAnswer(f"{shown(url)} did not answer: {type(error).__name__}") from None
        try:
            raw, whole = await self._read(response)
        finally:
            await response.aclose()
        return Answer(response.status_code, dict(response.headers), raw, whole)

    async def _read(self, response: httpx2.Response) -> tuple[bytes, bool]:
        """Read as much of the body as is wanted: the status has told already what happened."""
        raw = b""
        try:
            async for chunk in response.aiter_raw():
                raw += chunk
                if len(raw) > self._limit:
                    return raw[: self._limit], False
        except httpx2.HTTPError:
            return raw, False
        return raw, True

    def _opened(self) -> httpx2.AsyncClient:
        client = self._client.get()
        if client is None:
            # The client logs every address it asks, and an address may hold a secret.
            logging.getLogger("httpx2").addFilter(hosts_alone)
            timeout = httpx2.Timeout(self._timeout, connect=min(CONNECT, self._timeout))
            client = httpx2.AsyncClient(timeout=timeout, follow_redirects=False)
            self._client.set(client)
        return client

    async def aclose(self) -> None:
        """Let go of the connections of this event loop."""
        client = self._client.get()
        if client is not None:
            self._client.set(None)
            await client.aclose()
