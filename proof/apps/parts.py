"""Which applications there are, which of them a seed is about, and the bugs that their histories must find.

Modules are imported when they are asked for, because a bug has to be planted before.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from itertools import count as naturals
from itertools import islice
from typing import TYPE_CHECKING

from proof.sim.bug import Bug

if TYPE_CHECKING:
    from proof.apps.history import History
    from proof.apps.part import Part

APPS = ("whales", "messages", "candles", "listings", "copytrade")


TURNS = (*APPS[:-1], *APPS)
"""Copytrade, whose histories take twice as long as others, has every ninth turn."""


def app_of(seed: int) -> str:
    """Return the application that a seed is about: they take turns."""
    return TURNS[seed % len(TURNS)]


def seeds_of(app: str, start: int, count: int) -> Iterator[int]:
    """Give the first `count` seeds of one application, from `start` on."""
    return islice((seed for seed in naturals(start) if app_of(seed) == app), count)


def live(seed: int, tracing: bool = False) -> History:
    """Live through the history of a seed."""
    from proof.apps.history import History

    history = History(_part(app_of(seed)), seed, tracing)
    history.live()
    return history


def _part(app: str) -> type[Part]:
    found: type[Part] = getattr(import_module(f"proof.apps.{app}"), app.capitalize())
    return found


def bugs() -> list[Bug]:
    """List the bugs of every application."""
    return [bug for app in APPS for bug in import_module(f"proof.apps.bugs_{app}").BUGS]


def bug_named(name: str) -> Bug:
    """Return a bug by its name; raise LookupError if there is none."""
    for bug in bugs():
        if bug.name == name:
            return bug
    raise LookupError(f"there is no planted bug {name!r}: ./dev sim apps --list names them")
