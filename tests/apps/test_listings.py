"""Listings: every user hears of every flat that fits, once, counted from the chat's own journal."""

from __future__ import annotations

import time

from onefold.worlds.chat import ChatWorld
from onefold.worlds.listings import ListingSites, draw
from onefold.worlds.mischief import Mischief
from tests.apps.letting import (
    USERS,
    expected,
    heard,
    place,
    settings,
    watch,
    worker,
)
from tests.databases import Place
from tests.sinks.stage import run_until

__all__ = ["place"]

TRICKS = {
    "busy": 0.04,
    "error": 0.04,
    "stall": 0.05,
    "cut-before": 0.03,
    "half": 0.03,
    "garbage": 0.02,
    "stale": 0.03,
}


def audience(place: Place, *names: str) -> None:
    for name in names:
        watch(place, name, **USERS[name])


def told_all(world: ListingSites, chat: ChatWorld, *names: str) -> bool:
    return not expected(world, *names) - heard(chat)


def test_every_flat_is_told_once_to_everybody_whom_it_fits_over_a_restart_in_the_middle(place):
    names = tuple(USERS)
    audience(place, *names)
    changes = draw(1, 60)
    sites = ListingSites(Mischief(3, TRICKS, 0.05))  # type: ignore[arg-type]
    with sites as world, ChatWorld(Mischief(4, {"stall": 0.05, "busy": 0.05}, 0.05)) as chat:
        now = time.time()
        for n, change in enumerate(changes[:40]):
            world.happen(now - 60 + n, change)
        run_until(worker(settings(place, world, chat), place), lambda: len(heard(chat)) > 20)
        for n, change in enumerate(changes[40:]):
            world.happen(now - 20 + n / 10, change)
        run_until(worker(settings(place, world, chat), place), lambda: told_all(world, chat, *names))

    assert heard(chat) == expected(world, *names)
    assert len(expected(world, "all")) > 40
    assert not expected(world, "off")
