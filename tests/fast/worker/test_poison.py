"""Records that raise, hang or kill their worker: they end parked, and their neighbours go through.

A worker that a record kills (as the kernel does where memory ends) is followed by another one. Attempts are
counted in the ledger, because a dead worker remembers nothing.
"""

from __future__ import annotations

from random import Random
from typing import Any

import anyio
import pytest

from onefold.core.record import Record
from onefold.core.terms import Terms
from onefold.worker import Worker
from tests.fast.worker.world import World, all_settled, entries, live_until, simulated

NUMBER = 30
ATTEMPTS = 4
TERMS = Terms(lease=2, backoff=(0.1, 0.2), attempts=ATTEMPTS)


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("effect", ["idempotent", "one-shot"])
@pytest.mark.parametrize("harm", ["raises", "hangs", "dies"])
def test_a_record_that_raises_hangs_or_kills_its_worker_is_parked_and_its_neighbours_go_through(
    harm: str, effect: Any, seed: int
):
    poison = [f"e{n}" for n in Random(seed).sample(range(1, NUMBER + 1), 2)]
    # What was begun beside a one-shot that dies is in doubt too: one after another shows whose fault it is.
    at_once = 1 if (harm, effect) == ("dies", "one-shot") else 4
    world, deaths, alive = World(rates={}), 0, list[Worker]()
    with simulated(world, seed) as simulation:

        async def act(record: Record) -> None:
            if record.id in poison:
                if harm == "raises":
                    raise MemoryError("too much")
                if harm == "dies":
                    die()
                await anyio.sleep_forever()
            await world.send(record)

        def die() -> None:
            nonlocal deaths
            deaths += 1
            simulation.kill(alive.pop())

        def live() -> None:
            if not alive:
                plan = world.pipeline("poisoned", effect, TERMS, act, timeout=1, at_once=at_once)
                alive.append(simulation.start(plan))

        for _ in range(NUMBER):
            world.happen()
        live_until(simulation, lambda: all_settled(world, "poisoned", simulation.store), meanwhile=live)
        found: dict[str, Any] = entries(world, "poisoned", simulation.store)

    names = set(world.events)
    states = {name: (one.state, one.why) for name, one in found.items()}
    why = "failed" if effect == "idempotent" else "in-doubt"
    # The effect that ended just before its worker was killed may not have been written down: that is a doubt.
    doubted = {name for name in names - set(poison) if states[name] == ("parked", "in-doubt")}
    assert len(doubted) <= deaths * (effect == "one-shot")
    assert {name: states[name] for name in poison} == dict.fromkeys(poison, ("parked", why))
    assert {states[name] for name in names - set(poison) - doubted} == {("done", None)}
    assert [found[name].attempt for name in poison] == [ATTEMPTS if effect == "idempotent" else 1] * 2
    assert set(world.effects) == names - set(poison)
    assert effect == "idempotent" or set(world.effects.values()) == {1}
    assert (deaths > 0) == (harm == "dies")
