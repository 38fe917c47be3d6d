"""Whole deliveries, killed before and after every store call: claim, begin, effect, renewal, ending.

The dead are followed by another worker, by the same one coming back under a new token, or by one that dies
too. Effects are counted where they happen; nothing doubles beyond its class, and nothing is lost.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from onefold.core.claims import Answer, Bid, Ending, Hold
from onefold.core.entry import Effect, Entry
from onefold.core.flow import Flow
from onefold.core.key import Key
from onefold.core.protocol import acquire, begin, claim, end, ready, renew
from onefold.core.sightings import Sightings
from onefold.core.terms import Terms
from onefold.drive import Ports, aacquire_one, aend_one, run
from onefold.stores import join
from onefold.stores.memory import MemoryStore
from onefold.testing.calls import AS_CALLS
from onefold.testing.clock import FakeClock
from onefold.testing.crashes import Death, each_death, kill

KEYS = [Key("deliveries", n) for n in (1, 2, 3)]
TERMS = Terms(lease=60, attempts=5, backoff=(1, 10))
EFFECTS: list[Effect] = ["one-shot", "keyed", "idempotent"]
ENDINGS = ("returned", "refused", "raised")


class World:
    """A store, a clock, and a far side that writes down what reached it."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.store = MemoryStore(self.clock)
        self.ports = Ports(self.store, self.clock)
        self.journal: list[Key] = []
        self.tokens = 0

    def bid(self, key: Key, effect: Effect, begins: bool) -> Bid:
        self.tokens += 1
        return Bid(key, f"attempt-{self.tokens}", TERMS, effect, begin=begins, body='"record"')

    def entry(self, key: Key) -> Entry | None:
        return self.store.get([key])[0].entry

    def happened(self, key: Key, effect: Effect) -> int:
        """Count effects as the far side does: a keyed one knows its key."""
        count = self.journal.count(key)
        return min(count, 1) if effect == "keyed" else count


async def deliver(
    world: World, key: Key, effect: Effect, begins: bool, kind: str = "returned", single: bool = False
) -> str:
    """Claim a key, act, renew meanwhile, and write how it ended; say in which state it was found.

    `single` sends the first swap of claim and ending without a flow, as a ledger does for single calls.
    """
    bid = world.bid(key, effect, begins)
    answer = await (aacquire_one(bid, 0.0, AS_CALLS) if single else acquire(bid))
    if answer.state != "won":
        return answer.state
    hold = held(bid, answer)
    if not begins:
        answer = await ready(bid, await begin(hold, '"request"'))
        if answer.state != "won":
            return answer.state
        hold = held(bid, answer)
    if kind != "refused":
        world.journal.append(key)
    [answer] = await renew([hold])
    ending = Ending(kind, '"receipt"' if kind == "returned" else None)  # type: ignore[arg-type]
    if single:
        told = await aend_one(hold, ending, TERMS, AS_CALLS)
    else:
        [told] = await end([(hold, ending, TERMS)])
    return told.entry.state if told.state == "settled" and told.entry else told.state


async def deliver_batch(world: World, effect: Effect) -> None:
    """Claim several keys at once, act on each, and settle them at once."""
    bids = [world.bid(key, effect, begins=True) for key in KEYS]
    won = [(bid, held(bid, answer)) for bid, answer in zip(bids, await claim(bids), strict=True)]
    world.journal.extend(bid.key for bid, _ in won)
    await end([(hold, Ending("returned"), TERMS) for _, hold in won])


def held(bid: Bid, answer: Answer) -> Hold:
    assert answer.entry is not None
    return Hold(bid.key, bid.token, answer.entry, answer.since)


def killed(prepare: Any) -> list[tuple[Death, World]]:
    """Kill a delivery at every point, each in a world of its own; return the worlds as left."""
    worlds: list[World] = []

    def start() -> tuple[Flow[Any], Ports]:
        worlds.append(World())
        return prepare(worlds[-1]), worlds[-1].ports

    return [(death, worlds[-1]) for death in each_death(start)]


def recover(world: World, key: Key, effect: Effect, begins: bool) -> str:
    """Let somebody come back, after the lease and the back-off, until the key is done or parked."""
    for _ in range(TERMS.attempts + 1):
        world.clock.sleep(120)
        state = str(run(deliver(world, key, effect, begins), world.ports))
        if state in ("done", "parked"):
            return state
    return "never"


def is_right(world: World, key: Key, effect: Effect) -> bool:
    """Say whether a key came to a right end: nothing doubled beyond its class, nothing lost."""
    entry = world.entry(key)
    assert entry is not None
    if effect != "idempotent" and world.happened(key, effect) > 1:
        return False
    return entry.state == "parked" or (entry.state == "done" and world.happened(key, effect) >= 1)


@pytest.mark.parametrize("effect", EFFECTS)
@pytest.mark.parametrize("begins", [True, False], ids=["begun", "begins later"])
@pytest.mark.parametrize("kind", ENDINGS)
@pytest.mark.parametrize("single", [False, True], ids=["flow", "single"])
def test_a_delivery_that_dies_anywhere_is_recovered_without_doubling_or_loss(effect, begins, kind, single):
    for death, world in killed(lambda world: deliver(world, KEYS[0], effect, begins, kind, single)):
        left = world.entry(KEYS[0])
        state = recover(world, KEYS[0], effect, begins)

        assert is_right(world, KEYS[0], effect), (death, state, world.journal)
        if left is not None and left.state == "held" and left.begun is not None and effect == "one-shot":
            assert state == "parked", death
        if left is None or left.begun is None:
            assert state in ("done", "parked"), death


