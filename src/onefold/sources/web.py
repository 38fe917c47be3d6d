"""Asks a site for JSON: patient with a site that is busy, strict with what it answers, and discreet.

A failure that may pass (no connection, a timeout, 429, 5xx, half an answer) is tried again after a pause; any
other is said immediately. The exchange itself belongs to `runtime.http`. It knows no feed.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeVar
from urllib.parse import parse_qsl, urlencode, urljoin, urlsplit, urlunsplit

import anyio

from onefold.core.backoff import Backoff, pause
from onefold.core.errors import Misconfigured, Refused
from onefold.core.redaction import HIDDEN, is_web, scrubbed
from onefold.core.terms import Seconds
from onefold.core.wire import Unreadable, parse
from onefold.runtime import current, now
from onefold.runtime.http import (
    BODY_LIMIT,
    Answer,
    Ask,
    NoAnswer,
    check_installed,
    retry_after,
    shown,
)

log = logging.getLogger("onefold.sources")

T = TypeVar("T")

BUSY = frozenset({408, 425, 429, 500, 502, 503, 504, 520, 521, 522, 523, 524, 529})


class Manners(NamedTuple):
    """How a site is asked."""

    timeout: Seconds = 30.0
    body_limit: int = BODY_LIMIT
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
        check_installed("reading a web site")
        if not is_web(url, "the URL of the web site"):
            raise Misconfigured(
                f"the URL {shown(url)} is not the URL of a web site: write http://… or https://…"
            )
        self.url = url
        self._headers = {"Accept": "application/json", **headers}
        self._manners = manners
        self._secrets = _values(url, headers)

    async def get(self, url: str, read: Callable[[Any], T]) -> T:
        """Ask until `read` can make something of the answer, or the tries are used up."""
        attempt = 0
        while True:
            attempt += 1
            try:
                return read(parse(self._text(await self._ask(url))))
            except _Again as error:
                reason, wait = str(error), error.wait
            except Refusing as error:
                raise Refusing(f"{shown(url)} {self._clean(error.reason)}", error.status) from None
            except Unreadable as error:
                reason, wait = f"answered, but {error}", None
            if attempt >= self._manners.tries:
                raise Unreadable(f"{shown(url)} {self._clean(reason)}")
            await self._rest(url, reason, wait, attempt)

    async def _rest(self, url: str, reason: str, wait: Seconds | None, attempt: int) -> None:
        rest = pause(self._manners.backoff, attempt, current().random())
        if wait is not None:
            rest = min(wait, self._manners.patience)
        log.warning("%s %s; again in %.1f s", shown(url), self._clean(reason), rest)
        await current().sleep(rest)

    async def _ask(self, url: str) -> Answer:
        limit = self._manners.timeout
        ask = Ask("GET", url, self._headers, b"", limit, self._manners.body_limit, is_question=True)
        try:
            # The client limits each step of its own; a site that sends a byte now and then passes every one.
            with anyio.fail_after(limit):
                return await current().http(ask)
        except TimeoutError:
            raise _Again(f"did not answer within {limit:g} s") from None
        except NoAnswer as error:
            failed = "did not answer in time" if error.late else "could not be read"
            raise _Again(f"{failed} ({error.cause})") from error
        except Refused as error:
            cause = error.__cause__ or error
            raise _Again(f"was not reached ({type(cause).__name__}: {cause})") from error

    def _text(self, answer: Answer) -> str:
        """Judge the status, and read the body of what is an answer."""
        status = answer.status
        if status in BUSY:
            raise _Again(f"answered {status}", retry_after(answer.headers.get("retry-after"), now()))
        if status in (401, 403):
            raise Refusing(f"answered {status}: it wants another key, or refuses ours", status)
        if 300 <= status < 400:
            raise Refusing(f"answered {status}: it leads elsewhere; give the final URL", status)
        if status != 200:
            raise Refusing(f"answered {status}: {answer.body[:200].decode('utf-8', 'replace')!r}", status)
        if answer.lost:
            raise _Again("could not be read: the connection was lost in the middle of the answer")
        if not answer.whole:
            raise Refusing(f"answered more than {self._manners.body_limit} bytes: see body_limit=")
        try:
            return answer.body.decode()
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
        raise Unreadable(f"the link to its next page leads to another site, {shown(target)}: not followed")
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


def _values(url: str, headers: Mapping[str, str]) -> list[str]:
    """List what came in headers, user and query, the longest first; it is masked wherever it is quoted."""
    split = urlsplit(url)
    given = [*headers.values(), *(value for _, value in parse_qsl(split.query)), split.password or ""]
    words = {word for value in given for word in (value, value.rpartition(" ")[2]) if len(word) >= 6}
    return sorted(words, key=len, reverse=True)
