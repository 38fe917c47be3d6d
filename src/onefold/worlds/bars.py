"""The aggregates of Polygon.io: bars of pairs, in pages, with a key that every page must carry.

Minutes are drawn from a seed, some without a quote and so without a bar; longer bars are made of them. The
journal has a line for every minute that truly had one, every correction, and every page that was shown.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

from onefold.core.calendar import Calendar, fx_week, open_in
from onefold.core.coverage import Span
from onefold.runtime import now
from onefold.worlds.journal import Journal
from onefold.worlds.mischief import Mischief
from onefold.worlds.site import Request, Response, Site

KEY = "world-key-0123456789"
MINUTE = 60
SECONDS = {"minute": 60, "hour": 3600, "day": 86_400}

Row = dict[str, Any]


class Bars(Site):
    """The service. What it may be told to do wrong stands in its attributes; by default it is truthful."""

    def __init__(
        self,
        mischief: Mischief | None = None,
        journal: Journal | None = None,
        *,
        key: str = KEY,
        page: int = 500,
        now: Callable[[], float] = now,
    ) -> None:
        self.journal = journal or Journal()
        self.key = key
        self.page = page
        """Bars on a page, at most."""
        self.now = now
        self.minutes: dict[str, dict[int, Row]] = {}
        self.status = "OK"
        self.links_to: str | None = None
        """The host that links lead to, instead of this one."""
        self.circles = False
        """Whether the link of a later page leads back to itself."""
        self.empty_between = False
        """Whether a page without results, but with a link, stands between any two."""
        self.failing: Counter[int] = Counter()
        """How often the page of this number is still answered with a 500, for every stretch."""
        self.hidden: list[tuple[str, Span]] = []
        """Stretches that are answered as if nothing had been quoted."""
        self.shown_until: int | None = None
        """Stretches that begin later are answered with a 429: the plan's rate is used up."""
        self.plan_begins: int | None = None
        """Stretches that begin earlier are answered with a 403: the plan does not reach so far back."""
        self.odd: list[Any] = []
        """Rows that are added to every page."""
        self.odd_since = 0
        """Pages of stretches that begin earlier have none of these rows."""
        super().__init__({("GET", "/v2/aggs/ticker/*"): self._aggregates}, mischief)

    # ----- the truth

    def draw(
        self,
        ticker: str,
        span: Span,
        seed: int = 0,
        *,
        missing: float = 0.02,
        calendar: Calendar | None = None,
        price: float = 1.1,
    ) -> int:
        """Draw the minutes of a stretch in which the market is open, and say how many there are."""
        random = Random(f"{seed} {ticker} {span.since}")
        drawn = self.minutes.setdefault(ticker, {})
        for start in _starts(open_in(span, calendar or fx_week())):
            price *= 1 + random.uniform(-2e-4, 2e-4)
            row = _minute(random, start, price)
            if random.random() >= missing:
                drawn[start] = row
                self.journal.note("minute", ticker=ticker, **row)
        return len(drawn)

    def correct(self, ticker: str, start: int, **values: float) -> None:
        """Change what is said about a minute from now on."""
        self.minutes[ticker][start] |= values
        self.journal.note("correction", ticker=ticker, start=start, **values)

    def truth(self, ticker: str, seconds: int, span: Span) -> list[Row]:
        """Give the bars of this length that start in a span, as of now."""
        until = min(span.until, int(self.now()) + 1)
        known = self.minutes.get(ticker, {})
        hidden = [one for name, one in self.hidden if name == ticker]
        starts = sorted(
            start
            for start in known
            if span.since <= start // seconds * seconds < span.until
            and start < until
            and not any(one.since <= start < one.until for one in hidden)
        )
        grouped: dict[int, list[Row]] = {}
        for start in starts:
            grouped.setdefault(start // seconds * seconds, []).append(known[start])
        return [_joined(start, rows) for start, rows in grouped.items()]

    # ----- answers

    def _aggregates(self, request: Request) -> Response:
        if request.headers.get("Authorization") != f"Bearer {self.key}":
            self.journal.note("stranger", path=request.path)
            return Response({"status": "ERROR", "error": "Unknown API Key"}, 401)
        ticker, _, multiplier, timespan, since, last = request.path.split("/")[4:]
        span = Span(-(-int(since) // 1000), int(last) // 1000 + 1)
        if self.shown_until is not None and span.since >= self.shown_until:
            return Response({"status": "ERROR"}, 429, {"Retry-After": "0.3"})
        if self.plan_begins is not None and span.since < self.plan_begins:
            return Response({"status": "NOT_AUTHORIZED"}, 403)
        number = int(request.query.get("cursor", "0").partition("-")[0])
        if self.failing[number] > 0:
            self.failing[number] -= 1
            return Response({"status": "ERROR", "error": "internal"}, 500)
        seconds = int(multiplier) * SECONDS[timespan]
        empty = self.empty_between and number % 2 == 1
        return self._page(request, ticker, seconds, span, number, empty)

    def _page(
        self, request: Request, ticker: str, seconds: int, span: Span, number: int, empty: bool
    ) -> Response:
        truth = self.truth(ticker, seconds, span)
        page, rest = ([], truth) if empty else (truth[: self.page], truth[self.page :])
        rows: list[Any] = [*page, *(self.odd if span.since >= self.odd_since else ())]
        self.journal.note("page", ticker=ticker, since=span.since, number=number, rows=len(rows))
        body: dict[str, Any] = {
            "ticker": ticker,
            "queryCount": len(rows),
            "resultsCount": len(rows),
            "adjusted": True,
            "status": self.status,
            "request_id": f"{number:032x}",
        }
        # Without any, the service leaves the name out.
        if rows:
            body |= {"results": rows, "count": len(rows)}
        if rest or (number and self.circles):
            body["next_url"] = self._link(request, rest, number)
        return Response(body)

    def _link(self, request: Request, rest: Sequence[Row], number: int) -> str:
        """Write the link to what follows; as the service does, without the key."""
        host = self.links_to or self.url
        parts = request.path.split("/")
        if number and self.circles:
            return f"{host}{request.path}?cursor={number}"
        since = rest[0]["t"] if rest else parts[-2]
        return f"{host}{'/'.join([*parts[:-2], str(since), parts[-1]])}?cursor={number + 1}"


def _starts(stretches: Sequence[Span]) -> list[int]:
    return [
        start
        for stretch in stretches
        for start in range(-(-stretch.since // MINUTE) * MINUTE, stretch.until, MINUTE)
    ]


def _minute(random: Random, start: int, price: float) -> Row:
    opened, close = (round(price * (1 + random.uniform(-1e-4, 1e-4)), 5) for _ in range(2))
    high = round(max(opened, close) * (1 + random.uniform(0, 5e-5)), 5)
    low = round(min(opened, close) * (1 - random.uniform(0, 5e-5)), 5)
    quotes = random.randrange(1, 200)
    average = round((high + low) / 2, 5)
    return {
        "v": quotes,
        "vw": average,
        "o": opened,
        "c": close,
        "h": high,
        "l": low,
        "t": start * 1000,
        "n": quotes,
    }


def _joined(start: int, rows: Sequence[Row]) -> Row:
    quotes = sum(row["v"] for row in rows)
    return {
        "v": quotes,
        "vw": rows[0]["vw"],
        "o": rows[0]["o"],
        "c": rows[-1]["c"],
        "h": max(row["h"] for row in rows),
        "l": min(row["l"] for row in rows),
        "t": start * 1000,
        "n": quotes,
    }
