"""Workers told to stop, or cancelled, at moments drawn from a seed: nothing is lost, doubled or left held.

A run that fails is repeated by its seed: `./dev test tests/worker/test_stopped.py -k "cancelled and seed17"`.
"""

from __future__ import annotations

from collections import Counter
from contextlib import closing
from pathlib import Path
from random import Random
from typing import Any

import anyio
import pytest

from onefold.core.entry import OPEN
from onefold.core.key import Key
from onefold.core.record import Record
from onefold.drive import Inline
from onefold.sinks.function import Function
from onefold.stores import connect
from onefold.stores.memory import MemoryStore
from onefold.worker import Worker
from onefold.worlds.feed import Feed, trades
from onefold.worlds.site import Site
from tests.sources.reading import TERMS, acted, exist, gaps, pipeline, polled
from tests.waiting import wait_for
from tests.worker.processes import Workers, World, pipeline_text


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.slow)], ids=["seed0", "seed1"])
@pytest.mark.timeout(200)
def test_workers_told_to_stop_at_random_end_what_they_began_and_leave_nothing_held(tmp_path: Path, seed: int):
    chance, url = Random(seed), f"sqlite:///{tmp_path / 'onefold.db'}"
    world = World(seed, {"stall": 0.3})
    with world.site, Workers(tmp_path, url, "--grace", "60s") as workers, closing(connect(url)) as store:
        text = pipeline_text(
            world,
            "stopped",
            "one-shot",
            poll={"every": 0.05, "lag": "30s"},
            terms={"lease": 20, "backoff": (0.2, 1)},
        )
        (tmp_path / "worked.py").write_text(text)

        def held() -> list[Any]:
            return list(store.scan("stopped", ("held", "parked"), False, None, 100)[0])

        for _ in range(5):
            workers.start()
            enough = world.acts + chance.randint(1, 60)
            wait_for(
                lambda enough=enough: world.acts >= enough,  # type: ignore[misc]
                meanwhile=world.happen,
                story=lambda: workers.log,
            )
            assert workers.stop() == [0], workers.log
            assert held() == []
        # The last one has something to do, too: otherwise it might be told to stop before it can hear that.
        world.happen()
        workers.start()
        wait_for(lambda: set(world.effects) == set(world.events), story=lambda: workers.log)
        assert workers.stop() == [0]
        found = store.get([Key("stopped", name) for name in world.events])

    assert world.effects == Counter(list(world.events))
    assert {one.entry.state for one in found if one.entry} == {"done"}
    assert all(one.entry for one in found)


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
