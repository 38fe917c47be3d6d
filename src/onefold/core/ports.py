"""The ports that a user may replace, as protocols. `Source` and `Sink` join them with the worker.

A store is a map with one atomic write. It takes no decision of the protocol: it compares versions,
assigns version and time, and says what is stored afterwards.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from onefold.core.entry import Change, Reply, Seen, State
from onefold.core.flow import Found
from onefold.core.key import Key


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
