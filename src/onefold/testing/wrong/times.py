"""Stores that are wrong about versions, fences, times, expiry or removal."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec.structs import replace

from onefold.core.entry import Change, Entry, Seen, expired
from onefold.core.key import Key
from onefold.testing.wrong.steps import Right


class VersionRestartsAtOne(Right):
    """Counts the versions of a key from one, and again from one after a removal."""

    def __init__(self, clock: Callable[[], float]) -> None:
        super().__init__(clock)
        self._shift: dict[bytes, int] = {}

    def first(self, change: Change, version: int) -> int:
        return 1

    def wanted(self, change: Change) -> Change:
        shift = self._shift.get(change.key.id, 0)
        return change if change.expected is None else replace(change, expected=change.expected + shift)

    def tried(self, change: Change) -> Seen:
        new = self.version(change.key) is None
        seen = super().tried(change)
        if new and seen.entry:
            self._shift[change.key.id] = seen.entry.version - self.first(change, seen.entry.version)
        return seen

    def shown(self, key: Key, seen: Seen) -> Seen:
        shift = self._shift.get(key.id, 0)
        if seen.entry is None:
            return seen
        fence = seen.entry.fence - shift if seen.entry.fence >= shift else seen.entry.fence
        return replace(seen, entry=replace(seen.entry, version=seen.entry.version - shift, fence=fence))


class KeepsTheCallersVersion(VersionRestartsAtOne):
    """Starts with the version that the caller wrote into the entry."""

    def first(self, change: Change, version: int) -> int:
        return (change.entry.version if change.entry else 0) or version


class ClockAsEveryVersion(Right):
    """Takes a new reading of its clock for every write, so that nobody can tell whose write came next."""

    def wanted(self, change: Change) -> Change:
        now = self.stored(change.key)
        fits = now is not None and change.expected == int(now.written * 1_000_000)
        return replace(change, expected=now.version) if now and fits else change

    def shown(self, key: Key, seen: Seen) -> Seen:
        if seen.entry is None:
            return seen
        return replace(seen, entry=replace(seen.entry, version=int(seen.entry.written * 1_000_000)))


class NoFence(Right):
    """Stores the fence as it is given, even if that is none."""

    def shown(self, key: Key, seen: Seen) -> Seen:
        entry = seen.entry
        return (
            replace(seen, entry=replace(entry, fence=0)) if entry and entry.fence == entry.version else seen
        )


class FenceFollowsEveryWrite(Right):
    """Takes the version of every write as the fence, so that a renewal looks like a new attempt."""

    def wanted(self, change: Change) -> Change:
        return replace(change, entry=replace(change.entry, fence=0)) if change.entry else change


class CallerClock(Right):
    """Believes the time that a caller writes into an entry."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._given = 0.0
        super().__init__(lambda: self._given or clock())

    def tried(self, change: Change) -> Seen:
        self._given = change.entry.written if change.entry else 0.0
        try:
            return super().tried(change)
        finally:
            self._given = 0.0


class RoundsTimes(Right):
    """Keeps whole seconds only."""

    def shown(self, key: Key, seen: Seen) -> Seen:
        if seen.entry is None:
            return seen
        times = {name: getattr(seen.entry, name) for name in ("begun", "written", "not_before", "expires")}
        whole: dict[str, Any] = {name: None if at is None else float(int(at)) for name, at in times.items()}
        return replace(seen, entry=replace(seen.entry, **whole))


class KeepsOldTimes(Right):
    """Does not clear the time of forgetting when an entry is written again."""

    def wanted(self, change: Change) -> Change:
        now = self.stored(change.key)
        if now is None or now.expires is None or change.entry is None or change.keep is not None:
            return change
        return replace(change, keep=now.expires - self.clock())


class ForgetsTheBeginning(Right):
    """Keeps when the effect began only in the write that says so."""

    def wanted(self, change: Change) -> Change:
        return replace(change, entry=replace(change.entry, begun=None)) if change.entry else change


