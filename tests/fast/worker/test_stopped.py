"""Workers told to stop, or cancelled, at moments drawn from a seed: nothing is lost, doubled or left held.

A run that fails is repeated by its seed:
`./dev test tests/fast/worker/test_stopped.py -k "cancelled and seed17"`. Real processes get real signals in
`tests/processes/worker/test_lives.py`.
"""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any

import anyio
import pytest

from onefold.core.entry import OPEN
from onefold.core.record import Record
from onefold.core.terms import Terms
from onefold.drive import Inline
from onefold.sinks.function import Function
from onefold.stores.memory import MemoryStore
from onefold.worker import Worker
from onefold.worker.running import FINE
from onefold.worlds.feed import Feed, trades
from onefold.worlds.site import Site
from tests.fast.sources.reading import TERMS, acted, exist, gaps, pipeline, polled
from tests.fast.worker.world import World, all_settled, entries, held, live_until, simulated
from tests.waiting import wait_for


@pytest.mark.parametrize("seed", range(3), ids=["seed0", "seed1", "seed2"])
def test_workers_told_to_stop_at_random_end_what_they_began_and_leave_nothing_held(seed: int):
    chance, world, under_way = Random(seed), World(seed, {"stall": 0.3}), 0
    terms = Terms(lease=20, backoff=(0.2, 1))
    with simulated(world, seed) as simulation:
        for _ in range(5):
            worker = simulation.start(world.pipeline("stopped", "one-shot", terms))
            enough = world.acts + chance.randint(1, 60)
            live_until(simulation, lambda enough=enough: world.acts >= enough, world.happen)  # type: ignore[misc]
            simulation.run(chance.uniform(0, 0.02))  # at any moment of what it does
            under_way += len(held("stopped", simulation.store))
            assert simulation.stop(worker) == FINE
            assert held("stopped", simulation.store) == []
        worker = simulation.start(world.pipeline("stopped", "one-shot", terms))
        live_until(simulation, lambda: all_settled(world, "stopped", simulation.store))
        assert simulation.stop(worker) == FINE
        states = {one.state for one in entries(world, "stopped", simulation.store).values() if one}

    assert under_way > 0, "a stop must meet effects that are under way"
    assert world.effects == Counter(list(world.events))
    assert states == {"done"}


# ----- cancelled


class Cancelling(Inline):
    """A store that cancels whoever uses it at its n-th call, before or after the call was made."""

    def __init__(self, store: MemoryStore, calls: int, before: bool) -> None:
        super().__init__(store)
        self.scope = anyio.CancelScope()
        self._calls = calls
        self._before = before

    async def _counted(self, call: Any, *args: Any) -> Any:
        self._calls -= 1
        if self._calls == 0 and self._before:
            self.scope.cancel()
            await anyio.lowlevel.checkpoint()
        done = await call(*args)
        if self._calls == 0:
            self.scope.cancel()
            await anyio.lowlevel.checkpoint()
        return done

    async def get(self, keys: Any) -> Any:
        return await self._counted(super().get, keys)

    async def swap(self, changes: Any) -> Any:
        return await self._counted(super().swap, changes)

    async def scan(self, *args: Any) -> Any:
        return await self._counted(super().scan, *args)


@pytest.mark.parametrize("seed", range(60), ids=[f"seed{seed}" for seed in range(60)])
@pytest.mark.parametrize("effect", ["one-shot", "keyed"])
def test_a_worker_cancelled_at_any_call_doubles_and_loses_nothing_and_leaks_no_lease(effect: Any, seed: int):
    chance, memory = Random(seed), MemoryStore()
    feed = Feed(newest_first=seed % 2 == 0)
    feed.add(*trades(seed, 30))

    async def act(record: Record) -> None:
        await anyio.lowlevel.checkpoint()
        feed.journal.note("acted", id=record.id)
        await anyio.lowlevel.checkpoint()

    async def life(calls: int, before: bool) -> None:
        store = Cancelling(memory, calls, before)
        plan = pipeline(source, feed.journal, sink=Function(act, effect=effect), at_once=3)
        with store.scope:
            await Worker([plan], store=store, once=True).arun()

    with Site(feed.routes) as site:
        for _ in range(3):
            source = polled(site, feed, start="start")
            anyio.run(life, chance.randint(1, 25), chance.random() < 0.5)
            assert memory.scan("feed", ("held",), False, None, 100)[0] == [], "a lease was leaked"

        def whole_life() -> None:
            nonlocal source
            source = polled(site, feed, start="start")
            anyio.run(life, -1, False)

        whole_life()
        # What was cancelled waits for its time, which is short here.
        wait_for(lambda: not memory.scan("feed", ("free", "held"), False, None, 100)[0], meanwhile=whole_life)

    found, _ = memory.scan("feed", OPEN, False, None, 100)
    assert {seen.entry.state for _, seen in found if seen.entry} <= {"parked"}
    parked = {key.parts[0] for key, _ in found}
    done = acted(feed.journal)
    assert exist(feed.journal) - set(done) <= parked
    assert gaps(memory) == []
    if effect == "one-shot":
        assert set(done.values()) <= {1}
    else:
        assert not parked
    assert TERMS.lease > 20, "no lease ran out on the way: what was free had been given back"
