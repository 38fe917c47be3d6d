"""Death before and after every store call of every flow, and what another worker then finds.

After each death somebody recovers: another worker, or the same one coming back with a new token. Whatever
happened, nothing runs twice beyond its class, and nothing is lost.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from onefold.core.audit import acts, note
from onefold.core.claims import Answer, Bid, CannotHappen, Ending, Happened, Hold
from onefold.core.entry import Effect, Entry
from onefold.core.flow import Flow
from onefold.core.key import Key
from onefold.core.operate import resolve, retry
from onefold.core.protocol import acquire, answer_probe, begin, claim, end, note_failure, purge, renew
from onefold.core.terms import Terms
from onefold.drive import Ports, run
from onefold.stores.memory import MemoryStore
from onefold.testing.clock import FakeClock
from onefold.testing.crashes import Death, each_death

KEYS = [Key("crashes", n) for n in (1, 2, 3)]
KEY = KEYS[0]
TERMS = Terms(lease=60, keep="1d", attempts=5)
EFFECTS: list[Effect] = ["one-shot", "keyed", "idempotent"]


class World:
    """A store, a clock, and a far side that counts what reached it."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.store = MemoryStore(self.clock)
        self.ports = Ports(self.store, self.clock)
        self.effects: list[Key] = []

    def run(self, flow: Flow[Any]) -> Any:
        return run(flow, self.ports)

    def entry(self, key: Key = KEY) -> Entry | None:
        return self.store.get([key])[0].entry

    def hold(self, effect: Effect, begins: bool = True, key: Key = KEY) -> Hold:
        [won] = self.run(claim([Bid(key, "ann", TERMS, effect, begin=begins)]))
        assert won.entry is not None
        return Hold(key, "ann", won.entry, won.since)

    def recover(self, effect: Effect, key: Key = KEY, token: str = "bob") -> str:
        """Let another worker act on the key as soon as it may; return what it found."""
        self.clock.sleep(3600)
        answer = self.run(acquire(Bid(key, token, TERMS, effect)))
        if answer.state == "won":
            self.effects.append(key)
            hold = Hold(key, answer.entry.token, answer.entry, answer.since)
            self.run(end([(hold, Ending("returned", '"bob"'), TERMS)]))
        return str(answer.state)


def deaths(prepare: Callable[[World], Flow[Any]]) -> list[tuple[Death, World]]:
    """Kill what `prepare` returns at every point, each in a fresh world; return the worlds as left."""
    worlds: list[World] = []

    def start() -> tuple[Flow[Any], Ports]:
        worlds.append(World())
        return prepare(worlds[-1]), worlds[-1].ports

    found = [(death, worlds[-1]) for death in each_death(start)]
    assert found, "the flow made no call on its store"
    return found


@pytest.mark.parametrize("effect", EFFECTS)
@pytest.mark.parametrize("begins", [True, False], ids=["begun", "not-begun"])
def test_a_claimant_that_dies_leaves_a_key_that_is_taken_over_or_parked_if_begun(effect, begins):
    for death, world in deaths(lambda world: claim([Bid(KEY, "ann", TERMS, effect, begin=begins)])):
        left = world.entry()
        found = world.recover(effect)

        parks = left is not None and left.begun is not None and effect == "one-shot"
        assert (left is not None) is (death.when == "after")
        assert found == ("parked" if parks else "won"), death


@pytest.mark.parametrize("effect", EFFECTS)
def test_a_batch_that_dies_loses_no_key(effect):
    for death, world in deaths(lambda world: claim([Bid(key, f"ann-{key}", TERMS, effect) for key in KEYS])):
        for key in KEYS:
            left = world.entry(key)
            assert world.recover(effect, key) == ("parked" if left and effect == "one-shot" else "won"), death


@pytest.mark.parametrize("effect", EFFECTS)
def test_a_waiter_that_dies_changes_nothing_for_the_holder(effect):
    def prepare(world: World) -> Flow[Any]:
        world.hold(effect)
        return acquire(Bid(KEY, "cid", TERMS, effect), patience=1.0)

    for _, world in deaths(prepare):
        entry = world.entry()
        assert entry is not None
        assert (entry.token, entry.state) == ("ann", "held")


@pytest.mark.parametrize("effect", EFFECTS)
def test_a_late_claimant_that_dies_while_it_renews_leaves_a_key_that_recovers(effect):
    for _, world in deaths(lambda world: _late(acquire(Bid(KEY, "ann", TERMS, effect)), world)):
        assert world.recover(effect) in ("won", "parked")


async def _late(flow: Flow[Any], world: World) -> Any:
    """Pass a flow on, with so slow an answer to its first swap that the lease is nearly over."""
    reply, slow = None, True
    while True:
        try:
            call = flow.send(reply)
        except StopIteration as ended:
            return ended.value
        reply = await call
        if slow and call.name == "swap":
            slow = False
            world.clock.sleep(59)


