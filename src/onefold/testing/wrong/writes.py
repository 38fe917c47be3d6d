"""Stores that compare wrongly, keep what they write badly, or do not say what is stored."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence

from msgspec.structs import replace

from onefold.core.entry import Change, Entry, Reply, Seen, State, stamped
from onefold.core.key import Key
from onefold.testing.wrong.steps import Page, Right


class LastWriteWins(Right):
    """Writes whatever comes, over whatever stands."""

    def wanted(self, change: Change) -> Change:
        return replace(change, expected=self.version(change.key)) if change.entry else change


class IgnoresVersions(Right):
    """Updates what is there, whatever version was expected."""

    def wanted(self, change: Change) -> Change:
        now = self.version(change.key)
        return change if None in (now, change.expected, change.entry) else replace(change, expected=now)


class AcceptsTheFuture(Right):
    """Refuses old versions only: compares with "less than" instead of "equal"."""

    def wanted(self, change: Change) -> Change:
        now = self.version(change.key)
        ahead = now is not None and change.expected is not None and change.expected > now
        return replace(change, expected=now) if ahead else change


class InsertOverwrites(Right):
    """Inserts with "insert or replace"."""

    def wanted(self, change: Change) -> Change:
        return replace(change, expected=self.version(change.key)) if change.expected is None else change


class UpdateInserts(Right):
    """Writes an update where nothing is: an upsert."""

    def wanted(self, change: Change) -> Change:
        return replace(change, expected=None) if self.version(change.key) is None and change.entry else change


class ReadThenWrite(Right):
    """Compares first and writes later, whatever happened in between."""

    def tried(self, change: Change) -> Seen:
        if self.version(change.key) != change.expected:
            return super().tried(change)
        time.sleep(0)  # another thread's turn
        return super().tried(replace(change, expected=self.version(change.key)))


class AwaitsThenWrites:
    """The same mistake, awaited."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self.store = Right(clock)

    async def get(self, keys: Sequence[Key]) -> Sequence[Seen]:
        return self.store.get(keys)

    async def swap(self, changes: Sequence[Change]) -> Sequence[Reply]:
        fit = [self.store.version(change.key) == change.expected for change in changes]
        await asyncio.sleep(0)
        return [self._one(change, fits) for change, fits in zip(changes, fit, strict=True)]

    def _one(self, change: Change, fits: bool) -> Seen:
        return self.store.one(replace(change, expected=self.store.version(change.key)) if fits else change)

    async def scan(
        self, scope: str | None, states: Sequence[State], due: bool, after: str | None, limit: int
    ) -> Page:
        return self.store.scan(scope, states, due, after, limit)

    async def close(self) -> None:
        self.store.close()


# ----- replying


class AlwaysSaysYes(Right):
    """Replies with what was asked for, whether or not it was written."""

    def told(self, change: Change, seen: Seen) -> Seen:
        if change.entry is None:
            return Seen(None)
        now = self.clock()
        version = int(now * 1_000_000) if change.expected is None else change.expected + 1
        return Seen(stamped(change, version, now))


class SaysWhatStoodBefore(Right):
    """Replies with the old entry, as a conditional write that returns old values does."""

    def tried(self, change: Change) -> Seen:
        before = self.get([change.key])[0]
        super().tried(change)
        return before


class RepliesInAnotherOrder(Right):
    """Gives the replies in the order in which they came back."""

    def swap(self, changes: Sequence[Change]) -> Sequence[Reply]:
        return [*reversed(super().swap(changes))]


class ReadsInTheStoresOrder(Right):
    """Gives what was read in the order of the ids, and leaves out what is absent."""

    def get(self, keys: Sequence[Key]) -> Sequence[Seen]:
        found = super().get(sorted(keys, key=lambda key: key.id))
        return [seen for seen in found if seen.entry] if len(keys) > 1 else found


class ReadsFromMemory(Right):
    """Remembers what it read once and says so again, like a stale replica."""

    def __init__(self, clock: Callable[[], float]) -> None:
        super().__init__(clock)
        self._read: dict[bytes, Seen] = {}

    def get(self, keys: Sequence[Key]) -> Sequence[Seen]:
        return [self._read.setdefault(key.id, *super(ReadsFromMemory, self).get([key])) for key in keys]


