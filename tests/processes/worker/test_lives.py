"""Real workers, killed and told to stop by signals of the system while the feed runs.

In memory, a killed worker is one that reaches nothing any more (`tests/fast/worker/test_killed.py`). These
tests hold the same account against real processes: SIGKILL, SIGTERM, exit codes, and a file that the living
share with the dead.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from random import Random
from typing import Any

import pytest

from onefold.core.ports import Store
from onefold.stores import connect
from tests.fast.worker.world import World, all_settled, check_account, entries, held, passed_over
from tests.processes.worker.processes import Workers
from tests.waiting import wait_for


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'onefold.db'}"


@pytest.fixture
def store(url: str) -> Iterator[Store]:
    with closing(connect(url)) as store:
        yield store


def act(world: World, number: int, workers: Workers) -> None:
    """Let events happen until so many more effects have happened."""
    enough = world.acts + number
    wait_for(lambda: world.acts >= enough, meanwhile=world.happen, story=lambda: workers.log)


@pytest.mark.parametrize("kills", [3, pytest.param(30, marks=pytest.mark.slow)])
def test_workers_killed_by_the_system_while_the_feed_runs_leave_an_account_that_adds_up(
    store: Store, url: str, tmp_path: Path, kills: int
):
    chance, world = Random(kills), World()
    terms: dict[str, Any] = {"lease": 2, "backoff": (0.2, 1), "attempts": 50}
    with world.site, Workers(tmp_path, url, world, "killed", **terms) as workers:
        workers.start()
        workers.start()
        for _ in range(kills):
            act(world, chance.randint(20, 80), workers)
            workers.kill(chance.randrange(2))
            assert passed_over(world, "killed", store) == []
            workers.start()
        world.site.mischief.stop()
        wait_for(lambda: all_settled(world, "killed", store), story=lambda: workers.log)
        workers.stop()

    check_account(world, "killed", store, "one-shot")


@pytest.mark.parametrize("stops", [2, pytest.param(10, marks=pytest.mark.slow)])
def test_workers_that_the_system_tells_to_stop_end_what_they_began(
    store: Store, url: str, tmp_path: Path, stops: int
):
    chance, world = Random(stops), World(rates={"stall": 0.3})
    with world.site, Workers(tmp_path, url, world, "stopped", lease=20, backoff=(0.2, 1)) as workers:
        for _ in range(stops):
            workers.start()
            act(world, chance.randint(1, 60), workers)
            assert workers.stop() == [0], workers.log
            assert held("stopped", store) == []
        # The last one has something to do, too: otherwise it might be told to stop before it can hear that.
        world.happen()
        workers.start()
        wait_for(lambda: set(world.effects) == set(world.events), story=lambda: workers.log)
        assert workers.stop() == [0]
        states = {one and one.state for one in entries(world, "stopped", store).values()}

    assert world.effects == Counter(list(world.events))
    assert states == {"done"}
