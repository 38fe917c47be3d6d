"""One HTTP exchange: a request that is sent once, and an answer that is read up to a limit.

The only module that knows the HTTP client. It never repeats a request and never follows a redirect: the
caller decides what an answer means, and what to do without one. `Refused` says that nothing was sent,
`NoAnswer` that nobody knows. Addresses are named without what may be secret in them.
"""

from __future__ import annotations

import logging
import re
import zlib
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlsplit

from onefold.core.errors import Misconfigured, Refused
from onefold.core.redaction import breaks_in_login, host_of, hosts_alone
from onefold.core.terms import Seconds
from onefold.core.wire import Unreadable

if TYPE_CHECKING:
    from httpx2 import AsyncClient, Response

CONNECT: Seconds = 10.0
"""The longest wait for a connection; nothing is sent before it is open."""

BODY_LIMIT = 8 * 2**20
"""Bytes of an answer, unpacked, if the caller names no other limit."""

IDLE: Seconds = 300.0
"""How long an idle connection is kept for questions: a poll every few minutes makes no new handshake."""

IDLE_BEFORE_AN_EFFECT: Seconds = 5.0
"""The same for effects. A service may close an idle connection while a request is on its way over it. Nobody
knows then whether the effect happened, so old connections are not used for effects."""

LONG_SEGMENT = 20
"""A part of a path as long as this may be a key."""

_KEY_LIKE = re.compile(r"(?=.*[0-9])(?=.*[A-Za-z]).{12,}|.*[:=].*")
"""So may a shorter one that mixes letters and digits, or that has a form like `name:secret`."""


class NoAnswer(Exception):
    """A request left, at least in part, and no answer came: whether it happened is not known."""

    def __init__(self, reason: str, cause: str = "", late: bool = False) -> None:
        super().__init__(reason)
        self.cause = cause
        """What the client said, which may quote anything."""
        self.late = late
        """Whether it was given up because the time was over."""


class Ask(NamedTuple):
    """One request."""

    method: str
    url: str
    headers: Mapping[str, str] = {}
    body: bytes = b""
    timeout: Seconds = 30.0
    limit: int = BODY_LIMIT
    is_question: bool = False
    """Whether it changes nothing: then it may go over an old connection, and its answer may be packed."""


class Answer(NamedTuple):
    """What a service answered; the body may be cut, at the limit or by a lost connection."""

    status: int
    headers: Mapping[str, str]
    body: bytes
    whole: bool = True
    lost: bool = False
    """Whether the connection was lost before the body was whole."""


class Clients:
    """The HTTP clients of one runtime, on one event loop: one for questions, one for effects."""

    def __init__(self, proxies: bool = True) -> None:
        self._proxies = proxies
        self._opened: dict[bool, AsyncClient] = {}

    def of(self, is_question: bool) -> AsyncClient:
        """Return the client for questions or for effects; it opens at first use."""
        client = self._opened.get(is_question)
        if client is None:
            library = _library()
            idle = IDLE if is_question else IDLE_BEFORE_AN_EFFECT
            limits = library.Limits(
                max_connections=None, max_keepalive_connections=100, keepalive_expiry=idle
            )
            client = library.AsyncClient(
                verify=_trust(), limits=limits, follow_redirects=False, trust_env=self._proxies
            )
            self._opened[is_question] = client
        return client

    async def aclose(self) -> None:
        """Close every connection."""
        while self._opened:
            _, client = self._opened.popitem()
            await client.aclose()


