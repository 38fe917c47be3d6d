"""Walks the pages of a feed: what to ask next, which rows are new, and what could not be read.

Pages shift while they are read, so offsets overlap and every page must show a row of the page before it: a
page that does not is asked for again, further back. A chain that leads in a circle, or on and on, is ended
with a sentence. Nothing here asks anybody, and nothing waits.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

from onefold.core.cursor import Cursor
from onefold.core.record import At, Gap, Record
from onefold.core.rows import Field, found
from onefold.core.wire import Unreadable

TAIL = 3
"""How many rows at the end of a page must lie behind the place where reading stops: one may be wrong."""

STEPS_BACK = 6
"""How often a page that does not join the one before it is asked for again, each time twice as far back."""

CIRCLE = 10
"""After so many pages in a row without a new row, the chain leads nowhere."""

Ended = Literal["end", "budget", "cap"]
"""Why a chain has no next page: the feed ended, our pages are used up, or the feed shows no more."""


class Offset(NamedTuple):
    """Pages by the number of rows to pass over."""

    limit: int = 100
    max: int | None = None
    """The largest offset that the feed takes."""
    overlap: int | None = None
    """How many rows of the page before are read again; a tenth of it, if nothing is said."""
    param: str = "offset"
    limit_param: str = "limit"


class Token(NamedTuple):
    """Pages by a token that each page gives for the next."""

    field: Field = "next_cursor"
    param: str = "cursor"


class Next(NamedTuple):
    """Pages by a link that each page gives to the next; it must stay on the feed's own host."""

    field: Field = "next"


Paging = Offset | Token | Next


class Ask(NamedTuple):
    """What the next page is asked by: parameters, or a link."""

    params: dict[str, str]
    link: str | None = None
    offset: int = 0