class InsistsOnNewerTimes(Right):
    """Refuses a write whose time is not after the stored one, by timestamps as some databases do."""

    def tried(self, change: Change) -> Seen:
        now = self.stored(change.key)
        return Seen(now) if now and now.written > self.clock() else super().tried(change)


class IdleNeverGrows(Right):
    """Says of every version that it was written just now: nobody is ever taken over."""

    def shown(self, key: Key, seen: Seen) -> Seen:
        return Seen(seen.entry)


class IdleAddsAMinute(Right):
    """Counts from a minute before the write: whoever claims is overtaken at once."""

    def shown(self, key: Key, seen: Seen) -> Seen:
        return replace(seen, idle=seen.idle + 60) if seen.entry else seen


class IdleFromTheCaller(Right):
    """Counts from the time that the caller wrote into the entry."""

    def __init__(self, clock: Callable[[], float]) -> None:
        super().__init__(clock)
        self._written: dict[bytes, float] = {}

    def tried(self, change: Change) -> Seen:
        self._written[change.key.id] = change.entry.written if change.entry else 0.0
        return super().tried(change)

    def shown(self, key: Key, seen: Seen) -> Seen:
        since = self._written.get(key.id, 0.0)
        return replace(seen, idle=max(self.clock() - since, 0.0)) if seen.entry and since else seen


class IdleBelowNothing(Right):
    """Trusts its clock never to go back."""

    def shown(self, key: Key, seen: Seen) -> Seen:
        return replace(seen, idle=self.clock() - seen.entry.written) if seen.entry else seen


class LosersProlong(Right):
    """Lets every refused change make the holder look alive."""

    def __init__(self, clock: Callable[[], float]) -> None:
        super().__init__(clock)
        self._touched: dict[bytes, float] = {}

    def told(self, change: Change, seen: Seen) -> Seen:
        self._touched[change.key.id] = self.clock()
        return seen

    def shown(self, key: Key, seen: Seen) -> Seen:
        since = self._touched.get(key.id, self.clock())
        return replace(seen, idle=min(seen.idle, max(self.clock() - since, 0.0)))


# ----- expiry and removal


class HidesExpired(Right):
    """Treats what has expired as absent, as a store with native expiry does."""

    def shown(self, key: Key, seen: Seen) -> Seen:
        return Seen(None) if seen.entry and expired(seen.entry, self.clock()) else seen

    def wanted(self, change: Change) -> Change:
        now = self.stored(change.key)
        gone = now is not None and expired(now, self.clock())
        return replace(change, expected=now.version) if now and gone and change.entry else change


class _Removes(Right):
    """Removes more than it may: what `wrongly` says."""

    def wrongly(self, entry: Entry, expected: int | None) -> bool:
        raise NotImplementedError

    def tried(self, change: Change) -> Seen:
        now = self.stored(change.key)
        if change.entry is None and now and self.wrongly(now, change.expected):
            past = Change(change.key, now.version, replace(now, state="done"), keep=-1.0)
            super().tried(past)
            change = replace(change, expected=now.version + 1)
        return super().tried(change)


class RemovesHeld(_Removes):
    """Removes whatever has the version, done or not."""

    def wrongly(self, entry: Entry, expected: int | None) -> bool:
        return entry.version == expected and entry.state != "done"


class RemovesUnexpired(_Removes):
    """Removes what is done, however long it is to be kept."""

    def wrongly(self, entry: Entry, expected: int | None) -> bool:
        return entry.version == expected and entry.state == "done"


class RemovesAnyVersion(_Removes):
    """Removes what has expired, although it was written again since."""

    def wrongly(self, entry: Entry, expected: int | None) -> bool:
        return expired(entry, self.clock())


class NeverRemoves(Right):
    """Says that it removed, and does not."""

    def tried(self, change: Change) -> Seen:
        return super().tried(change) if change.entry else Seen(None)
