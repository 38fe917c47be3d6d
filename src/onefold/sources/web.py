"""Asks a site for JSON: bounded in time and size, patient with a site that is busy, and discreet.

A failure that may pass (no connection, a timeout, 429, 5xx, half an answer) is tried again after a pause; any
other is said at once. Names of places are said without what may be secret in them. It knows no feed.
"""

from __future__ import annotations

import logging
import random
import time
import zlib
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar
from urllib.parse import parse_qsl, urlencode, urljoin, urlsplit, urlunsplit

import anyio

from onefold.core.backoff import Backoff, pause
from onefold.core.errors import Misconfigured
from onefold.core.redaction import HIDDEN, breaks_in_login, host_of, hosts_alone, is_web, scrubbed
from onefold.core.terms import Seconds
from onefold.core.wire import Unreadable, parse

if TYPE_CHECKING:
    from httpx2 import AsyncClient, Response

    Client = AsyncClient

log = logging.getLogger("onefold.sources")

T = TypeVar("T")

BUSY = frozenset({408, 425, 429, 500, 502, 503, 504, 520, 521, 522, 523, 524, 529})
LONG_SEGMENT = 20
"""A part of a path as long as this may be a key."""


class Manners(NamedTuple):
    """How a site is asked."""

    timeout: Seconds = 30.0
    body_limit: int = 8 * 2**20
    """Bytes of an answer, unpacked; what is longer is cut off and refused."""
    tries: int = 4
    backoff: Backoff = Backoff(0.5, 30.0)
    patience: Seconds = 300.0
    """The longest that a Retry-After is obeyed."""


class Refusing(Unreadable):
    """The site will not show this; asking again changes nothing."""

    def __init__(self, reason: str, status: int = 200) -> None:
        super().__init__(reason, status)
        self.reason = reason
        self.status = status

    def __str__(self) -> str:
        return self.reason


class _Again(Exception):
    """A failure that may pass; `wait` is what the site asked for."""

    def __init__(self, reason: str, wait: Seconds | None = None) -> None:
        super().__init__(reason)
        self.wait = wait


class Web:
    """One site, as it is asked for one feed."""

    def __init__(self, url: str, headers: Mapping[str, str], manners: Manners) -> None:
        _library()
        if not is_web(url, "the URL of the web site"):
            raise Misconfigured(f"the URL {told(url)} is none of a web site: write http://… or https://…")
        self.url = url
        self._headers = {"Accept": "application/json", **headers, "Accept-Encoding": "gzip"}
        self._manners = manners
        self._secrets = _values(url, headers)

    @asynccontextmanager
    async def client(self) -> AsyncIterator[Client]:
        """Open connections for one round of reading."""
        library = _library()
        async with library.AsyncClient(verify=_trust(), timeout=self._manners.timeout) as client:
            yield client

    async def get(self, client: Client, url: str, read: Callable[[Any], T]) -> T:
        """Ask until `read` can make something of the answer, or the tries are used up."""
        attempt = 0
        while True:
            attempt += 1
            try:
                return read(parse(await self._ask(client, url)))
            except _Again as error:
                reason, wait = str(error), error.wait
            except Refusing as error:
                raise Refusing(f"{told(url)} {self._clean(error.reason)}", error.status) from None
            except Unreadable as error:
                reason, wait = f"answered, but {error}", None
            if attempt >= self._manners.tries:
                raise Unreadable(f"{told(url)} {self._clean(reason)}")
            await self._rest(url, reason, wait, attempt)

    async def _rest(self, url: str, reason: str, wait: Seconds | None, attempt: int) -> None:
        rest = pause(self._manners.backoff, attempt, random.random())
        if wait is not None:
            rest = min(wait, self._manners.patience)
        log.warning("%s %s; again in %.1f s", told(url), self._clean(reason), rest)
        await anyio.sleep(rest)

    async def _ask(self, client: Client, url: str) -> str:
        library, limit = _library(), self._manners.timeout
        try:
            with anyio.fail_after(limit):
                async with client.stream("GET", url, headers=self._headers) as response:
                    await self._judge(response)
                    return await self._text(response)
        except TimeoutError:
            raise _Again(f"did not answer within {limit:g} s") from None
        except library.TimeoutException as error:
            raise _Again(f"did not answer in time ({type(error).__name__})") from None
        except (library.HTTPError, library.StreamError) as error:
            raise _Again(f"could not be read ({type(error).__name__}: {error})") from error

    async def _judge(self, response: Response) -> None:
        status = response.status_code
        if status == 200:
            return
        if status in BUSY:
            raise _Again(f"answered {status}", retry_after(response.headers.get("Retry-After"), time.time()))
        if status in (401, 403):
            raise Refusing(f"answered {status}: it wants another key, or refuses ours", status)
        if 300 <= status < 400:
            raise Refusing(f"answered {status}: it leads elsewhere; give the final URL", status)
        raise Refusing(f"answered {status}: {(await self._text(response))[:200]!r}", status)

    async def _text(self, response: Response) -> str:
        """Read a body, unpacked by us: the library would unpack a bomb before we could look."""
        unpack = _unpacker(response.headers.get("Content-Encoding", ""), self._manners.body_limit)
        parts: list[bytes] = []
        size = 0
        async for chunk in response.aiter_raw():
            part = unpack(chunk)
            size += len(part)
            if size > self._manners.body_limit:
                raise Refusing(f"answered more than {self._manners.body_limit} bytes: see body_limit=")
            parts.append(part)
        try:
            return b"".join(parts).decode()
        except UnicodeDecodeError:
            raise Unreadable("it is no UTF-8") from None

    def _clean(self, text: str) -> str:
        for secret in self._secrets:
            text = text.replace(secret, HIDDEN)
        return scrubbed(text)