class Chain:
    """The pages of one round, up to a budget. `ask` is None when there is no next one."""

    def __init__(
        self, paging: Paging | None, budget: int, ask: Ask | None = None, read_before: int = 0
    ) -> None:
        """Begin at the first page, or go on at `ask`, after so many pages of the same budget."""
        self.ended: Ended | None = None
        self.read = self._read_before = read_before
        self.joined = True
        """Whether the last page shows a row of those before it. If not, it says nothing about the feed."""
        self._paging = paging
        self._budget = budget
        self._shown: dict[int, int] = {}
        self._given: set[str] = set()
        self._idle = 0
        self._full = 0
        self._end = 0
        self._back = 0
        self._steps = 0
        self.ask: Ask | None = ask or Ask({})
        if isinstance(paging, Offset):
            self.ask = self._at(paging, self.ask.offset)

    def take(self, body: Any, count: int, records: Sequence[Record]) -> list[Record]:
        """Note a page of `count` rows, of which these could be read; return those that are new.

        A page that does not join the one before it gives nothing: rows between them may be missing.
        """
        self.read += 1
        self.joined = not isinstance(self._paging, Offset) or self._joins(records)
        if isinstance(self._paging, Offset) and not self.joined:
            self._step_back(self._paging)
            return self._within_budget([])
        new = self._unseen(records)
        self._idle = 0 if new or not count else self._idle + 1
        if self._idle >= CIRCLE:
            raise Unreadable(f"its pages lead in a circle: {CIRCLE} of them showed nothing new")
        match self._paging:
            case None:
                self._stop("end")
            case Offset():
                self._go_on(self._paging, count)
            case _:
                self._follow(self._paging, body)
        return self._within_budget(new)

    @property
    def is_new(self) -> bool:
        """Whether no page was read yet."""
        return self.read == self._read_before

    @property
    def may_be_refused(self) -> bool:
        """Whether the feed may refuse the next page: it lies far back, or its token may be an old one."""
        goes_on = self.is_new and self._read_before > 0
        return self.ask is not None and (self.ask.offset > 0 or goes_on)

    def refuse(self) -> None:
        """Note that the feed would not show the page that was asked for."""
        self._stop("cap")

    def _stop(self, why: Ended) -> None:
        self.ended, self.ask = why, None

    def _within_budget(self, new: list[Record]) -> list[Record]:
        if self.ask and self.read >= self._budget:
            self._stop("budget")
        return new

    def _unseen(self, records: Sequence[Record]) -> list[Record]:
        """Leave out what an earlier page showed, to the letter; repeats inside a page are the feed's own."""
        marks = [(hash((one.id, one.at)), hash(repr(one.body))) for one in records]
        new = [one for one, (name, text) in zip(records, marks, strict=True) if self._shown.get(name) != text]
        self._shown.update(marks)
        return new

    # ----- by offset

    def _at(self, paging: Offset, offset: int) -> Ask:
        params = {paging.limit_param: str(paging.limit), paging.param: str(offset)}
        return Ask(params, offset=offset)

    def _joins(self, records: Sequence[Record]) -> bool:
        return self.read == self._read_before + 1 or any(
            hash((one.id, one.at)) in self._shown for one in records
        )

    def _go_on(self, paging: Offset, count: int) -> None:
        assert self.ask is not None, "a page was asked for"
        self._full = max(self._full, count)
        self._end = self.ask.offset + count
        self._back = min(max(1, count // 10 if paging.overlap is None else paging.overlap), count - 1)
        self._steps = 0
        # A feed may show less than it is asked for; only a page shorter than its neighbours is the last.
        if count < max(self._full, 2):
            self._stop("end")
        elif paging.max is not None and self.ask.offset >= paging.max:
            self._stop("cap")
        else:
            offset = self._end - self._back
            self.ask = self._at(paging, offset if paging.max is None else min(offset, paging.max))

    def _step_back(self, paging: Offset) -> None:
        assert self.ask is not None, "a page was asked for"
        self._steps += 1
        self._back *= 2
        if self.ask.offset == 0 or self._steps > STEPS_BACK:
            raise Unreadable("its pages shift faster than they can be read, or one of them is missing")
        self.ask = self._at(paging, max(self._end - self._back, 0))

    # ----- by token or link

    def _follow(self, paging: Token | Next, body: Any) -> None:
        given = found(body, paging.field, "what leads to its next page")
        if given is None or given is False or given == "":
            self._stop("end")
            return
        if given is True or not isinstance(given, str | int):
            raise Unreadable(f"what leads to its next page is no text, but {type(given).__name__}")
        text = str(given)
        if text in self._given:
            raise Unreadable("its pages lead in a circle: what leads to the next one came before")
        self._given.add(text)
        self.ask = Ask({paging.param: text}) if isinstance(paging, Token) else Ask({}, link=text)


def is_behind(records: Sequence[Record], stop: At | None) -> bool:
    """Say whether a page of a newest-first feed ends behind the place up to which it is read."""
    return stop is not None and bool(records) and all(one.at < stop for one in records[-TAIL:])


class Part(NamedTuple):
    """Which part of what a round shows is handed on, both ends included; None for no end.

    While pages are read, rows arrive, and late ones arrive behind us. If the round ran on to rows younger
    than itself, the cursor would follow them, and what came late behind us would be further back than `lag`.
    So a round of a feed with a lag ends at the present of its beginning, and a walk that goes on in the
    middle at the first rows that it shows.
    """

    since: At | None = None
    until: At | None = None

    def holds(self, at: At) -> bool:
        return (self.since is None or at >= self.since) and not self.is_before(at)

    def is_before(self, at: At) -> bool:
        """Say whether something is left to the next round, because it came during this one."""
        return self.until is not None and at > self.until


def highest(*places: At | None) -> At | None:
    """Return the greatest place of those that are known."""
    return max((at for at in places if at is not None), default=None)


def lowest(records: Sequence[Record]) -> At | None:
    """Return the least order value at the end of a page."""
    return min((one.at for one in records[-TAIL:]), default=None)


def gap_behind(cursor: Cursor, since: At | None, reached: At | None, chain: Chain) -> Gap | None:
    """Say what a newest-first chain left unread, that ended before it came to where it was to stop.

    A feed that ends at the cursor showed everything; one that was cut off there may hold back half a tie.
    A first reading that was not told where to begin leaves nothing unread: it begins where it came to.
    """
    cut = chain.ended in ("budget", "cap")
    if reached is None or (cursor.at is None and since is None):
        return None
    if cursor.at is None:
        met = not cut or (since is not None and reached < since)
    else:
        met = reached < cursor.at or (reached == cursor.at and not cut)
    return None if met else Gap(since if cursor.at is None else cursor.at, reached, _why(chain))


def gap_before(cursor: Cursor, records: Sequence[Record]) -> Gap | None:
    """Say what is missing before the first page of an oldest-first chain, which begins at the cursor."""
    first = min((one.at for one in records), default=None)
    if cursor.at is None or first is None or first <= cursor.at:
        return None
    return Gap(cursor.at, first, "the feed no longer shows what stood at the cursor")


def _why(chain: Chain) -> str:
    match chain.ended:
        case "budget":
            return f"{chain.read} pages were read without coming to it: raise pages="
        case "cap":
            return f"the feed shows no more than {chain.read} pages"
        case _:
            return "the feed ends before it"
