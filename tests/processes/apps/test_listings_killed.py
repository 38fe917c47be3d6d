"""Listings as a process: SIGKILL strikes wherever the worker is, with messages on their way."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from onefold.runtime import now
from onefold.worlds.chat import TOKEN, ChatWorld
from onefold.worlds.listings import ListingSites, draw, sections
from onefold.worlds.mischief import Mischief
from tests.databases import POSTGRESQL, SQLITE, Place, opened
from tests.fast.apps.letting import expected, heard, make_tables
from tests.fast.apps.test_listings import audience
from tests.waiting import wait_for

LOG = "log.txt"


@pytest.fixture(params=[SQLITE, POSTGRESQL])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    """A database with a ledger and the tables of listings. A server has to end what a dead client began."""
    for one in opened(request, tmp_path):
        make_tables(one)
        yield one


def configured(folder: Path, place: Place, world: ListingSites, chat: ChatWorld) -> None:
    """Write the one section that the app needs."""
    (folder / "onefold.toml").write_text(
        f'store = "{place.url}"\n[apps.listings]\ndatabase = "{place.url}"\nchat_token = "env:CHAT_TOKEN"\n'
        'every = "200ms"\nprocess_every = "100ms"\nnotify_every = "100ms"\nlease = "2s"\n'
        f'backoff = ["100ms", "1s"]\nchat_url = "{chat.url}"\nchat_pace = [0.0, 0.0, 0.0]\n'
        f"{sections(world.url)}"
    )


@contextmanager
def running(folder: Path) -> Iterator[None]:
    """Run the app as a process of its own; it is killed at the end, whatever it does."""
    command = [sys.executable, "-m", "onefold", "run", "listings"]
    with (folder / LOG).open("ab") as log:
        process = subprocess.Popen(
            command, cwd=folder, env={**os.environ, "CHAT_TOKEN": TOKEN}, stdout=log, stderr=log
        )
        try:
            yield
        finally:
            process.kill()
            process.wait()


def parked(place: Place) -> Counter[tuple[str, str]]:
    """Say which messages nobody knows about: they were begun when the worker died."""
    found, _ = place.store.scan("listings.notifier", ["parked"], False, None, 1000)
    labels = [str(key).split("/") for key, _ in found]
    return Counter((label[-3], label[-1]) for label in labels)


def test_a_worker_that_is_killed_hard_loses_nothing_and_tells_nothing_twice(place, tmp_path):
    names, log = ("all", "cheap"), tmp_path / LOG
    audience(place, *names)
    with ListingSites() as world, ChatWorld(Mischief(5, {"stall": 0.7}, 0.4)) as chat:
        configured(tmp_path, place, world, chat)
        for n, change in enumerate(draw(7, 30)):
            world.happen(now() - 60 + n / 10, change)
        with running(tmp_path):
            wait_for(
                lambda: len(heard(chat)) >= 3, story=log.read_text
            )  # then SIGKILL, with messages on their way
        with running(tmp_path):
            wait_for(lambda: not expected(world, *names) - heard(chat) - parked(place), story=log.read_text)

    assert not heard(chat) - expected(world, *names), "nobody heard anything twice"
    assert not expected(world, *names) - heard(chat) - parked(place), "what is missing is parked"
