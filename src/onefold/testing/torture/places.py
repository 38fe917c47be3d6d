"""Where a torture takes place: for each scheme, how to get a fresh store that several processes can share.

A new store gets a row here, and nothing else of the torture changes. A scheme without a row is answered with
a sentence.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import apsw

from onefold.core.errors import Misconfigured
from onefold.stores import PLANNED, SCHEMES
from onefold.stores.sql import migrations

BUSY_SECONDS = 5.0


class Caller(Protocol):
    """A connection of the caller's own, which a joined ledger takes part in; the caller commits."""

    @property
    def connection(self) -> object: ...

    def rows(self, sql: str, bound: Sequence[Any] = ()) -> list[tuple[Any, ...]]: ...

    def commit(self) -> None: ...

    def close(self) -> None: ...


class Place(NamedTuple):
    """How to come by a fresh store of one kind, and by the connections that can be joined to it."""

    url: Callable[[Path], str]
    """Name a store of its own for every folder."""
    warm: Callable[[], object]
    """Load what every worker needs, before the first fork."""
    callers: tuple[Callable[[str], Caller], ...] = ()
    """Open a caller's own connection to the store at a URL, by each library that can be joined."""


def place(scheme: str) -> Place:
    """Return where a torture of this store takes place, or say why there is none."""
    if scheme in PLACES:
        return PLACES[scheme]
    raise Misconfigured(f"{_why_not(scheme)}: {', '.join(PLACES)} can be tortured")


def _why_not(scheme: str) -> str:
    if scheme == "memory":
        return "the store memory is not shared between processes, so that nothing outlives a death"
    if scheme in PLANNED:
        return f"the store {scheme} is planned, not built yet"
    if scheme in SCHEMES:
        return f"nobody has said yet how to get a fresh {scheme} store for a torture"
    return f"{scheme!r} names no store"


class _Stdlib:
    """The standard library's connection, used as its documentation does."""

    def __init__(self, url: str) -> None:
        self.connection = sqlite3.connect(url.removeprefix("sqlite:///"), timeout=BUSY_SECONDS)

    def rows(self, sql: str, bound: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        return self.connection.execute(sql, bound).fetchall()

    def commit(self) -> None:
        self.connection.commit()

    def close(self) -> None:
        self.connection.close()


class _Apsw:
    def __init__(self, url: str) -> None:
        self.connection = apsw.Connection(url.removeprefix("sqlite:///"))
        self.connection.set_busy_timeout(int(BUSY_SECONDS * 1000))

    def rows(self, sql: str, bound: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        return self.connection.execute(sql, bound).fetchall()

    def commit(self) -> None:
        if self.connection.in_transaction:
            self.connection.execute("COMMIT")

    def close(self) -> None:
        self.connection.close()


PLACES: dict[str, Place] = {
    "sqlite": Place(
        url=lambda folder: f"sqlite:///{folder / 'ledger.db'}",
        warm=lambda: migrations("sqlite"),
        callers=(_Stdlib, _Apsw),
    ),
}
