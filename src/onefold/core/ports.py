"""The ports that a user may replace, as protocols: `Store`, `Source` and `Sink`, and the clock.

A store is a map with one atomic write. It takes no decision of the protocol: it compares versions,
assigns version and time, and says what is stored afterwards. A source reads and a sink acts; neither
claims, and neither decides what a record's fate means.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Any, Protocol

from onefold.core.cursor import Cursor
from onefold.core.entry import Change, Effect, Reply, Seen, State
from onefold.core.flow import Found
from onefold.core.key import Key
from onefold.core.record import Fate, Page, Record
from onefold.core.terms import Seconds


class Store(Protocol):
    """A map of keys to entries with one atomic write. Nothing more is asked of it."""

    def get(self, keys: Sequence[Key]) -> Sequence[Seen]:
        """Return what is stored now, in the order asked; never a stale replica's memory."""

    def swap(self, changes: Sequence[Change]) -> Sequence[Reply]:
        """Try each change; return, in order, what is stored under its key afterwards, or UNKNOWN.

        Keys are distinct and sorted by id. Each change is atomic by itself, the batch need not be.
        A refused change writes nothing and is no error. A new entry's version is the store's clock in
        microseconds, any other is the expected one plus 1. A removal (entry None) deletes only what is
        done and expired. An exception says that nothing was written, or that asking again is needed.
        """

    def scan(
        self, scope: str | None, states: Sequence[State], due: bool, after: str | None, limit: int
    ) -> tuple[Sequence[Found], str | None]:
        """Return a page of entries in these states and where the next one starts (None: at the end).

        Open entries cost time in proportion to their own number; done ones a walk over everything.
        `due` leaves out what may not be acted upon yet. Order and `after` are the store's own.
        """

    def close(self) -> None:
        """Let go of connections and files; a closed store may be closed again."""


class Joined(Store, Protocol):
    """A store inside the caller's transaction, which can go back to a point in it. The caller commits."""

    def mark(self, name: str) -> None:
        """Set a point to go back to, if the effect fails."""

    def go_back(self, name: str) -> None:
        """Undo everything since the point, the effect's own writes too."""

    def keep(self, name: str) -> None:
        """Drop the point and keep what was done since."""


class AsyncStore(Protocol):
    """The same port, awaited."""

    async def get(self, keys: Sequence[Key]) -> Sequence[Seen]: ...

    async def swap(self, changes: Sequence[Change]) -> Sequence[Reply]: ...

    async def scan(
        self, scope: str | None, states: Sequence[State], due: bool, after: str | None, limit: int
    ) -> tuple[Sequence[Found], str | None]: ...

    async def close(self) -> None: ...


class Clock(Protocol):
    """This process's monotonic time, and letting it pass."""

    def monotonic(self) -> float: ...

    def sleep(self, seconds: float) -> None: ...


class AsyncClock(Protocol):
    """The same port, awaited."""

    async def monotonic(self) -> float: ...

    async def sleep(self, seconds: float) -> None: ...


class Claim(Protocol):
    """What a sink is told of the claim under which it acts."""

    @property
    def key(self) -> Key: ...

    @property
    def token(self) -> str: ...

    @property
    def fence(self) -> int: ...

    @property
    def lost(self) -> bool: ...

    @property
    def attempt(self) -> int:
        """Which attempt this is, from 1 on."""

    @property
    def name(self) -> str:
        """For whom this effect is, where a record has several; empty otherwise."""

    @property
    def request(self) -> Any:
        """What the sink prepared before its first attempt, the same at every later one; None otherwise."""


class Source(Protocol):
    """Reads. It never claims and never stores its cursor: the worker does both.

    Beside these, a source may have `aclose()` and `note(standings)` (it hears at every showing how its
    records stand: attempts, when next, what went wrong), say `ahead` (how many pages may
    be under way), `finite = True` (a read that ends is the end of it),
    `timed = True` (its order values are seconds since 1970), and have a `backoff` (how long to wait
    before it is read again after it raised).
    """

    @property
    def reach(self) -> Seconds | None:
        """How far back it can show; None for everything."""

    @property
    def repeats(self) -> bool:
        """Whether it can show a record again."""

    @property
    def lag(self) -> Seconds:
        """How late a record may come and still be read."""

    def read(self, cursor: Cursor) -> AsyncIterator[Page]:
        """Read on from a cursor: one round of a poll, one life of a connection. Missed records come first.

        It is called again when it ends, with the cursor as it stands then, and after a pause if it raised.
        """

    async def tell(self, fates: Sequence[tuple[Record, Fate]]) -> None:
        """Hear what became of records: ack, nak, mark. A poll ignores it."""


class Sink(Protocol):
    """Acts. One answer per item: a receipt, or an exception, which is judged by the class of the effect.

    Beside these, a sink may have `batch` (how many items it takes at once, 1 if it says nothing),
    `window` (how long the far side of a keyed effect remembers a key), `prepare(claim, record)` (the
    request to store before it is sent), `probe(claim, record)` (did an attempt in doubt happen?),
    `attend(set_aside)` (a sink that fetches is given a function that parks what it cannot use), and
    `aclose()`, awaited when the worker ends.
    """

    @property
    def effect(self) -> Effect: ...

    async def put(self, work: Sequence[tuple[Claim, Record]]) -> Sequence[Any | Exception]: ...
