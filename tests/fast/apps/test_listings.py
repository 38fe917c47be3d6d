"""Listings: every user hears of every flat that fits, once, counted from the chat's own journal."""

from __future__ import annotations

from typing import Any

import anyio
import msgspec
import pytest

from onefold.apps.listings import Settings, pipelines
from onefold.cli.codes import Code
from onefold.core.errors import Misconfigured
from onefold.runtime import now
from onefold.worker import Worker
from onefold.worker.secret import Secret
from onefold.worker.settings import Live
from onefold.worlds.chat import TOKEN, ChatWorld
from onefold.worlds.listings import Change, ListingSites, draw
from onefold.worlds.mischief import Mischief
from tests.databases import Place
from tests.fast.apps.letting import (
    USERS,
    add_raw,
    expected,
    heard,
    made,
    place,
    raw_row,
    settings,
    sites,
    waiting,
    watch,
    worker,
)
from tests.fast.sinks.stage import run_until

SAID: dict[str, Any] = {
    "database": "sqlite:///x.db",
    "chat_token": Secret(TOKEN),
    "sites": sites("http://127.0.0.1:1"),
}

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
    odd = ListingSites(Mischief(3, TRICKS, 0.05))  # type: ignore[arg-type]
    with odd as world, ChatWorld(Mischief(4, {"stall": 0.05, "busy": 0.05}, 0.05)) as chat:
        moment = now()
        for n, change in enumerate(changes[:40]):
            world.happen(moment - 60 + n, change)
        run_until(worker(settings(place, world, chat), place), lambda: len(heard(chat)) > 20)
        for n, change in enumerate(changes[40:]):
            world.happen(moment - 20 + n / 10, change)
        run_until(worker(settings(place, world, chat), place), lambda: told_all(world, chat, *names))

    assert heard(chat) == expected(world, *names)
    assert len(expected(world, "all")) > 40
    assert not expected(world, "off")


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("seed", range(4))
def test_whatever_the_seed_every_flat_is_told_once_by_workers_that_take_turns(place, seed):
    names = tuple(USERS)
    audience(place, *names)
    changes = draw(seed, 120)
    odd = ListingSites(Mischief(seed, TRICKS, 0.05))  # type: ignore[arg-type]
    with odd as world, ChatWorld(Mischief(seed + 1, {"stall": 0.1, "busy": 0.1}, 0.1)) as chat:
        moment = now()
        for part in range(4):
            for n, change in enumerate(changes[part * 50 : part * 50 + 50]):
                world.happen(moment - 200 + part * 50 + n, change)
            run_until(worker(settings(place, world, chat), place), lambda: told_all(world, chat, *names))

    assert heard(chat) == expected(world, *names)


# ----- beside a ledger that stands elsewhere


def test_without_a_common_database_a_joined_app_is_refused_with_what_to_do(place, tmp_path, caplog):
    add_raw(place, "a", raw_row("a"))
    one = Worker(made(settings(place, None, None), "processor"), store=f"sqlite:///{tmp_path / 'else.db'}")
    run_until(one, lambda: "give both the same URL" in caplog.text)

    assert waiting(place) == 1


def test_a_single_run_that_could_not_act_on_its_last_page_says_so_and_fails(place, tmp_path, caplog):
    add_raw(place, "a", raw_row("a"))
    elsewhere = f"sqlite:///{tmp_path / 'else.db'}"
    one = Worker(made(settings(place, None, None), "processor"), store=elsewhere, once=True)

    assert anyio.run(one.arun) == Code.FAILED
    assert "ended before all it showed was accounted for" in caplog.text


def test_with_its_ledger_elsewhere_every_flat_is_still_told_once(place, tmp_path):
    audience(place, "all")
    with ListingSites() as world, ChatWorld() as chat:
        for n, change in enumerate(draw(3, 20)):
            world.happen(now() - 60 + n / 10, change)
        said = settings(place, world, chat, joined=False)
        elsewhere = f"sqlite:///{tmp_path / 'else.db'}"
        run_until(Worker(made(said), store=elsewhere), lambda: told_all(world, chat, "all"))
        place.run("UPDATE listings_raw SET processed_at = NULL")  # the mark is lost; the ledger knows
        anyio.run(Worker(made(said), store=elsewhere, once=True).arun)

    assert heard(chat) == expected(world, "all")


# ----- the collector


def test_a_new_price_is_collected_as_a_new_version_and_what_stays_the_same_is_not(place):
    with ListingSites() as world:
        changes = [one for one in draw(1, 30) if one.price is None and one.flat.what == "flat"][:10]
        moment = now()
        world.happen(moment - 30, *changes)
        said = settings(place, world, None)
        run_until(worker(said, place, "collector"), lambda: versions(place) == len(changes))
        cheaper = [Change(one.flat, 1000) for one in changes[:4]]
        world.happen(moment - 10, *cheaper)
        run_until(worker(said, place, "collector"), lambda: versions(place) >= len(changes) + 4)
        anyio.run(worker(said, place, "collector", once=True).arun)

    assert versions(place) == len(changes) + 4
    assert {one.flat.site for one in changes} == {"flats", "posts"}


def versions(place: Place) -> int:
    [[count]] = place.run("SELECT COUNT(*) FROM listings_raw")
    return int(count)


# ----- settings


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"window": "1s"}, "window of"),
        ({"refresh": "0s"}, "refresh is"),
        ({"database": "mariadb://host/db"}, "SQLite or PostgreSQL"),
        ({"database": "redis://host"}, "names no database"),
        ({"sites": {}}, "there are no sites"),
        ({"pages": 0}, "pages is 0"),
        ({"clean_after": "soon"}, "clean_after"),
    ],
)
def test_settings_that_cannot_work_are_refused(change, says):
    with pytest.raises((Misconfigured, ValueError), match=says):
        pipelines(Settings(**{**SAID, **change}), Live())


def test_a_site_that_is_not_enabled_is_not_collected_and_clean_up_can_be_left_out():
    off = {name: msgspec.structs.replace(one, enabled=False) for name, one in sites("http://x").items()}
    found = pipelines(Settings(**{**SAID, "sites": off, "clean_after": "never"}), Live())

    assert [one.name for one in found] == ["listings.processor", "listings.notifier"]
