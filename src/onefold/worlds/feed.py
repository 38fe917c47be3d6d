"""A feed of trade-like rows over a site: pages by offset, token, link or none, while rows go on arriving.

Rows arrive between requests, by a seed and not by a clock, so that a run can be repeated. The journal says
what exists, in the order in which it came to exist. What a row means is the stand-in's that is built on this.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Collection, Iterable, Mapping
from random import Random
from typing import Any, Literal

from onefold.worlds.journal import Journal
from onefold.worlds.site import Request, Response, Route

Row = dict[str, Any]
Kind = Literal["offset", "token", "next", "none"]

EPOCH = 1_700_000_000
"""When the first row happens, in seconds since 1970."""


class Feed:
    """Shows its rows, sorted by `at` or by arrival, in pages. Truthful, within its limits."""

    def __init__(
        self,
        path: str = "/trades",
        *,
        newest_first: bool = True,
        paging: Kind = "offset",
        by_arrival: bool = False,
        page: int = 100,
        most: int = 10_000,
        max_offset: int | None = None,
        shows: int | None = None,
        rows: str | None = None,
        at: str = "timestamp",
        cached_for: int = 0,
        journal: Journal | None = None,
    ) -> None:
        """Make a feed without rows.

        `page` is how many rows a page has if nobody says, and `most` how many it has at most. Beyond
        `max_offset` the answer is 400. `shows` is how many of the newest rows are shown at all. `rows` names
        the field of the body in which the list stands. An answer is kept for `cached_for` requests, and given
        again to whoever asks for the same URL.
        """
        self.path = path
        self.newest_first = newest_first
        self.paging = paging
        self.by_arrival = by_arrival
        self.page = page
        self.most = most
        self.max_offset = max_offset
        self.shows = shows
        self.body_field = rows
        self.at = at
        self.cached_for = cached_for
        self.journal = journal or Journal()
        self.asked = 0
        self._rows: list[Row] = []
        self._coming: deque[Row] = deque()
        self._rate = (0, 0)
        self._random = Random(0)
        self._cache: dict[str, tuple[int, Response]] = {}
        self._lock = threading.RLock()

    @property
    def routes(self) -> dict[tuple[str, str], Route]:
        return {("GET", self.path): self.answer}

    # ----- what exists

    def add(self, *rows: Row) -> None:
        """Let rows exist from now on."""
        with self._lock:
            for row in rows:
                self._rows.append(row)
                self.journal.note("exists", id=row["id"], at=row[self.at])

    def remove(self, *ids: str) -> None:
        """Take rows away; the rest moves up."""
        with self._lock:
            self._rows = [row for row in self._rows if row["id"] not in ids]
            for one in ids:
                self.journal.note("gone", id=one)

    def ids(self, field: str, values: Collection[Any]) -> list[str]:
        """Name the rows that have one of these values in a field."""
        with self._lock:
            return [str(row["id"]) for row in self._rows if row.get(field) in values]

    def let_come(self, rows: Iterable[Row], seed: int, least: int = 0, most: int = 5) -> None:
        """Let rows arrive while the feed is read: so many before each answer, by a seed."""
        with self._lock:
            self._coming.extend(rows)
            self._random = Random(seed)
            self._rate = (least, most)

    @property
    def is_growing(self) -> bool:
        """Whether rows are still to come."""
        return bool(self._coming)

    def _arrive(self) -> None:
        for _ in range(self._random.randint(*self._rate)):
            if self._coming:
                self.add(self._coming.popleft())

    # ----- what is shown

    def answer(self, request: Request) -> Response:
        """Show a page."""
        with self._lock:
            self.asked += 1
            self._arrive()
            name = f"{sorted(request.query.items())}"
            until, kept = self._cache.get(name, (0, None))
            if kept is not None and self.asked <= until:
                return kept
            response = self._page(request.query)
            self._cache[name] = (self.asked + self.cached_for, response)
            return response

    def _shown(self, query: Mapping[str, str]) -> list[Row]:
        rows = self._rows if self.by_arrival else sorted(self._rows, key=lambda row: row[self.at])
        rows = rows if self.shows is None else rows[-self.shows :]
        if "start" in query:
            rows = [row for row in rows if row[self.at] >= float(query["start"])]
        return rows[::-1] if self.newest_first else rows

    def _page(self, query: Mapping[str, str]) -> Response:
        rows = self._shown(query)
        limit = min(int(query.get("limit", self.page)), self.most)
        if self.paging in ("token", "next"):
            return self._by_token(rows, query, limit)
        offset = int(query.get("offset", 0)) if self.paging == "offset" else 0
        if self.max_offset is not None and offset > self.max_offset:
            return Response({"error": f"offset must be at most {self.max_offset}"}, 400)
        return self._body(rows[offset : offset + limit])

    def _by_token(self, rows: list[Row], query: Mapping[str, str], limit: int) -> Response:
        """Go on behind the row that the token names, wherever it stands by now."""
        token = query.get("cursor")
        places = [place for place, row in enumerate(rows) if row["id"] == token]
        since = places[0] + 1 if places else 0
        page = rows[since : since + limit]
        following = page[-1]["id"] if since + limit < len(rows) else None
        if self.paging == "next" and following is not None:
            following = f"{self.path}?cursor={following}&limit={limit}"
        return self._body(page, following)

    def _body(self, page: list[Row], following: str | None = None) -> Response:
        if self.paging in ("token", "next"):
            name = "next_cursor" if self.paging == "token" else "next"
            return Response({self.body_field or "data": page, name: following})
        return Response({self.body_field: page} if self.body_field else page)


def trades(seed: int, number: int, *, tie: float = 0.5, late: float = 0.0, lateness: int = 60) -> list[Row]:
    """Draw rows in the order in which they arrive, every one of its own id.

    A share `tie` of them has the time of the row before; a share `late` arrives up to `lateness` seconds
    after its time.
    """
    random = Random(seed)
    now = EPOCH
    rows = []
    for place in range(number):
        now += 0 if random.random() < tie else random.randint(1, 5)
        behind = random.randint(1, lateness) if random.random() < late else 0
        rows.append(
            {
                "id": f"{seed}-{place}",
                "timestamp": now - behind,
                "side": random.choice(("BUY", "SELL")),
                "size": random.randint(1, 100_000),
                "price": round(random.random(), 3),
            }
        )
    return rows
