"""Records from the pages of a web feed, asked for again and again.

One round is one chain of pages up to the present, from the cursor minus `lag` on. A newest-first feed is
walked back to there and handed on oldest first, so that a crash in the middle abandons nothing. A walk leaves
steps beside the cursor: a worker that died on its way back is followed by one that goes on from there. What
the feed no longer shows becomes a gap; an answer that cannot be believed raises, and then the cursor stays.
"""

from __future__ import annotations

import logging
import math
from collections import OrderedDict, deque
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from datetime import datetime
from hashlib import blake2b
from typing import Any, Literal, NamedTuple

from onefold.core.backoff import Backoff
from onefold.core.cursor import Cursor, start
from onefold.core.errors import Misconfigured
from onefold.core.paging import (
    Ask,
    Chain,
    Next,
    Offset,
    Paging,
    Part,
    Token,
    gap_before,
    gap_behind,
    highest,
    is_behind,
    lowest,
)
from onefold.core.record import At, Broken, Fate, Gap, Mark, Page, Record
from onefold.core.rows import UNITS, Field, Shape, Unit, records, rows_of, spelled
from onefold.core.terms import Duration, Seconds, epoch, forever_or_seconds, seconds
from onefold.core.trail import Step, bound, taken_up
from onefold.core.wire import Unreadable
from onefold.runtime import current
from onefold.runtime.http import shown
from onefold.sources.web import Manners, Refusing, Web, built, followed, shortened

__all__ = ["Next", "Offset", "Poll", "Token"]

log = logging.getLogger("onefold.sources")

Order = Literal["newest-first", "oldest-first"]
Vary = str | Callable[[float], Mapping[str, str]]
Begins = Callable[[Cursor], Awaitable[At | None]]

HAND_ON = 500
"""How many records are handed on at once."""

BEYOND = frozenset({400, 404, 410, 416, 422})
"""How sites answer an offset that is larger than they like, or a token that they no longer know."""

STALE = 3
"""After so many rounds an answer that seems to be an old one is believed: rows may have been taken away."""

SET_ASIDE = 10_000
"""How many broken rows are remembered, so that a re-read does not complain again."""


class _Shown(NamedTuple):
    """One page of a feed: its rows that could be read, those of them that are new, and the broken."""

    size: int
    records: Sequence[Record]
    new: Sequence[Record]
    broken: Sequence[Broken]


