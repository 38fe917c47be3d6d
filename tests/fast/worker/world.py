"""A feed that goes on, a far side that counts, and the account of what workers between them did.

What happened is read from the journals of the world, never from Onefold.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from onefold.core.entry import Effect, Entry
from onefold.core.key import Key
from onefold.core.ports import Store
from onefold.core.record import Record
from onefold.core.terms import Terms
from onefold.runtime import current
from onefold.runtime.http import Ask
from onefold.sinks.function import Acts, Function
from onefold.sources.poll import Offset, Poll
from onefold.testing import Simulation
from onefold.worker import Pipeline
from onefold.worker.progress import cursor_key, position
from onefold.worker.work import is_kept
from onefold.worlds import serving
from onefold.worlds.feed import Feed
from onefold.worlds.journal import Journal
from onefold.worlds.mischief import Mischief, Trick
from onefold.worlds.site import Request, Response, Site
from tests.waiting import wait_for

AHEAD = 300
"""How many events may wait for their effects."""
STEP = 0.01
"""Seconds between two looks at workers in a simulation."""
SETTLED = ("done", "parked")


class World:
    """A feed that goes on, and a far side that counts."""

    def __init__(self, seed: int = 4, rates: dict[Trick, float] | None = None) -> None:
        self.journal = Journal()
        self.feed = Feed(page=25, journal=Journal())
        self.site = Site(
            {**self.feed.routes, ("POST", "/effects"): self._act},
            Mischief(seed, {"stall": 0.2, "error": 0.02} if rates is None else rates, 0.1),
        )
        self._number = self._acts = 0

    def _act(self, request: Request) -> Response:
        self._acts += 1
        self.journal.note("effect", id=request.body.decode())
        return Response({"ok": True})

    def happen(self) -> None:
        """Let another event happen, unless the workers are far behind: such tests are about their ends."""
        if self._number > self._acts + AHEAD:
            return
        self._number += 1
        self.feed.add({"id": f"e{self._number}", "timestamp": 1000 + self._number // 3})

    @property
    def events(self) -> dict[str, int]:
        return {line["id"]: line["at"] for line in self.feed.journal.of("exists")}

    @property
    def effects(self) -> Counter[str]:
        return Counter(line["id"] for line in self.journal.of("effect"))

    @property
    def acts(self) -> int:
        """How many effects happened."""
        return self._acts

    # ----- what stands between them

    async def send(self, record: Record) -> None:
        """Let the effect of a record happen at the far side."""
        answer = await current().http(Ask("POST", f"{self.site.url}/effects", body=record.id.encode()))
        if answer.status != 200:
            raise OSError(f"the far side answered {answer.status}")

    def pipeline(
        self, name: str, effect: Effect, terms: Terms, act: Acts | None = None, **more: Any
    ) -> Pipeline:
        """Make a pipeline from the feed to the far side; `act` may do more than `send`."""
        feed = Poll(f"{self.site.url}/trades", id="id", paging=Offset(25), unit=None, every=0.1, lag="10s")
        return Pipeline(
            name,
            sources={"feed": feed},
            key=lambda record: record.id,
            sink=Function(act or self.send, effect=effect),
            terms=terms,
            **more,
        )


@contextmanager
def simulated(world: World, seed: int) -> Iterator[Simulation]:
    """Serve a world inside of a simulation, in which workers live and die."""
    with Simulation(seed) as simulation, serving.on(simulation.loop), world.site:
        yield simulation


def live_until(
    simulation: Simulation, condition: Callable[[], bool], meanwhile: Callable[[], object] = lambda: None
) -> None:
    """Let time pass until a condition holds; `meanwhile` is called at every step."""

    def step() -> None:
        meanwhile()
        simulation.run(STEP)

    wait_for(condition, meanwhile=step)


# ----- what the store knows


def entries(world: World, name: str, store: Store) -> dict[str, Entry | None]:
    """Return what a store knows of every event of the world."""
    found = store.get([Key(name, event) for event in world.events])
    return {event: one.entry for event, one in zip(world.events, found, strict=True)}


def all_settled(world: World, name: str, store: Store) -> bool:
    return all(one is not None and one.state in SETTLED for one in entries(world, name, store).values())


def held(name: str, store: Store) -> list[str]:
    """Name the records that some worker has claimed and not ended."""
    found, _ = store.scan(name, ("held",), False, None, 1000)
    return [key.label for key, _ in found]


def passed_over(world: World, name: str, store: Store) -> list[str]:
    """Name the records that the cursor has passed, and that are neither done, parked nor kept."""
    [seen] = store.get([cursor_key(name, "feed")])
    if seen.entry is None or seen.entry.body is None:
        return []
    place, _ = position(json.loads(seen.entry.body))
    known = entries(world, name, store)
    behind = [event for event, at in world.events.items() if place.at is not None and at < place.at]
    return [event for event in behind if not _is_accounted_for(known[event])]


def _is_accounted_for(entry: Entry | None) -> bool:
    return entry is not None and (entry.state in SETTLED or is_kept(entry))


def check_account(world: World, name: str, store: Store, effect: Effect) -> None:
    """Hold what the store says against what happened: nothing lost, and no one-shot effect twice."""
    known = entries(world, name, store)
    parked = {event for event, entry in known.items() if entry and entry.state == "parked"}
    missing = set(world.events) - set(world.effects)
    twice = {event for event, times in world.effects.items() if times > 1}

    assert missing <= parked
    assert effect == "idempotent" or not twice
