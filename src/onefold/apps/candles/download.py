"""Asks the aggregates of Polygon.io (Massive) for a stretch of bars, page after page.

A page that fails does not take with it what came before; it is told that the answer is not whole. The key is
sent with every page, in a header, and to no other site. An answer or a link that is about something else than
what was asked for is refused. What the rows mean is not known here.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, NamedTuple, Protocol
from urllib.parse import unquote, urlencode, urlsplit, urlunsplit

from onefold.apps.candles.bars import Timeframe
from onefold.core.coverage import Span
from onefold.core.terms import Seconds
from onefold.core.wire import Unreadable, quoted
from onefold.sinks.pace import Pace, Rates
from onefold.sources.web import Manners, Web, followed

URL = "https://api.polygon.io"

ONE_SERVICE = {"api.polygon.io", "api.massive.com"}
"""Two names of one service: a link to the one is asked of the other, whichever was given."""

LIMIT = 50_000
"""Base aggregates per page: the most that the service takes."""

MOST_PAGES = 1_000

FINE = ("OK", "DELAYED")
"""DELAYED says that the plan shows data late, not that it is wrong."""


class Page(NamedTuple):
    """One answer: its rows, and where it goes on."""

    rows: list[Any]
    following: str | None


class Shown(NamedTuple):
    """What the service showed; with `trouble` it is not all."""

    rows: list[Any]
    trouble: Unreadable | None = None


def read_page(body: Any, ticker: str, frame: Timeframe | None = None) -> Page:
    """Read an answer; without `results` it is empty, which says nothing about whether it goes on."""
    if not isinstance(body, Mapping):
        raise Unreadable(f"it is no object, but {type(body).__name__}")
    if body.get("status") not in FINE:
        raise Unreadable(f"its status is {quoted(body.get('status'))[:40]}, neither {' nor '.join(FINE)}")
    rows, following = body.get("results", []), body.get("next_url")
    rows = [] if rows is None else rows
    if not isinstance(rows, list) or not isinstance(following, str | None):
        raise Unreadable("its results are no list, or its next_url is no text")
    _about(body, {"ticker": ticker}, needed=bool(rows))
    if frame:
        _about(body, {"multiplier": frame.multiplier, "timespan": frame.timespan}, needed=False)
    return Page(rows, following or None)


def _about(body: Mapping[str, Any], asked: Mapping[str, Any], needed: bool) -> None:
    """Refuse an answer to another question. The service always names the ticker, and seldom the rest."""
    for name, value in asked.items():
        if name not in body and not needed:
            continue
        # True and 1 are equal in Python, not in JSON.
        if type(body.get(name)) is not type(value) or body[name] != value:
            raise Unreadable(f"it is about {name} {quoted(body.get(name))[:40]}, and {value} was asked for")


Asks = Callable[[str], Awaitable[Page]]


async def whole(first: str, ask: Asks) -> Shown:
    """Follow a chain of pages to its end; whatever goes wrong on the way leaves what came before it."""
    url: str | None = first
    rows: list[Any] = []
    asked: set[str] = set()
    while url is not None:
        asked.add(url)
        try:
            page = await ask(url)
            rows += page.rows
            # Only a missing link ends it: a page may be empty and yet not be the last.
            url = after(url, page.following, asked)
        except Unreadable as error:
            return Shown(rows, error)
    return Shown(rows)


def after(url: str, link: str | None, asked: set[str]) -> str | None:
    """Say which page follows this one, if any; never one of another site, never one that was asked for."""
    if link is None:
        return None
    try:
        following = followed(url, at_home(url, link))
    except ValueError:
        raise Unreadable(f"the link to its next page is no URL: {link!r:.80}") from None
    if following in asked or len(asked) >= MOST_PAGES:
        raise Unreadable(f"the link to its next page leads in a circle, after {len(asked)} pages")
    _same_question(url, following)
    return following


def at_home(url: str, link: str) -> str:
    """Turn a link to the other name of the service into one to the name that we use."""
    home, there = urlsplit(url), urlsplit(link)
    if {home.hostname, there.hostname} <= ONE_SERVICE:
        return urlunsplit(there._replace(scheme=home.scheme, netloc=home.netloc))
    return link


_QUESTION = re.compile(r"(?P<what>.*/ticker/[^/]+/range/[^/]+/[^/]+)/(?P<since>[^/]+)/(?P<until>[^/]+)")


def _same_question(url: str, following: str) -> None:
    """Refuse a link to bars of another ticker, another length or another time than this page's."""
    ours, theirs = (_QUESTION.fullmatch(unquote(urlsplit(one).path)) for one in (url, following))
    if ours is None:
        return
    if theirs is None or theirs["what"] != ours["what"] or not _inside(theirs, ours):
        path = unquote(urlsplit(following).path)
        raise Unreadable(f"the link to its next page is about something else: {path[:120]!r}")


def _inside(theirs: re.Match[str], ours: re.Match[str]) -> bool:
    """Say whether a stretch lies in ours, in milliseconds; a day in its place is left to the rows."""
    asked = [ours["since"], ours["until"], theirs["since"], theirs["until"]]
    if not all(_TIME.fullmatch(part) for part in asked):
        return False
    if not all(map(str.isdigit, asked)):
        return True
    since, until, first, last = map(int, asked)
    return since <= first and last <= until


_TIME = re.compile(r"\d{1,19}|\d{4}-\d{2}-\d{2}", re.ASCII)


class Api(Protocol):
    """Whoever shows bars."""

    async def rows(self, ticker: str, frame: Timeframe, span: Span) -> Shown:
        """Show all bars that start in a span, or say what is missing."""


class Aggregates:
    """The bars of one service, for one key."""

    def __init__(self, url: str, key: str, pace: Seconds = 0.2, manners: Manners | None = None) -> None:
        self._url = url.rstrip("/")
        manners = manners or Manners(tries=3, body_limit=32 * 2**20, patience=60.0)
        self._web = Web(self._url, {"Authorization": f"Bearer {key}"}, manners)
        self._pace = Pace(Rates(everywhere=pace, person=0.0, group=0.0), patience=600.0)

    async def rows(self, ticker: str, frame: Timeframe, span: Span) -> Shown:
        """Ask for all bars that start in a span."""

        async def ask(url: str) -> Page:
            await self._pace.turn("")
            return await self._web.get(url, lambda body: read_page(body, ticker, frame))

        return await whole(self._first(ticker, frame, span), ask)

    def _first(self, ticker: str, frame: Timeframe, span: Span) -> str:
        # The service takes both ends in; the last millisecond of a span is its own, the next is another's.
        since, last = span.since * 1000, span.until * 1000 - 1
        path = f"/v2/aggs/ticker/{ticker}/range/{frame.multiplier}/{frame.timespan}/{since}/{last}"
        query = urlencode({"adjusted": "true", "sort": "asc", "limit": str(LIMIT)})
        return f"{self._url}{path}?{query}"