class Poll:
    """Reads a feed of JSON pages.

    `id` names a row and `at` says where it stands in time: names of fields, with dots for fields inside them,
    or functions of the row. `unit` is what `at` counts; None for an order that is no time, as block numbers.
    Rows of equal `at` may come in any number, but must keep their order while a chain of pages is read.
    """

    repeats = True

    def __init__(
        self,
        url: str,
        *,
        id: Field,
        at: Field = "timestamp",
        unit: Unit | None = "s",
        rows: Field | None = None,
        order: Order = "newest-first",
        paging: Paging | None = None,
        pages: int = 200,
        every: Duration = 2,
        lag: Duration | None = None,
        reach: Duration = "forever",
        since: At | datetime | Begins | None = None,
        start: str | None = None,
        params: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
        vary: Vary | None = None,
        may_be_empty: bool = False,
        most: int = 10_000,
        timeout: Duration = 30,
        body_limit: int = Manners().body_limit,
        tries: int = Manners().tries,
        backoff: tuple[Duration, Duration] = (0.5, 30),
    ) -> None:
        """Set a feed up.

        `paging` says how its pages hang together, `pages` how many are read in a round, and `start` names the
        parameter by which an oldest-first feed begins at a time. `since` is where the first round begins; a
        function is awaited with the first cursor of a process, and what it returns is a floor for `lag` too.
        `vary` is a parameter that changes with every request, or a function of the time that gives
        parameters, against caches on the way. `most` is how many records a round of a newest-first feed keeps
        in memory. `may_be_empty` believes an empty answer where there were records before.
        """
        _check(order, unit, paging, pages, most)
        manners = Manners(
            seconds(timeout, "timeout"),
            body_limit,
            tries,
            Backoff(seconds(backoff[0], "backoff"), seconds(backoff[1], "backoff")),
        )
        fixed = {name: str(value) for name, value in (params or {}).items()}
        self._web = Web(built(url, fixed), headers or {}, manners)
        self._shape = Shape(id, at, unit, rows)
        self._order = order
        self._paging = paging
        self._pages = pages
        self._every = seconds(every, "every")
        self._begins: Begins | None = since if callable(since) else None
        self._since = _place(since)
        self._start = start
        self._vary = vary
        self._may_be_empty = may_be_empty
        self._most = self._room = most
        self.timed = unit is not None
        self.lag: Seconds = 0.0 if lag is None else seconds(lag, "lag")
        self.reach: Seconds | None = forever_or_seconds(reach, "reach")
        self._due = -math.inf
        self._at_once = False
        self._floor: At | None = None
        self._seen: At | None = None
        self._newest: At | None = None
        self._doubts = 0
        self._short_lag = False
        self._feed = _named(self._web.url, paging)
        self._climbed: At | None = None
        """Up to where the steps of an unfinished walk were used in this process."""
        self._set_aside: OrderedDict[int, None] = OrderedDict()

    async def tell(self, fates: Sequence[tuple[Record, Fate]]) -> None:
        """A feed does not want to know."""

    async def read(self, cursor: Cursor) -> AsyncIterator[Page]:
        """Read one round, not before it is due."""
        await current().sleep(max(self._due - current().monotonic(), 0))
        self._due = current().monotonic() + self._every
        if self._begins is not None:
            self._since = self._floor = await self._begins(cursor)
            self._begins = None
        round_ = self._newest_first if self._order == "newest-first" else self._oldest_first
        async for page in round_(cursor):
            yield page._replace(broken=self._news(page.broken))
            self._remember(page.broken)
        if self._at_once:
            self._due = -math.inf

    # ----- newest first

    async def _newest_first(self, cursor: Cursor) -> AsyncIterator[Page]:
        stop = self._stop(cursor)
        trail = taken_up(cursor.mark, self._feed, cursor.at)
        passed = highest(stop if cursor.at is None else cursor.at, trail.done)
        step = trail.lowest(highest(passed, self._climbed))
        # If its page cannot be read, the next round begins above it.
        self._climbed = math.inf if step is None else step.at
        chain = Chain(self._paging, self._pages, *(step[1:] if step else ()))
        kept: deque[Record] = deque(maxlen=self._room)
        broken: list[Broken] = []
        reached: At | None = None
        part, found, behind = Part(), 0, False
        while (ask := chain.ask) and not behind:
            is_first = chain.is_new
            shown = await self._page(chain, {})
            place = bound(shown.records, passed)
            if is_first and step is None:
                self._believe(shown, cursor)
                part = self._part(stop, highest(self._seen, *map(_at, shown.records)))
            elif step and is_first:
                if place is None:
                    break  # rows went away, and this page is further back than it was
                part, trail = Part(stop, place), trail.replaced(step, place)
            wanted = self._wanted(shown, part)
            kept.extend(wanted)
            found += len(wanted)
            broken += shown.broken
            reached = lowest(shown.records) if shown.records else reached
            behind = is_behind(shown.records, stop)
            if place is not None and not is_first and not behind:
                trail = trail.longer(Step(place, self._storable(ask), chain.read - 1))
                self._climbed = None
                yield Page((), more=True, mark=Mark(None, trail.written(cursor.at)))
        gap = None if behind else gap_behind(cursor, self._since, reached, chain)
        if gap is None and step is None:
            self._tell_short_lag(stop, reached, chain)
        is_full = found > len(kept)
        self._make_room(kept, cursor, is_full)
        if is_full:
            self._climbed = max(map(_at, kept))
        elif step:
            self._climbed = highest(step.at, part.until)
            trail = trail._replace(done=highest(trail.done, part.until))
        else:
            self._climbed = math.inf
        more = self._at_once = is_full or step is not None
        left = Mark(None, trail.beyond(self._climbed).written(cursor.at)) if trail.steps else None
        for page in _handed_on(sorted(kept, key=_at), more, left):
            yield page._replace(gap=gap, broken=broken)
            gap, broken = None, []

    def _storable(self, ask: Ask) -> Ask:
        return ask if ask.link is None else ask._replace(link=shortened(self._web.url, ask.link))

    def _make_room(self, kept: Sequence[Record], cursor: Cursor, more: bool) -> None:
        """Keep more next time, if a tie or the lag is so large that what was kept leads no further."""
        if not more:
            self._room = self._most
        elif cursor.at is not None and max(map(_at, kept)) <= cursor.at:
            self._room *= 2
            log.warning(
                "%s has more records in its lag or in one tie than most=: keeping %d", self, self._room
            )

    def _believe(self, shown: _Shown, cursor: Cursor) -> None:
        """Refuse a first page that is older than what was seen before: a cache, or a lie."""
        known = highest(self._newest, cursor.at)
        self._refuse_nothing(shown, known)
        newest = highest(*map(_at, shown.records))
        if newest is not None and known is not None and newest < known:
            self._doubts += 1
            if self._doubts <= STALE:
                raise Unreadable(
                    f"{self} shows nothing after {newest}, but {known} was seen before: a cache? see vary="
                )
            log.warning("%s shows nothing after %s any more, though %s was seen", self, newest, known)
            return
        self._doubts = 0
        self._newest = newest if newest is not None else self._newest

    def _tell_short_lag(self, stop: At | None, reached: At | None, chain: Chain) -> None:
        """Say, once, that the feed shows the cursor but not the whole of the lag behind it."""
        cut = chain.ended in ("budget", "cap") or (chain.ended == "end" and self._paging is None)
        short = cut and stop is not None and reached is not None and reached > stop
        if short and self.lag and not self._short_lag:
            log.warning(
                "%s shows less than its lag: what comes so late is missed (back to %s)", self, reached
            )
        self._short_lag = short

    # ----- oldest first

    async def _oldest_first(self, cursor: Cursor) -> AsyncIterator[Page]:
        stop = self._stop(cursor)
        begin = {} if self._start is None or stop is None else {self._start: spelled(stop, self._shape.unit)}
        part = self._part(stop, highest(self._seen, cursor.at, current().time() if self.timed else None))
        chain = Chain(self._paging, self._pages)
        further = held = False
        while chain.ask:
            is_first = chain.is_new
            shown = await self._page(chain, begin)
            gap = await self._first(shown, cursor, begin) if is_first else None
            wanted = self._wanted(shown, part)
            further = further or any(cursor.at is None or one.at > cursor.at for one in wanted)
            held = held or any(part.is_before(one.at) for one in shown.new)
            self._at_once = chain.ended != "end"
            yield Page(wanted, gap, self._at_once or (held and not further), shown.broken)
        if chain.ended != "end" and not further and not held:
            raise Unreadable(
                f"{self} shows {chain.read} pages that lead no further than {cursor.at}: "
                "raise pages= or the limit of a page, or name the parameter start="
            )

    async def _first(self, shown: _Shown, cursor: Cursor, begin: Mapping[str, str]) -> Gap | None:
        """Look at the first page: it must show the cursor. A gap is believed if it is seen twice."""
        self._refuse_nothing(shown, cursor.at)
        gap = gap_before(cursor, shown.records)
        if gap is None:
            return None
        again = await self._page(Chain(self._paging, self._pages), begin)
        if gap_before(cursor, again.records) != gap:
            raise Unreadable(f"{self} gave two answers to one question: one of them is an old one")
        return gap

    # ----- pages

    async def _page(self, chain: Chain, begin: Mapping[str, str]) -> _Shown:
        assert chain.ask is not None, "the caller looked"
        url = self._url(chain.ask, begin)
        try:
            body, rows = await self._web.get(url, self._rows)
        except Refusing as error:
            if error.status not in BEYOND or not chain.may_be_refused:
                raise
            log.warning("%s; what lies beyond is not shown", error)
            chain.refuse()
            return _Shown(0, (), (), ())
        try:
            good, broken = records(rows, self._shape, current().time())
            new = chain.take(body, len(rows), good)
            return _Shown(len(rows), good if chain.joined else (), new, broken)
        except Unreadable as error:
            raise Unreadable(f"{self} cannot be believed: {error}") from None

    def _rows(self, body: Any) -> tuple[Any, list[Any]]:
        return body, rows_of(body, self._shape.rows)

    def _url(self, ask: Ask, begin: Mapping[str, str]) -> str:
        now = current().time()
        match self._vary:
            case None:
                varied: Mapping[str, str] = {}
            case str():
                varied = {self._vary: str(int(current().time() * 1e9))}
            case _:
                varied = {name: str(value) for name, value in self._vary(now).items()}
        url = self._web.url if ask.link is None else followed(self._web.url, ask.link)
        return built(url, {} if ask.link else begin, ask.params, varied)

    def _stop(self, cursor: Cursor) -> At | None:
        begin = start(cursor, self.lag)
        if begin is None or cursor.at is None:
            return self._since
        # Records from before the first start are not late. A cursor from before it was set by an operator.
        return begin if self._floor is None or cursor.at < self._floor else max(begin, self._floor)

    def _part(self, stop: At | None, present: At | None) -> Part:
        """Bound a round; one that knows no present yet only looks for it."""
        return Part(stop, (-math.inf if present is None else present) if self.lag else None)

    def _wanted(self, shown: _Shown, part: Part) -> list[Record]:
        self._seen = highest(self._seen, *map(_at, shown.records))
        return [one for one in shown.new if part.holds(one.at)]

    def _refuse_nothing(self, shown: _Shown, known: At | None) -> None:
        """Refuse an empty answer where there were records before, unless the feed may have let go of them."""
        if shown.size or known is None or self._may_be_empty:
            return
        if self.reach is not None and self.timed and known < current().time() - self.reach:
            return
        raise Unreadable(f"{self} shows nothing, though there were records up to {known}: see may_be_empty=")

    # ----- broken rows

    def _news(self, broken: Sequence[Broken]) -> list[Broken]:
        # One may stand in the overlap of two pages.
        return [one for one in dict.fromkeys(broken) if hash(one) not in self._set_aside]

    def _remember(self, broken: Sequence[Broken]) -> None:
        """Note what the worker has taken; had it failed to, we would not come here."""
        self._set_aside.update((hash(one), None) for one in broken)
        while len(self._set_aside) > SET_ASIDE:
            self._set_aside.popitem(last=False)

    def __str__(self) -> str:
        return shown(self._web.url)