# ----- what needs no connection


def built(url: str, *params: Mapping[str, str]) -> str:
    """Add parameters to a URL; later ones win, and those that the URL carries stay."""
    split = urlsplit(url)
    query = dict(parse_qsl(split.query, keep_blank_values=True))
    for more in params:
        query |= more
    return urlunsplit(split._replace(query=urlencode(query), fragment=""))


def followed(url: str, link: str) -> str:
    """Resolve the link to a next page; one that leaves the site would take our headers with it."""
    try:
        target = urljoin(url, link)
        ours, theirs = urlsplit(url), urlsplit(target)
        same = (ours.scheme, ours.hostname, ours.port) == (theirs.scheme, theirs.hostname, theirs.port)
    except ValueError:  # a port that is no number, or half an address
        raise Unreadable(f"the link to its next page is no URL: {link!r:.80}") from None
    if not same:
        raise Unreadable(f"the link to its next page leads to another site, {told(target)}: not followed")
    # A link often leaves out our key; what it does say wins.
    query = dict(parse_qsl(ours.query, keep_blank_values=True))
    query |= parse_qsl(theirs.query, keep_blank_values=True)
    return urlunsplit((ours.scheme, ours.netloc, theirs.path, urlencode(query), ""))


def shortened(url: str, link: str) -> str:
    """Leave out of a link what `followed` adds again: a key in our own URL must not be stored."""
    ours, theirs = urlsplit(url), urlsplit(urljoin(url, link))
    known = parse_qsl(ours.query, keep_blank_values=True)
    query = [pair for pair in parse_qsl(theirs.query, keep_blank_values=True) if pair not in known]
    return urlunsplit(("", "", theirs.path, urlencode(query), ""))


def told(url: str) -> str:
    """Name a place without what may be secret in it: no user, no query, no long part of its path."""
    if breaks_in_login(url):
        return host_of(url)
    parts = urlsplit(url).path.split("/")
    return host_of(url) + "/".join("…" if len(part) >= LONG_SEGMENT else part for part in parts)


def retry_after(header: str | None, now: float) -> Seconds | None:
    """Read a Retry-After: seconds, or a date; None if it says nothing that can be read."""
    if header is None:
        return None
    try:
        return max(float(header), 0.0) if float(header) < 1e9 else None
    except ValueError:
        pass
    try:
        date = datetime.strptime(header, "%a, %d %b %Y %H:%M:%S GMT").replace(tzinfo=UTC)
    except ValueError:
        return None
    return max(date.timestamp() - now, 0.0)


def _unpacker(encoding: str, limit: int) -> Callable[[bytes], bytes]:
    """Return what unpacks a body; never much more than the limit at once."""
    match encoding.strip().lower():
        case "" | "identity":
            return lambda chunk: chunk
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


def _values(url: str, headers: Mapping[str, str]) -> list[str]:
    """List what came in headers, user and query, the longest first; it is masked wherever it is quoted."""
    split = urlsplit(url)
    given = [*headers.values(), *(value for _, value in parse_qsl(split.query)), split.password or ""]
    words = {word for value in given for word in (value, value.rpartition(" ")[2]) if len(word) >= 6}
    return sorted(words, key=len, reverse=True)


@cache
def _library() -> Any:
    try:
        import httpx2
    except ImportError:
        raise Misconfigured('reading a web site needs httpx2: pip install "onefold[worker]"') from None
    # The library logs every URL as it is, with the keys in it.
    logging.getLogger("httpx2").addFilter(hosts_alone)
    return httpx2


@cache
def _trust() -> Any:
    """Load the authorities once: it takes longer than most requests."""
    return _library().create_ssl_context()