@pytest.mark.parametrize("begins", [True, False], ids=["begun", "begins later"])
def test_a_one_shot_that_died_before_begun_is_done_by_whoever_comes_next(begins):
    unbegun = 0
    for death, world in killed(lambda world: deliver(world, KEYS[0], "one-shot", begins)):
        left = world.entry(KEYS[0])
        if left is None or left.begun is None:
            unbegun += 1
            assert recover(world, KEYS[0], "one-shot", begins) == "done", death
            assert world.journal == [KEYS[0]]

    assert unbegun == (1 if begins else 3)


@pytest.mark.parametrize("effect", EFFECTS)
def test_a_batch_that_dies_anywhere_is_recovered_key_by_key(effect):
    for death, world in killed(lambda world: deliver_batch(world, effect)):
        for key in KEYS:
            recover(world, key, effect, begins=True)

            assert is_right(world, key, effect), (death, key)


@pytest.mark.parametrize("effect", EFFECTS)
@pytest.mark.parametrize("begins", [True, False], ids=["begun", "begins later"])
def test_whoever_comes_next_may_die_as_well(effect, begins):
    def twice(first: Death) -> Any:
        def prepare(world: World) -> Flow[Any]:
            dying(world, first, effect, begins)
            world.clock.sleep(120)
            return deliver(world, KEYS[0], effect, begins)

        return prepare

    for first, _ in killed(lambda world: deliver(world, KEYS[0], effect, begins)):
        for second, world in killed(twice(first)):
            recover(world, KEYS[0], effect, begins)

            assert is_right(world, KEYS[0], effect), (first, second, world.journal)


def dying(world: World, death: Death, effect: Effect, begins: bool) -> None:
    """Let a delivery die where another one did."""
    flow = deliver(world, KEYS[0], effect, begins)
    assert kill(flow, world.ports, death.number, death.when) == death.call


# ----- joined: the dead take their transaction with them


async def deliver_joined(connection: sqlite3.Connection, token: str) -> str:
    """Mark and act in one transaction, as its first statement and its second; the caller commits."""
    bid = Bid(KEYS[0], token, TERMS, "joined")
    answer = await acquire(bid)
    if answer.state != "won":
        return answer.state
    connection.execute("INSERT INTO orders VALUES (?)", (token,))
    await end([(held(bid, answer), Ending("returned", '"receipt"'), TERMS)])
    return "ran"


def test_a_joined_delivery_that_dies_anywhere_leaves_neither_mark_nor_effect(tmp_path):
    connections: list[sqlite3.Connection] = []

    def start() -> tuple[Flow[Any], Ports]:
        connections.append(opened(tmp_path / f"{len(connections)}.db"))
        return deliver_joined(connections[-1], "ann"), Ports(join(connections[-1]), FakeClock())

    for death in each_death(start):
        connections[-1].close()  # as the kernel does for the dead: what was not committed is gone
        connection = opened(tmp_path / f"{len(connections) - 1}.db")
        assert orders(connection) == [], death
        state = run(deliver_joined(connection, "bob"), Ports(join(connection), FakeClock()))
        connection.commit()

        assert (state, orders(connection)) == ("ran", ["bob"]), death
        again = run(deliver_joined(connection, "cid"), Ports(join(connection), FakeClock()))
        assert (again, orders(connection)) == ("done", ["bob"]), death
        connection.close()

    connections[-1].close()
    assert len(connections) == 5  # before and after two calls, and once alive


def opened(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE IF NOT EXISTS orders (token)")
    connection.commit()
    return connection


def orders(connection: sqlite3.Connection) -> list[str]:
    return [token for (token,) in connection.execute("SELECT token FROM orders")]


def test_a_clock_that_went_back_does_not_hide_a_dead_holder_from_who_watches():
    world = World()
    run(claim([world.bid(KEYS[0], "idempotent", begins=True)]), world.ports)
    world.clock.jump(-86400)
    watched = Watched(world)
    states = [watched.state() for _ in range(3)]

    assert states == ["busy", "busy", "won"]


class Watched:
    """A worker that remembers since when it has seen a version, as every driver does."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.sightings = Sightings()

    def state(self) -> str:
        state = run(
            claim([self.world.bid(KEYS[0], "idempotent", begins=True)]), Ports(self, self.world.clock)
        )
        self.world.clock.sleep(30)
        return str(state[0].state)

    def get(self, keys: Sequence[Key]) -> Any:
        return self.world.store.get(keys)

    def swap(self, changes: Sequence[Any]) -> Any:
        return self.sightings.judge(changes, self.world.store.swap(changes), self.world.clock.monotonic())

    def scan(self, *args: Any) -> Any:
        return self.world.store.scan(*args)

    def close(self) -> None:
        """Nothing to let go of."""