async def exchange(clients: Clients, ask: Ask) -> Answer:
    """Send a request, once, and read its answer."""
    library, client = _library(), clients.of(ask.is_question)
    # What a service packs may unpack to any size. It is unpacked here, where somebody looks at the size.
    encoding = {"Accept-Encoding": "gzip" if ask.is_question else "identity"}
    timeout = library.Timeout(ask.timeout, connect=min(CONNECT, ask.timeout))
    not_sent = (
        library.ConnectError,
        library.ConnectTimeout,
        library.PoolTimeout,
        library.UnsupportedProtocol,
    )
    try:
        request = client.build_request(
            ask.method,
            _parsed(ask.url),
            headers={**encoding, **ask.headers},
            content=ask.body,
            timeout=timeout,
        )
        response = await client.send(request, stream=True)
    except (library.InvalidURL, library.LocalProtocolError, UnicodeError, ValueError) as error:
        raise Refused(f"{ask.method} {shown(ask.url)} cannot be sent: {type(error).__name__}") from None
    except not_sent as error:
        raise Refused(f"{shown(ask.url)} was not reached: {type(error).__name__}") from error
    except library.HTTPError as error:
        reason, late = f"{shown(ask.url)} did not answer: {type(error).__name__}", library.TimeoutException
        raise NoAnswer(reason, f"{type(error).__name__}: {error}", isinstance(error, late)) from error
    try:
        return await _read(response, ask)
    finally:
        await response.aclose()


async def _read(response: Response, ask: Ask) -> Answer:
    """Read as much of the body as is wanted: the status alone says what happened."""
    unpack = unpacker(response.headers.get("Content-Encoding", ""), ask.limit) if ask.is_question else bytes
    status, headers, body = response.status_code, dict(response.headers), bytearray()
    try:
        async for chunk in response.aiter_raw():
            body += unpack(chunk)
            if len(body) > ask.limit:
                return Answer(status, headers, bytes(body[: ask.limit]), False)
    except _library().HTTPError:
        return Answer(status, headers, bytes(body), False, True)
    return Answer(status, headers, bytes(body))


def unpacker(encoding: str, limit: int) -> Callable[[bytes], bytes]:
    """Return what unpacks a body; never much more than the limit at a time."""
    match encoding.strip().lower():
        case "" | "identity":
            return bytes
        case "gzip" | "x-gzip" | "deflate":
            packed = zlib.decompressobj(zlib.MAX_WBITS | 32)
        case other:
            raise Unreadable(f"it is packed as {other[:40]!r}, which was not asked for")

    def unpack(chunk: bytes) -> bytes:
        try:
            return packed.decompress(chunk, limit + 1)
        except zlib.error as error:
            raise Unreadable(f"it cannot be unpacked: {error}") from None

    return unpack


def shown(url: str) -> str:
    """Name an address without what may be secret in it: no user, no query, no part of its path like a key."""
    if breaks_in_login(url):
        return host_of(url)
    try:
        parts = urlsplit(url).path.split("/")
    except ValueError:
        return host_of(url)
    return host_of(url) + "/".join("…" if _may_be_key(part) else part for part in parts)


def _may_be_key(part: str) -> bool:
    return len(part) >= LONG_SEGMENT or _KEY_LIKE.fullmatch(part) is not None


def retry_after(header: str | None, now: float) -> Seconds | None:
    """Read a Retry-After: seconds, or a date in GMT. None if it says nothing that can be read."""
    if header is None:
        return None
    try:
        wait = float(header)
    except ValueError:
        try:
            date = datetime.strptime(header, "%a, %d %b %Y %H:%M:%S GMT").replace(tzinfo=UTC)
        except ValueError:
            return None
        wait = date.timestamp() - now
    return max(wait, 0.0) if wait < 1e9 else None  # neither NaN nor infinity


def check_installed(what: str) -> None:
    """Refuse what needs the HTTP client if that is missing."""
    try:
        _library()
    except ImportError:
        raise Misconfigured(f'{what} needs httpx2: pip install "onefold[worker]"') from None


@cache
def _library() -> Any:
    import httpx2

    # The client logs every URL as it is, with the keys in it.
    logging.getLogger("httpx2").addFilter(hosts_alone)
    return httpx2


@lru_cache(maxsize=256)
def _parsed(url: str) -> Any:
    """Parse an address once: most are asked again and again."""
    return _library().URL(url)


@cache
def _trust() -> Any:
    """Load the certificate authorities once: that takes longer than most requests."""
    return _library().create_ssl_context()
