"""What the simulation asks of each application: its services, its configuration, and the truth about it.

A part is made anew for every history. It draws everything from the generator that it is given, and reads no
clock but the one that it is given. The truth comes from the journals of the stand-ins alone.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

from onefold.core.entry import Entry, Seen
from onefold.core.key import Key
from onefold.core.ports import Store
from onefold.testing.runtime import EPOCH

Act = Callable[[], object]
Look = Callable[[Sequence[Key]], Sequence[Seen]]


class Setting(NamedTuple):
    """A live setting that an operator puts."""

    name: str
    value: Any


class Part(ABC):
    """One application in one history."""

    name: str
    """The name of the application."""
    span: float = 60.0
    """Seconds in which things happen; then everything becomes quiet, and what is left is finished."""
    began: float = EPOCH
    """The true time of day at which a history begins. The clock cannot be read before the part is made."""
    patience: float = 60.0
    """Seconds after which an operator decides about a key in doubt: longer than any request is on its way."""
    kinds: int = 1
    """How many kinds of workers there are, each with a section of its own."""

    def __init__(self, random: Random, clock: Callable[[], float], folder: Path) -> None:
        self.random = random
        self.clock = clock
        self.folder = folder
        self.outages: Sequence[tuple[float, float]] = ()
        """When nobody can reach the store, in seconds from the beginning."""

    @abstractmethod
    def services(self) -> Sequence[AbstractAsyncContextManager[object]]:
        """Return the stand-ins, and whatever runs beside them; entered before `section` is asked for."""

    @abstractmethod
    def section(self) -> Mapping[str, Any]:
        """Return what `[apps.NAME]` says."""

    def store(self) -> Store | None:
        """Return the ledger, where it must stand in a certain database; None leaves the choice to chance."""
        return None

    def section_of(self, kind: int) -> Mapping[str, Any]:
        """Return what `[apps.NAME]` says to workers of one kind; they count from 0."""
        return self.section()

    def settings(self) -> Sequence[Setting]:
        """Return the live settings that are put before the first worker starts."""
        return ()

    @abstractmethod
    def plan(self) -> Sequence[tuple[float, Act | Setting]]:
        """Return what happens after how many seconds: acts of the outside world, and changes of settings."""

    @abstractmethod
    def calm(self) -> None:
        """Make every service truthful and quick from now on, so that what is left can be finished."""

    @abstractmethod
    def expected(self) -> Counter[str]:
        """Name the effects that there should be by now, from the journals of the services that are read."""

    @abstractmethod
    def happened(self) -> Counter[str]:
        """Name the effects that there were, from the journals of the services that are acted upon."""

    @abstractmethod
    def named(self, key: Key, entry: Entry) -> str | None:
        """Return which of these effects an open entry is about; None if it is about none of them."""

    def did_happen(self, key: Key, entry: Entry, look: Look) -> bool | None:
        """Tell an operator whether the effect of an entry in doubt happened; None if that is to be seen.

        `look` reads entries by their keys.
        """
        return self.happened()[self.named(key, entry) or ""] > 0

    def is_final(self, key: Key, entry: Entry) -> bool:
        """Say whether a parked entry may stay: the service refuses it for good, and that is explained."""
        return False

    def is_deadly(self, key: Key, entry: Entry) -> bool:
        """Say whether the worker that has just written this dies at once; it is asked before `moved`."""
        return False

    def moved(self, key: Key, entry: Entry, look: Look) -> Iterator[str]:
        """Complain about a cursor or a tile that was written just now and is not true."""
        return iter(())

    def wrong(self) -> Iterator[str]:
        """Complain about anything else, at the end of a history."""
        return iter(())
