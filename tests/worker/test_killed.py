"""Two workers on one pipeline, killed at random while the feed runs: counted from the world's own journal."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Self

import pytest

from onefold.core.key import Key
from onefold.core.ports import Store
from onefold.stores import connect
from onefold.worker.progress import cursor_key, position
from onefold.worker.work import is_kept
from onefold.worlds.feed import Feed
from onefold.worlds.journal import Journal
from onefold.worlds.mischief import Mischief
from onefold.worlds.site import Request, Response, Site
from tests.waiting import wait_for

PIPELINE = """
import urllib.request
from onefold import Pipeline, Terms
from onefold.sinks.function import Function
from onefold.sources.poll import Offset, Poll

def act(record):
    urllib.request.urlopen(urllib.request.Request("{url}/effects", record.id.encode()), timeout=10).close()

pipeline = Pipeline(
    "killed",
    sources={{"feed": Poll("{url}/trades", id="id", every=0.1, lag="30s", paging=Offset(25), unit=None)}},
    key=lambda record: record.id,
    sink=Function(act, effect="{effect}"),
    terms=Terms(lease=2, backoff=(0.2, 1), attempts=50),
)
"""

AHEAD = 300
"""How many events may wait for their effects."""


class World:
    """A feed that goes on, and a far side that counts."""

    def __init__(self) -> None:
        self.journal = Journal()
        self.feed = Feed(page=25, journal=Journal())
        self.site = Site(
            {**self.feed.routes, ("POST", "/effects"): self._act},
            Mischief(4, {"stall": 0.2, "error": 0.02}, 0.1),
        )
        self._number = 0

    def _act(self, request: Request) -> Response:
        self.journal.note("effect", id=request.body.decode())
        return Response({"ok": True})

    def happen(self) -> None:
        """Let another event happen, unless the workers are far behind: this test is about kills."""
        if self._number > self.effects.total() + AHEAD:
            return
        self._number += 1
        self.feed.add({"id": f"e{self._number}", "timestamp": 1000 + self._number // 3})

    @property
    def events(self) -> dict[str, int]:
        return {line["id"]: line["at"] for line in self.feed.journal.of("exists")}

    @property
    def effects(self) -> Counter[str]:
        return Counter(line["id"] for line in self.journal.of("effect"))


class Workers:
    """Two real workers; whoever is killed is followed by another."""

    def __init__(self, folder: Path, url: str) -> None:
        self._folder = folder
        self._url = url
        self._living: list[subprocess.Popen[bytes]] = []
        self.kills = 0

    def start(self) -> None:
        command = [sys.executable, "-m", "onefold", "run", "killed.py:pipeline", "--store", self._url]
        with (self._folder / "log").open("ab") as log:
            self._living.append(subprocess.Popen(command, cwd=self._folder, stdout=log, stderr=log))

    def kill(self, which: int) -> None:
        self.kills += 1
        victim = self._living.pop(which)
        victim.kill()
        victim.wait()

    def stop(self) -> list[int]:
        for one in self._living:
            one.terminate()
        return [one.wait(30) for one in self._living]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *ended: object) -> None:
        for one in self._living:
            one.kill()
            one.wait()


@pytest.fixture
def world() -> Iterator[World]:
    world = World()
    with world.site:
        yield world


def passed_over(world: World, store: Store) -> list[str]:
    """Name the records that the cursor has passed, and that are neither done, parked nor kept."""
    [seen] = store.get([cursor_key("killed", "feed")])
    if seen.entry is None or seen.entry.body is None:
        return []
    place, _ = position(json.loads(seen.entry.body))
    behind = [name for name, at in world.events.items() if place.at is not None and at < place.at]
    found = store.get([Key("killed", name) for name in behind])
    states = ((name, one.entry) for name, one in zip(behind, found, strict=True))
    return [name for name, entry in states if entry is None or not (entry.state in SETTLED or is_kept(entry))]


SETTLED = ("done", "parked")


@pytest.mark.parametrize("effect", ["one-shot", "idempotent"])
@pytest.mark.parametrize("seconds", [8, pytest.param(60, marks=pytest.mark.slow)])
@pytest.mark.timeout(300)
def test_two_workers_killed_at_random_while_the_feed_runs_leave_an_account_that_adds_up(
    world: World, tmp_path: Path, effect: str, seconds: int
):
    (tmp_path / "killed.py").write_text(PIPELINE.format(url=world.site.url, effect=effect))
    url = f"sqlite:///{tmp_path / 'onefold.db'}"
    chance = random.Random(seconds)
    with Workers(tmp_path, url) as workers, closing(connect(url)) as store:
        workers.start()
        workers.start()
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            enough = world.effects.total() + chance.randint(20, 80)
            wait_for(
                lambda enough=enough: world.effects.total() >= enough,  # type: ignore[misc]
                meanwhile=world.happen,
                story=lambda: (tmp_path / "log").read_text()[-3000:],
            )
            workers.kill(chance.randrange(2))
            assert passed_over(world, store) == []
            workers.start()
        world.site.mischief.stop()
        keys = {name: Key("killed", name) for name in world.events}

        def is_settled() -> bool:
            found = store.get(list(keys.values()))
            return all(one.entry and one.entry.state in SETTLED for one in found)

        wait_for(is_settled, 90)
        workers.stop()
        states = {name: one.entry for name, one in zip(keys, store.get(list(keys.values())), strict=True)}
    parked = {name for name, entry in states.items() if entry and entry.state == "parked"}
    missing = set(keys) - set(world.effects)
    twice = {name for name, times in world.effects.items() if times > 1}

    assert workers.kills >= seconds / 8
    assert len(keys) > seconds * 5
    assert missing <= parked, (tmp_path / "log").read_text()[-3000:]
    assert effect == "idempotent" or not twice
    assert not twice & parked or effect == "idempotent"
