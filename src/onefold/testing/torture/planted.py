"""Stores that are wrong on purpose, so that the torture can be seen to find them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from msgspec.structs import replace

from onefold.core.entry import UNKNOWN, Change, Entry, Reply, Seen, State
from onefold.core.flow import Found
from onefold.core.key import Key
from onefold.core.ports import Store


class BlindWrites:
    """Writes *done* and *free* over whatever is stored: the last one wins. Claims it does compare."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def get(self, keys: Sequence[Key]) -> Sequence[Seen]:
        return self._store.get(keys)

    def swap(self, changes: Sequence[Change]) -> Sequence[Reply]:
        stored = self._store.get([change.key for change in changes])
        return self._store.swap([_blind(change, seen) for change, seen in zip(changes, stored, strict=True)])

    def scan(
        self, scope: str | None, states: Sequence[State], due: bool, after: str | None, limit: int
    ) -> tuple[Sequence[Found], str | None]:
        return self._store.scan(scope, states, due, after, limit)

    def close(self) -> None:
        self._store.close()


def _blind(change: Change, seen: Seen) -> Change:
    if seen.entry is None or change.entry is None or change.entry.state not in ("done", "free"):
        return change
    return replace(change, expected=seen.entry.version)


Guess = Literal["busy", "won"]


class Guessing:
    """A client that takes what it did not hear for an answer: somebody else was first, or all went well."""

    def __init__(self, store: Store, guess: Guess) -> None:
        self._store = store
        self._guess = guess

    def get(self, keys: Sequence[Key]) -> Sequence[Seen]:
        return self._store.get(keys)

    def swap(self, changes: Sequence[Change]) -> Sequence[Reply]:
        replies = self._store.swap(changes)
        return [
            self._guessed(change) if reply is UNKNOWN else reply
            for change, reply in zip(changes, replies, strict=True)
        ]

    def _guessed(self, change: Change) -> Seen:
        version = (change.expected or 0) + 1
        if self._guess == "busy" or change.entry is None:
            return Seen(Entry("held", token="somebody else", version=version, lease=600.0))
        return Seen(replace(change.entry, version=version))

    def scan(
        self, scope: str | None, states: Sequence[State], due: bool, after: str | None, limit: int
    ) -> tuple[Sequence[Found], str | None]:
        return self._store.scan(scope, states, due, after, limit)

    def close(self) -> None:
        self._store.close()
