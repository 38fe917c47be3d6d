"""Two workers on one pipeline, killed at random while the feed runs: counted from the world's own journal.

A seed that fails is replayed by `./dev test tests/fast/worker/test_killed.py -k "seed17"`. Real processes are
killed in `tests/processes/worker/test_lives.py`.
"""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from onefold.core.terms import Terms
from onefold.worker.running import FINE, NEEDS_A_PERSON
from tests.fast.worker.world import (
    World,
    all_settled,
    check_account,
    held,
    live_until,
    passed_over,
    simulated,
)

TERMS = Terms(lease=2, backoff=(0.2, 1), attempts=50)
KILLS = 6


def seeded(everyday: int, number: int) -> Any:
    """Run some seeds every day, and the rest with `--slow`."""
    seeds = [pytest.param(seed, marks=[] if seed < everyday else pytest.mark.slow) for seed in range(number)]
    return pytest.mark.parametrize("seed", seeds, ids=[f"seed{seed}" for seed in range(number)])


@seeded(2, 40)
@pytest.mark.parametrize("effect", ["one-shot", "idempotent"])
def test_two_workers_killed_at_random_while_the_feed_runs_leave_an_account_that_adds_up(
    effect: Any, seed: int
):
    chance, world = Random(seed), World(seed)
    with simulated(world, seed) as simulation:

        def start() -> Any:
            return simulation.start(world.pipeline("killed", effect, TERMS))

        workers, under_way = [start(), start()], 0
        for _ in range(KILLS):
            enough = world.acts + chance.randint(10, 40)
            live_until(simulation, lambda enough=enough: world.acts >= enough, world.happen)  # type: ignore[misc]
            simulation.run(chance.uniform(0, 0.02))  # at any moment of what they do
            under_way += len(held("killed", simulation.store))
            simulation.kill(workers.pop(chance.randrange(2)))
            assert passed_over(world, "killed", simulation.store) == []
            workers.append(start())
        world.site.mischief.stop()
        live_until(simulation, lambda: all_settled(world, "killed", simulation.store))
        assert {simulation.stop(worker) for worker in workers} <= {FINE, NEEDS_A_PERSON}

    assert under_way > 0, "a kill must meet effects that are under way"
    assert len(world.events) > 10 * KILLS
    check_account(world, "killed", simulation.store, effect)
