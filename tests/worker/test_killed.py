"""Two workers on one pipeline, killed at random while the feed runs: counted from the world's own journal."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from onefold.core.key import Key
from onefold.core.ports import Store
from onefold.stores import connect
from onefold.worker.progress import cursor_key, position
from onefold.worker.work import is_kept
from tests.waiting import wait_for
from tests.worker.processes import Workers, World, pipeline_text


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
    terms = {"lease": 2, "backoff": (0.2, 1), "attempts": 50}
    text = pipeline_text(world, "killed", effect, poll={"every": 0.1, "lag": "30s"}, terms=terms)
    (tmp_path / "worked.py").write_text(text)
    url = f"sqlite:///{tmp_path / 'onefold.db'}"
    chance = random.Random(seconds)
    with Workers(tmp_path, url) as workers, closing(connect(url)) as store:
        workers.start()
        workers.start()
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            enough = world.acts + chance.randint(20, 80)
            wait_for(
                lambda enough=enough: world.acts >= enough,  # type: ignore[misc]
                meanwhile=world.happen,
                story=lambda: workers.log,
            )
            workers.kill(chance.randrange(2))
            assert passed_over(world, store) == []
            workers.start()
        world.site.mischief.stop()
        keys = {name: Key("killed", name) for name in world.events}

        open_ones = dict(keys)

        def is_settled() -> bool:
            found = zip(list(open_ones), store.get(list(open_ones.values())), strict=True)
            for name in [name for name, one in found if one.entry and one.entry.state in SETTLED]:
                del open_ones[name]
            return not open_ones

        wait_for(is_settled, 120, story=lambda: f"{store.get(list(open_ones.values()))[:5]} {workers.log}")
        workers.stop()
        states = {name: one.entry for name, one in zip(keys, store.get(list(keys.values())), strict=True)}
    parked = {name for name, entry in states.items() if entry and entry.state == "parked"}
    missing = set(keys) - set(world.effects)
    twice = {name for name, times in world.effects.items() if times > 1}

    assert workers.kills >= seconds / 8
    assert len(keys) > seconds * 5
    assert missing <= parked, workers.log
    assert effect == "idempotent" or not twice
    assert not twice & parked or effect == "idempotent"
