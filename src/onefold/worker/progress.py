"""How far each source was read: what is accounted for in memory, and the cursor in the store.

`Track` decides, from pages that end in any order, how far the cursor may move; it asks nobody. `position`
and `moved` are the text of a cursor in the store, with its run state; it never goes back without an operator.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Iterable, Sequence
from typing import Any

from onefold.core.cursor import Cursor, advance, needed
from onefold.core.documents import named
from onefold.core.key import Key
from onefold.core.paging import highest
from onefold.core.record import At, Fate, Mark

RECENT = 50_000
"""How many records of a source are remembered in memory, so that a re-read costs nothing."""


class Recent:
    """Which records of a source were acted upon lately: it saves questions to the ledger."""

    def __init__(self, limit: int = RECENT) -> None:
        self._limit = limit
        self._fates: OrderedDict[bytes, Fate | None] = OrderedDict()

    def knows(self, key: bytes) -> bool:
        """Say whether a record is under way or accounted for."""
        return key in self._fates

    def is_under_way(self, key: bytes) -> bool:
        """Say whether nobody knows yet what becomes of a record."""
        return key in self._fates and self._fates[key] is None

    def begin(self, key: bytes) -> None:
        """Note that a record is under way."""
        self._fates[key] = None
        while len(self._fates) > self._limit:
            self._fates.popitem(last=False)

    def end(self, key: bytes, fate: Fate) -> None:
        """Note what became of it; what is open must be asked for again."""
        if fate == "open":
            self._fates.pop(key, None)
        elif key in self._fates:
            self._fates[key] = fate

    def fate(self, key: bytes) -> Fate:
        """Say what became of a record that was passed over; what is not known is open."""
        return self._fates.get(key) or "open"


class Ticket:
    """One page under way: its records' places, and their fates once they are known."""

    __slots__ = ("done", "marks", "places", "turn")

    def __init__(
        self, places: Sequence[tuple[At, bytes | None]], turn: int = 0, mark: Mark | None = None
    ) -> None:
        self.places = places
        self.turn = turn
        self.marks: tuple[Mark, ...] = () if mark is None else (mark,)
        self.done = False


class Track:
    """Moves a cursor past the pages that are accounted for, in the order in which they were read.

    What one page left open holds the cursor back from the pages behind it, too, until the source showed it
    again, or was read from there to its end without showing it. Pages that are through and wait behind one
    that is not are put together: of what is accounted for, only the furthest place is kept. So memory is
    bounded by what is open, however often the source is read while an effect hangs.
    """

    def __init__(self, cursor: Cursor, recent: Recent) -> None:
        self.cursor = cursor
        self._recent = recent
        self._under_way: deque[Ticket] = deque()
        self._open: dict[bytes, tuple[At, int]] = {}
        self._turn = 0

    def turn(self) -> None:
        """Note that the source was read to its end, and is read from the cursor on again."""
        self._turn += 1

    def enter(self, places: Sequence[tuple[At, bytes | None]], mark: Mark | None = None) -> Ticket:
        """Note a page; a place without a key was passed over on purpose, and needs nothing."""
        ticket = Ticket(places, self._turn, mark)
        self._under_way.append(ticket)
        return ticket

    @property
    def under_way(self) -> int:
        """How many records are in pages that are not through."""
        return sum(len(ticket.places) for ticket in self._under_way if not ticket.done)

    @property
    def remembered(self) -> int:
        """How many places are kept in memory."""
        return sum(len(ticket.places) for ticket in self._under_way) + len(self._open)

    def end(self, ticket: Ticket) -> Cursor:
        """Note that a page is through, and return how far the cursor may move."""
        ticket.done = True
        while self._under_way and self._under_way[0].done:
            ended = self._under_way.popleft()
            self.cursor = advance(self.cursor, self._fates(ended), ended.marks)
        if self._under_way:
            self._put_together()
        return self.cursor

    def _put_together(self) -> None:
        """Make one of neighbouring pages that are through; they wait for a page before them."""
        kept: deque[Ticket] = deque()
        for ticket in self._under_way:
            if ticket.done and kept[-1].done:
                kept[-1].places = self._unsettled([*kept[-1].places, *ticket.places])
                kept[-1].turn = ticket.turn
                kept[-1].marks = needed([*kept[-1].marks, *ticket.marks], [at for at, _ in kept[-1].places])
            else:
                kept.append(ticket)
        self._under_way = kept

    def _unsettled(self, places: Iterable[tuple[At, bytes | None]]) -> list[tuple[At, bytes | None]]:
        """Leave out what is accounted for, but for the furthest place; and all but one place of a key."""
        furthest: At | None = None
        still: dict[bytes, At] = {}
        for at, key in places:
            if key is not None and (key in self._open or self._recent.fate(key) == "open"):
                still[key] = at
            elif furthest is None or at > furthest:
                furthest = at
        left: list[tuple[At, bytes | None]] = [(at, key) for key, at in still.items()]
        return left if furthest is None else [*left, (furthest, None)]

    def _fates(self, ticket: Ticket) -> Iterable[tuple[At, Fate]]:
        """Say what became of a page, and what earlier ones left open."""
        told: list[tuple[At, Fate]] = []
        for at, key in ticket.places:
            fate: Fate = "done" if key is None else self._recent.fate(key)
            told.append((at, fate))
            if key is not None and fate == "open":
                self._open[key] = (at, ticket.turn)
            elif self._open and key is not None:
                self._open.pop(key, None)
        if self._open:
            # One whole turn later it would have been shown again, if it were still there.
            self._open = {key: one for key, one in self._open.items() if ticket.turn - one[1] < 2}
        return [*told, *((at, "open") for at, _ in self._open.values())]


# ----- in the store


def cursor_key(pipeline: str, source: str) -> Key:
    """Name the document in which a cursor stands."""
    return named("cursors", pipeline, source)


def position(stands: Any) -> tuple[Cursor, int]:
    """Read a cursor and its generation, which grows when an operator moves it."""
    if not stands:
        return Cursor(), 0
    return Cursor(stands.get("at"), stands.get("mark")), int(stands.get("generation", 0))


def moved(stands: Any, cursor: Cursor, generation: int, state: dict[str, Any]) -> dict[str, Any] | None:
    """Say what a cursor's text becomes; None if an operator moved it meanwhile, and our place is stale."""
    found, current = position(stands)
    if current != generation:
        return None
    at, mark = furthest(found, cursor)
    text = {**state, "at": at, "generation": generation, **({} if mark is None else {"mark": mark})}
    before = read_before(stands)
    # Until the source is past it, what it shows is read again on purpose, by whichever worker.
    return {**text, "read_before": before} if before is not None and (at is None or at < before) else text


def read_before(stands: Any) -> At | None:
    """Say how far a source had been read when an operator moved its cursor back."""
    place: At | None = (stands or {}).get("read_before")
    return place


def furthest(stored: Cursor, own: Cursor) -> Cursor:
    """Return the cursor that is further, with its mark; of two at one place our own is the newer."""
    if stored.at == own.at:
        return stored if own.mark is None else own
    return own if highest(stored.at, own.at) == own.at else stored


def put_back(stands: Any, at: At | None, by: str) -> dict[str, Any]:
    """Say what an operator's word makes of a cursor: the only way for it to go back."""
    stood, generation = position(stands)
    before = highest(stood.at, read_before(stands))
    text = {**(stands or {}), "at": at, "generation": generation + 1, "moved_by": by}
    return {**text, "read_before": before}
