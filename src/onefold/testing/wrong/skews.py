"""Stores that are wrong about how far apart their workers' clocks may be."""

from __future__ import annotations

from msgspec.structs import replace

from onefold.core.entry import Change, Seen
from onefold.core.key import Key
from onefold.testing.wrong.steps import Clockless, Right


class DoubtsItsOwnClock(Right):
    """Has a clock, and says that it may be off: everybody waits longer than they must."""

    def shown(self, key: Key, seen: Seen) -> Seen:
        return replace(seen, skew=1.0) if seen.entry else seen


class KeepsQuietToLosers(Clockless):
    """Tells a loser how old the holder's claim seems, and not how little that means."""

    def one(self, change: Change) -> Seen:
        seen = super().one(change)
        lost = seen.entry and change.entry and seen.entry.token != change.entry.token
        return replace(seen, skew=0.0) if lost else seen


class CountsTheSkewTwice(Clockless):
    """Takes the skew off what it says, which the decisions do again."""

    def shown(self, key: Key, seen: Seen) -> Seen:
        seen = super().shown(key, seen)
        return replace(seen, idle=max(seen.stood, 0.0))