@pytest.mark.parametrize("effect", EFFECTS)
def test_a_holder_that_dies_while_it_renews_is_recovered(effect):
    for _, world in deaths(lambda world: renew([world.hold(effect)])):
        assert world.recover(effect) == ("parked" if effect == "one-shot" else "won")


def test_a_one_shot_that_dies_before_begun_is_stored_runs_and_after_that_is_parked():
    for death, world in deaths(lambda world: begin(world.hold("one-shot", begins=False), '"request"')):
        assert world.recover("one-shot") == ("won" if death.when == "before" else "parked"), death


@pytest.mark.parametrize("effect", EFFECTS)
@pytest.mark.parametrize("kind", ["returned", "refused", "raised", "parked"])
def test_a_holder_that_dies_while_it_ends_never_doubles_a_one_shot_and_never_loses_a_key(effect, kind):
    def prepare(world: World) -> Flow[Any]:
        hold = world.hold(effect)
        if kind in ("returned", "raised"):
            world.effects.append(KEY)
        return end([(hold, Ending(kind, "1" if kind == "returned" else None), TERMS)])

    for death, world in deaths(prepare):
        found = world.recover(effect)

        assert found in ("won", "done", "parked"), death
        if effect == "one-shot":
            assert len(world.effects) <= 1, death
        if found != "parked":
            assert world.effects, death


def test_it_would_be_seen_if_a_token_named_a_worker_instead_of_an_attempt():
    doubled = []

    def prepare(world: World) -> Flow[Any]:
        hold = world.hold("one-shot")
        world.effects.append(KEY)
        return end([(hold, Ending("returned", "1"), TERMS)])

    for death, world in deaths(prepare):
        world.recover("one-shot", token="ann")
        if len(world.effects) > 1:
            doubled.append(death)

    assert doubled == [Death(1, "swap", "before")]


@pytest.mark.parametrize("happened", [True, False])
def test_an_operator_that_dies_has_decided_or_not_and_another_may_decide_again(happened):
    def prepare(world: World) -> Flow[Any]:
        world.run(end([(world.hold("one-shot"), Ending("raised"), TERMS)]))
        return resolve(KEY, happened, "1" if happened else None, "ops", "op-1")

    for death, world in deaths(prepare):
        left = world.entry()
        assert left is not None
        if left.state == "parked":
            answer: Answer = world.run(resolve(KEY, happened, "1" if happened else None, "ops", "op-2"))
            assert answer.state == "settled", death
        assert world.recover("one-shot") == ("done" if happened else "won")
        noted = world.run(acts(KEY))
        assert len(noted) >= 1, death


def test_a_retry_that_dies_can_be_asked_for_again():
    def prepare(world: World) -> Flow[Any]:
        world.run(end([(world.hold("idempotent"), Ending("raised"), Terms(attempts=1))]))
        return retry(KEY, "ops", "op-1")

    for _, world in deaths(prepare):
        world.run(retry(KEY, "ops", "op-2"))
        assert world.recover("idempotent") == "won"


@pytest.mark.parametrize("told", [Happened(1), CannotHappen()])
def test_a_prober_that_dies_leaves_the_key_parked_or_decided(told):
    def prepare(world: World) -> Flow[Any]:
        world.run(end([(world.hold("one-shot"), Ending("raised"), TERMS)]))
        entry = world.entry()
        assert entry is not None
        return answer_probe(KEY, entry, "probe", told, "1" if isinstance(told, Happened) else None)

    for _, world in deaths(prepare):
        decided = "done" if isinstance(told, Happened) else "won"
        assert world.recover("one-shot") in ("parked", decided)


def test_a_purge_that_dies_removes_only_what_may_go():
    def prepare(world: World) -> Flow[Any]:
        for key in KEYS:
            hold = world.hold("idempotent", key=key)
            if key != KEYS[2]:
                world.run(end([(hold, Ending("returned", "1"), TERMS)]))
        world.clock.sleep(2 * 86400)
        return purge(page=1)

    for _, world in deaths(prepare):
        held = world.entry(KEYS[2])
        assert held is not None
        assert held.state == "held"


def test_a_counted_failure_and_a_note_survive_or_never_were():
    for death, world in deaths(
        lambda world: note_failure(Bid(KEY, "ann", TERMS, "joined"), Ending("raised"))
    ):
        left = world.entry()
        written = death.call == "swap" and death.when == "after"
        assert (left is not None and left.attempt == 1) is written
    for death, world in deaths(lambda world: note(KEY, {"by": "ann"}, "t")):
        assert len(world.run(acts(KEY))) == (death.call == "swap" and death.when == "after")


def test_every_side_of_every_call_is_visited_and_the_flow_comes_through_at_last():
    visited = [death for death, _ in deaths(lambda world: resolve_parked(world))]

    assert visited == [
        Death(number, call, when)
        for number, call in enumerate(["get", "get", "swap", "get", "swap"], 1)
        for when in ("before", "after")
    ]


def resolve_parked(world: World) -> Flow[Any]:
    world.run(end([(world.hold("one-shot"), Ending("raised"), TERMS)]))
    return resolve(KEY, True, "1", "ops", "op")
