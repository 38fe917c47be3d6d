"""Asks the aggregates of Polygon.io (Massive) for a stretch of bars, page after page.

A page that fails does not take with it what came before; it is told that the answer is not whole. The key is
sent with every page, in a header, and to no other site. What the rows mean is not known here.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, NamedTuple, Protocol
from urllib.parse import urlencode, urlsplit, urlunsplit

from onefold.apps.candles.bars import Timeframe
from onefold.core.coverage import Span
from onefold.core.terms import Seconds
from onefold.core.wire import Unreadable
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


def read_page(body: Any, ticker: str) -> Page:
    """Read an answer; without `results` it is empty, which says nothing about whether it goes on."""
    if not isinstance(body, Mapping):
        raise Unreadable(f"it is no object, but {type(body).__name__}")
    if body.get("status") not in FINE:
        raise Unreadable(f"its status is {body.get('status')!r:.40}, neither {' nor '.join(FINE)}")
    if body.get("ticker", ticker) != ticker:
        raise Unreadable(f"it is about {body['ticker']!r:.40}, and {ticker} was asked for")
    rows, following = body.get("results") or [], body.get("next_url")
    if not isinstance(rows, list) or not isinstance(following, str | None):
        raise Unreadable("its results are no list, or its next_url is no text")
    return Page(rows, following or None)


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
    following = followed(url, at_home(url, link))
    if following in asked or len(asked) >= MOST_PAGES:
        raise Unreadable(f"the link to its next page leads in a circle, after {len(asked)} pages")
    return following


def at_home(url: str, link: str) -> str:
    """Turn a link to the other name of the service into one to the name that we use."""
    home, there = urlsplit(url), urlsplit(link)
    if {home.hostname, there.hostname} <= ONE_SERVICE:
        return urlunsplit(there._replace(scheme=home.scheme, netloc=home.netloc))
    return link


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
        async with self._web.client() as client:

            async def ask(url: str) -> Page:
                await self._pace.turn("")
                return await self._web.get(client, url, lambda body: read_page(body, ticker))

            return await whole(self._first(ticker, frame, span), ask)

    def _first(self, ticker: str, frame: Timeframe, span: Span) -> str:
        # The service takes both ends in; the last millisecond of a span is its own, the next is another's.
        since, last = span.since * 1000, span.until * 1000 - 1
        path = f"/v2/aggs/ticker/{ticker}/range/{frame.multiplier}/{frame.timespan}/{since}/{last}"
        query = urlencode({"adjusted": "true", "sort": "asc", "limit": str(LIMIT)})
        return f"{self._url}{path}?{query}"