class StopsAtTheFirstLoser(Right):
    """Leaves the rest of a batch untried when one change is refused."""

    def swap(self, changes: Sequence[Change]) -> Sequence[Reply]:
        for at, change in enumerate(changes):
            if self.version(change.key) != change.expected:
                return [*super().swap(changes[:at]), *self.get([change.key for change in changes[at:]])]
        return super().swap(changes)


class AllOrNothing(Right):
    """Refuses a whole batch because of one loser in it."""

    def swap(self, changes: Sequence[Change]) -> Sequence[Reply]:
        if all(self.version(change.key) == change.expected for change in changes):
            return super().swap(changes)
        return self.get([change.key for change in changes])


class RaisesForTheAbsent(Right):
    """Takes a key that is not there for an error."""

    def shown(self, key: Key, seen: Seen) -> Seen:
        if seen.entry is None:
            raise LookupError(key)
        return seen


class ClosesOnce(Right):
    """Cannot be closed when nothing is open: before its first use, or again."""

    is_open = False

    def tried(self, change: Change) -> Seen:
        self.is_open = True
        return super().tried(change)

    def close(self) -> None:
        if not self.is_open:
            raise RuntimeError("nothing is open")
        self.is_open = False


class ForgetsWhenClosed(Right):
    """Keeps what it was told in the handle only."""

    def close(self) -> None:
        Right.__init__(self, self.clock)


# ----- keeping


class LosesTheBody(Right):
    """Writes the receipt after the state, and does not come to it."""

    def wanted(self, change: Change) -> Change:
        if change.entry is None or change.entry.state != "done":
            return change
        return replace(change, entry=replace(change.entry, body=None))


class SettlesWithoutReceipt(Right):
    """Ends an attempt by writing its state only, and keeps the record in the place of the receipt."""

    def wanted(self, change: Change) -> Change:
        now = self.stored(change.key)
        if not change.settles or now is None or change.entry is None:
            return change
        return replace(change, entry=replace(change.entry, body=now.body))


class SettlesOverOthers(Right):
    """Ends an attempt whatever version is stored."""

    def wanted(self, change: Change) -> Change:
        return replace(change, expected=self.version(change.key)) if change.settles else change


class SettlesFromNothing(Right):
    """Ends an attempt by a row of the written columns only, and forgets the others."""

    def wanted(self, change: Change) -> Change:
        if not change.settles or change.entry is None:
            return change
        return replace(change, entry=replace(change.entry, begun=None, source="", fingerprint=None))


class ForgetsTheClass(Right):
    """Has no column for the effect class, and takes every effect for one that may be repeated."""

    def shown(self, key: Key, seen: Seen) -> Seen:
        return _with(seen, effect="idempotent")


class CutsTheBody(Right):
    """Has a column of 65,535 bytes, and cuts what does not fit."""

    def shown(self, key: Key, seen: Seen) -> Seen:
        return _with(seen, body=_cut(seen.entry.body)) if seen.entry else seen


class EmptyIsNothing(Right):
    """Cannot tell an empty text from none."""

    def shown(self, key: Key, seen: Seen) -> Seen:
        entry = seen.entry
        return _with(seen, body=entry.body or None, fingerprint=entry.fingerprint or None) if entry else seen


class ThreeBytesPerLetter(Right):
    """Cannot keep letters beyond the first 65,536."""

    def shown(self, key: Key, seen: Seen) -> Seen:
        entry = seen.entry
        return _with(seen, body=_basic(entry.body), source=_basic(entry.source)) if entry else seen


def _with(seen: Seen, **fields: str | None) -> Seen:
    entry: Entry | None = seen.entry
    return replace(seen, entry=replace(entry, **fields)) if entry else seen


def _cut(text: str | None) -> str | None:
    return text and text.encode()[:65_535].decode(errors="ignore")


def _basic(text: str | None) -> str | None:
    return text and "".join(letter if letter <= "\uffff" else "?" for letter in text)
