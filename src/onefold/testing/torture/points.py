"""Where a worker can die: before and after every call on the store, around and inside effect and commit.

Names are made from what the tap sees, so that every call has one; the table says which manner of working
comes past which point. A point that is passed but not in the table is reported: the table is then out
of date.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal, NamedTuple

from onefold.core.entry import Effect
from onefold.drive import Event
from onefold.testing.torture.children import Report

Manner = Literal["single", "slow", "releasing", "refusing", "batch", "returning"]
"""How a worker goes about its keys: one by one, past a heartbeat, giving each back once (by word or by
`Refused`), or several at a time, with `returning` giving each batch back once."""


def _around(*names: str) -> tuple[str, ...]:
    return tuple(f"{name.replace(':', f': {when}')}" for name in names for when in ("before", "after"))


_EFFECT = ("effect: before", "effect: inside", "effect: after")
_LEASED: dict[Manner, tuple[str, ...]] = {
    "single": (*_around("claim: swap", "claim: get"), *_EFFECT, *_around("settle: swap")),
    "slow": _around("renew: swap"),
    "releasing": _around("release: swap"),
    "refusing": _around("refuse: swap"),
    "batch": _around("batch claim: swap", "batch settle: swap"),
    "returning": _around("batch release: swap"),
}

# What the dead left is taken over, or parked if it is one-shot; a one-shot that was given back is taken over.
_REPEATED: dict[Manner, tuple[str, ...]] = {
    "single": _around("take over: swap"),
    "batch": _around("batch take over: swap"),
}
_ONE_SHOT: dict[Manner, tuple[str, ...]] = {
    "single": _around("park: swap"),
    "batch": _around("batch park: swap"),
    "releasing": _around("take over: swap"),
    "returning": _around("batch take over: swap"),
}
_JOINED: dict[Manner, tuple[str, ...]] = {
    "single": (*_around("claim: swap"), *_EFFECT, *_around("settle: swap", "commit:")),
    "refusing": (*_around("refuse: get", "refuse: swap"), *_around("take over: swap")),
    "releasing": _around("release: swap"),
    "batch": _around("batch claim: swap", "batch settle: swap"),
    "returning": _around("batch release: swap", "batch take over: swap"),
}


class Spot(NamedTuple):
    """A crash point, and a manner of working that comes past it."""

    point: str
    manner: Manner


def spots(effect: Effect) -> list[Spot]:
    """Return every crash point of an effect class."""
    tables = {"joined": [_JOINED], "one-shot": [_LEASED, _ONE_SHOT]}.get(effect, [_LEASED, _REPEATED])
    return [Spot(point, manner) for table in tables for manner, points in table.items() for point in points]


class Death(NamedTuple):
    """Die when this point is passed for the n-th time."""

    point: str
    nth: int = 1


class Tripwire:
    """Names the points that this process passes, and kills it at the one it was told."""

    def __init__(self, effect: Effect, death: Death | None, report: Report) -> None:
        self._known = {spot.point for spot in spots(effect)}
        self._death = death
        self._left = death.nth if death else 0
        self._report = report
        self._step = ""
        self.renewed = threading.Event()

    @contextmanager
    def during(self, step: str) -> Iterator[None]:
        """Name the calls on the store that follow."""
        self._step = step
        try:
            yield
        finally:
            self._step = ""

    def tap(self, event: Event) -> None:
        """Pass a point with every call on the store; for `Ledger.tap`."""
        if event.call.port != "store":
            return
        when = "before" if event.seconds is None else "after"
        self.at(f"{self._named(event)}: {when} {event.call.name}")
        if when == "after" and not _in_main_thread():
            self.renewed.set()

    def at(self, point: str) -> None:
        """Pass a point, perhaps for the last time."""
        if point not in self._known:
            self._report("unlisted", point)
        if self._death is None or point != self._death.point:
            return
        self._left -= 1
        if self._left == 0:
            self._report("dies", point)
            os.kill(os.getpid(), signal.SIGKILL)

    def _named(self, event: Event) -> str:
        if not _in_main_thread():
            return "renew"
        batch, _, step = self._step.rpartition(" ")
        return f"{batch} {_kind(step, event)}".strip()


def _kind(step: str, event: Event) -> str:
    """Tell a first claim from a take-over and from parking what a dead holder left."""
    if step != "claim" or event.call.name != "swap":
        return step
    changes = event.call.args[0]
    if any(change.entry.state == "parked" for change in changes):
        return "park"
    return "claim" if changes[0].expected is None else "take over"


def _in_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()