def _place(since: At | datetime | Begins | None) -> At | None:
    if isinstance(since, datetime):
        return epoch(since, "since")
    return None if callable(since) else since


def _at(record: Record) -> At:
    return record.at


def _named(url: str, paging: Paging | None) -> str:
    """Name a feed and how it is paged, by a digest: its URL may hold a secret."""
    return blake2b(f"{type(paging).__name__} {url}".encode(), digest_size=8).hexdigest()


def _handed_on(found: Sequence[Record], more: bool, mark: Mark | None) -> list[Page]:
    """Cut what was collected into pages; only the last one may say that this was the present."""
    cuts = range(0, max(len(found), 1), HAND_ON)
    pages = [Page(found[at : at + HAND_ON], more=more or at + HAND_ON < len(found)) for at in cuts]
    return [*pages[:-1], pages[-1]._replace(mark=mark)]


def _check(order: str, unit: str | None, paging: object, pages: int, most: int) -> None:
    if order not in ("newest-first", "oldest-first"):
        raise Misconfigured(f"order is {order!r}: write newest-first or oldest-first")
    if unit is not None and unit not in (*UNITS, "iso"):
        raise Misconfigured(f"unit is {unit!r}: write one of {', '.join(UNITS)}, iso, or None")
    if paging is not None and not isinstance(paging, Offset | Token | Next):
        raise Misconfigured(f"paging is {paging!r:.80}: write Offset(…), Token(…), Next(…) or None")
    if isinstance(paging, Offset) and paging.limit < 2:
        raise Misconfigured(f"Offset has a limit of {paging.limit}: a page must hold 2 rows or more")
    if pages < 1 or most < 1:
        raise Misconfigured(f"pages is {pages} and most is {most}: write 1 or more")
