"""Defects that the simulation found in the ledger: their seeds, and each once more in its plainest form.

A seed means what it meant only while the simulation draws the same lots; so beside every seed stands the
bug which, planted back, makes that very seed fail.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import pytest
from msgspec.structs import replace

from onefold.core import claims
from onefold.core.claims import Answer, Bid, Ending, Hold
from onefold.core.entry import UNKNOWN, Change, Effect, Entry, Reply, Seen
from onefold.core.errors import Unreachable
from onefold.core.flow import Call, Flow
from onefold.core.key import Key
from onefold.core.line import Ask, send
from onefold.core.protocol import acquire, begin, claim, ready, renew
from onefold.core.terms import Terms
from onefold.drive import Ports, run
from onefold.stores.memory import MemoryStore
from onefold.testing.clock import FakeClock
from proof.sim.history import live
from proof.sim.planted import named
from tests.fast.simulation.living import seen

SEEDS = {
    "renewal-taken-for-begun": 27,
    "lease-from-another-flow": 340,
    "too-old-given-back": 136,
    "window-looked-at-too-early": 1107,
    "line-forgets-a-waiter": 1860,
    "late-claim-not-given-back": 66,
}
KEY = Key("regressions", 1)
TERMS = Terms(lease=60, keep="1d")

Deed = Callable[[MemoryStore, Sequence[Any]], Any]
"""What a store does instead of a plain call."""


@pytest.mark.parametrize("seed", SEEDS.values())
def test_a_seed_that_once_failed_holds(seed):
    assert [str(violation) for violation in live(seed).violations] == []


@pytest.mark.parametrize(("bug", "seed"), SEEDS.items())
def test_a_seed_fails_again_when_its_bug_is_planted_back(bug, seed):
    assert seen(named(bug), [seed])


class Scripted(MemoryStore):
    """A store that does its calls as told, one after the other, and then plainly."""

    def __init__(self, clock: FakeClock, deeds: Sequence[Deed | None] = ()) -> None:
        super().__init__(clock)
        self.deeds = list(deeds)

    def get(self, keys: Sequence[Key]) -> Sequence[Seen]:
        deed = self.deeds.pop(0) if self.deeds else None
        return deed(self, keys) if deed else super().get(keys)

    def swap(self, changes: Sequence[Change]) -> Sequence[Reply]:
        deed = self.deeds.pop(0) if self.deeds else None
        return deed(self, changes) if deed else super().swap(changes)

    def stored(self) -> Entry | None:
        return MemoryStore.get(self, [KEY])[0].entry


class Stage:
    """A store, a clock, and a key."""

    def __init__(self, *deeds: Deed | None) -> None:
        self.clock = FakeClock()
        self.store = Scripted(self.clock, deeds)

    def run(self, flow: Flow[Any]) -> Any:
        return run(flow, Ports(self.store, self.clock))

    def win(self, effect: Effect = "one-shot", begins: bool = True) -> Hold:
        [won] = self.run(claim([Bid(KEY, "ann", TERMS, effect, begin=begins)]))
        return Hold(KEY, "ann", won.entry, won.since)


def unheard(store: MemoryStore, changes: Sequence[Change]) -> Sequence[Reply]:
    MemoryStore.swap(store, changes)
    return [UNKNOWN] * len(changes)


def unsent(store: MemoryStore, changes: Sequence[Change]) -> Sequence[Reply]:
    return [UNKNOWN] * len(changes)


def down(store: MemoryStore, asked: Sequence[Any]) -> Any:
    raise Unreachable("down")


def test_a_renewal_of_the_same_holder_is_not_taken_for_begun():
    stage = Stage()
    hold = stage.win(begins=False)
    stage.run(renew([hold]))
    answer = stage.run(begin(hold, '"request"'))

    assert answer.state == "won"
    assert answer.entry.begun is not None
    assert answer.entry.body == '"request"'


def test_a_version_that_another_flow_wrote_long_ago_counts_from_then():
    stage = Stage()
    hold = stage.win()
    stage.run(renew([hold]))
    stage.clock.sleep(50)
    [answer] = stage.run(renew([hold]))

    assert answer.since == stage.clock.monotonic() - 50


def test_what_is_older_than_the_memory_stays_parked_though_its_claim_is_given_back():
    stage = Stage(*[unheard] * 6)
    with pytest.raises(Unreachable):
        stage.run(claim([Bid(KEY, "ann", TERMS, age=2 * 86400)]))
    entry = stage.store.stored()

    assert entry is not None
    assert (entry.state, entry.why) == ("parked", "beyond-memory")


def slow(store: MemoryStore, changes: Sequence[Change]) -> Sequence[Reply]:
    replies = MemoryStore.swap(store, changes)
    store._clock.sleep(58)  # type: ignore[attr-defined]
    return replies


def test_a_waiter_that_finds_its_own_late_claim_renews_it_before_it_starts():
    stage = Stage(slow, *[unsent] * 6, down)
    answer = stage.run(acquire(Bid(KEY, "ann", TERMS, "idempotent"), patience=100.0))

    assert answer.state == "won"
    assert stage.clock() - answer.entry.written < 1.0


def test_a_keyed_effect_does_not_start_when_the_far_side_may_have_forgotten_it():
    stage = Stage()
    stage.win("keyed")
    stage.clock.sleep(61)
    bid = Bid(KEY, "bob", TERMS, "keyed", window=100)
    [won] = stage.run(claim([bid]))
    stage.clock.sleep(50)
    answer = stage.run(ready(bid, won))
    entry = stage.store.stored()

    assert (won.state, answer.state) == ("won", "busy")
    assert entry is not None
    assert entry.state == "free"
    assert stage.run(acquire(bid)).state == "parked"


def test_a_keyed_effect_that_nobody_began_before_may_start_late():
    stage = Stage()
    bid = Bid(KEY, "ann", TERMS, "keyed", window=10)
    [won] = stage.run(claim([bid]))
    stage.clock.sleep(20)

    assert stage.run(ready(bid, won)).state == "won"


@pytest.mark.parametrize("felt", [Unreachable("down"), KeyboardInterrupt()])
def test_a_late_claim_is_given_back_if_it_cannot_be_renewed(felt):
    stage = Stage()
    bid = Bid(KEY, "ann", TERMS)
    [won] = stage.run(claim([bid]))
    stage.clock.sleep(59)

    def fail(store: MemoryStore, changes: Sequence[Change]) -> Sequence[Reply]:
        raise felt

    stage.store.deeds = [fail]
    with pytest.raises(type(felt)):
        stage.run(ready(bid, won))
    entry = stage.store.stored()

    assert entry is not None
    assert entry.state == "free"


def test_a_flow_that_is_dropped_while_it_renews_gives_nothing_back():
    stage = Stage()
    bid = Bid(KEY, "ann", TERMS)
    [won] = stage.run(claim([bid]))
    flow = ready(bid, won)
    call: Call[Any] = flow.send(None)
    while call.name != "swap":
        call = flow.send(stage.clock.monotonic() + 59)
    flow.close()
    entry = stage.store.stored()

    assert entry is not None
    assert entry.state == "held"


class Cut(BaseException):
    """What a leader feels that is cancelled."""


def test_those_behind_a_leader_that_dies_while_it_splits_a_call_hear_unknown():
    woken: list[str] = []
    asks = [
        Ask([Change(Key("regressions", name), None, None)], partial(woken.append, name))
        for name in ("first", "second", "third")
    ]
    flow = send(asks)
    flow.send(None)
    flow.throw(Unreachable("refused"))
    flow.send([Seen(None)])
    with pytest.raises(Cut):
        flow.throw(Cut())

    assert [ask.replies for ask in asks] == [[Seen(None)], [UNKNOWN], [UNKNOWN]]
    assert woken == ["first", "second", "third"]


def test_giving_a_one_shot_claim_back_before_it_was_begun_takes_no_attempt_away():
    entry = Entry("held", token="ann", version=5, effect="one-shot", attempt=3)
    hold = Hold(KEY, "ann", entry)
    untried = claims.end(hold, entry, Ending("refused", at_once=True), TERMS)
    begun = claims.end(hold, replace(entry, begun=1.0), Ending("refused", at_once=True), TERMS)

    assert not isinstance(untried, Answer)
    assert not isinstance(begun, Answer)
    assert untried.entry is not None
    assert begun.entry is not None
    assert (untried.entry.attempt, begun.entry.attempt) == (3, 2)
