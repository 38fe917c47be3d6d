"""Single calls: the same answers with and without a flow, and which way each of them takes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from onefold.core.claims import Answer, Bid, Ending, Hold
from onefold.core.entry import UNKNOWN, Change, Entry, Reply, Seen
from onefold.core.errors import Unreachable
from onefold.core.key import Key
from onefold.core.protocol import acquire, end
from onefold.core.terms import Terms
from onefold.drive import (
    AsyncPorts,
    Event,
    Inline,
    Ports,
    aacquire_one,
    acquire_one,
    aend_one,
    arun,
    end_one,
    run,
)
from onefold.stores.memory import MemoryStore
from onefold.testing.clock import FakeClock

KEY = Key("singles", 1)
TERMS = Terms(lease=60, keep="1h", attempts=3)
RETURNED = Ending("returned", '"receipt"')


class Interrupted(BaseException):
    """What a signal may raise between any two lines."""


class Store(MemoryStore):
    """A store that meets its swaps with what a test planned: a reply too late, an unknown one, an error."""

    def __init__(self, clock: FakeClock) -> None:
        super().__init__(clock)
        self.clock = clock
        self.plans: list[Callable[[Sequence[Change]], Sequence[Reply]]] = []

    def swap(self, changes: Sequence[Change]) -> Sequence[Reply]:
        return self.plans.pop(0)(changes) if self.plans else super().swap(changes)

    def late(self, changes: Sequence[Change]) -> Sequence[Reply]:
        replies = super().swap(changes)
        self.clock.sleep(59)
        return replies

    def unknown(self, changes: Sequence[Change]) -> Sequence[Reply]:
        super().swap(changes)
        return [UNKNOWN for _ in changes]

    def unreachable(self, changes: Sequence[Change]) -> Sequence[Reply]:
        raise Unreachable("nobody there")

    def interrupted(self, changes: Sequence[Change]) -> Sequence[Reply]:
        super().swap(changes)
        raise Interrupted


class World:
    """A store with a history, and whoever listens at the tap."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.store = Store(self.clock)
        self.events: list[Event] = []
        self.ports = Ports(self.store, self.clock, self.events.append)
        self.awaited = AsyncPorts(Inline(self.store), self.clock.awaited, self.events.append)

    def bid(self, token: str = "ann", **how: Any) -> Bid:
        return Bid(KEY, token, TERMS, **how)

    def won(self, token: str = "ann", **how: Any) -> Hold:
        answer = run(acquire(self.bid(token, **how)), Ports(self.store, self.clock))
        assert answer.entry is not None
        return Hold(KEY, token, answer.entry, answer.since)

    def done(self) -> None:
        run(end([(self.won("before"), RETURNED, TERMS)]), Ports(self.store, self.clock))

    @property
    def entered_a_flow(self) -> bool:
        """Only flows read the clock through the tap."""
        return any(event.call.port == "clock" or event.call.name == "get" for event in self.events)

    @property
    def stored(self) -> Entry | None:
        return self.store.get([KEY])[0].entry


def claim(world: World, way: str, bid: Bid, patience: float = 0.0) -> Answer:
    match way:
        case "flow":
            return run(acquire(bid, patience), world.ports)
        case "blocking":
            return acquire_one(bid, patience, world.ports)
        case _:
            return asyncio.run(aacquire_one(bid, patience, world.awaited))


def settle(world: World, way: str, hold: Hold, ending: Ending = RETURNED) -> Answer:
    match way:
        case "flow":
            [answer] = run(end([(hold, ending, TERMS)]), world.ports)
            return answer
        case "blocking":
            return end_one(hold, ending, TERMS, world.ports)
        case _:
            return asyncio.run(aend_one(hold, ending, TERMS, world.awaited))


def nothing(world: World) -> None:
    pass


def abandoned(world: World) -> None:
    world.won("bob", effect="idempotent")
    world.clock.sleep(61)


def in_doubt(world: World) -> None:
    world.won("bob")
    world.clock.sleep(61)


def done(world: World) -> None:
    world.done()


def forgotten(world: World) -> None:
    world.done()
    world.clock.sleep(3601)


def late(world: World) -> None:
    world.store.plans.append(world.store.late)


def unknown(world: World) -> None:
    world.store.plans.append(world.store.unknown)


CLAIMS: list[tuple[Callable[[World], None], dict[str, Any], str, bool]] = [
    (nothing, {}, "won", True),
    (done, {}, "done", True),
    (nothing, {"effect": "keyed", "window": 600.0}, "won", True),
    (abandoned, {"effect": "idempotent"}, "won", False),
    (in_doubt, {}, "parked", False),
    (forgotten, {}, "won", False),
    (late, {}, "won", False),
    (unknown, {}, "won", False),
    (done, {"fingerprint": "other"}, "done", True),
]


@pytest.mark.parametrize(("prepare", "how", "state", "plain"), CLAIMS)
@pytest.mark.parametrize("way", ["blocking", "awaited"])
def test_a_single_claim_gets_the_answer_of_the_flow_and_starts_one_only_if_it_must(
    way, prepare, how, state, plain
):
    answers = []
    for each in ("flow", way):
        world = World()
        prepare(world)
        answers.append((claim(world, each, world.bid(**how)), world.stored))

    assert answers[0] == answers[1]
    assert answers[1][0].state == state
    assert world.entered_a_flow is not plain


@pytest.mark.parametrize("way", ["flow", "blocking", "awaited"])
def test_a_claim_of_what_another_holds_is_busy_until_its_lease_is_over(way):
    world = World()
    world.won("bob")

    answer = claim(world, way, world.bid())

    assert (answer.state, answer.wait) == ("busy", 60)


@pytest.mark.parametrize("way", ["blocking", "awaited"])
def test_a_single_claim_waits_for_another_holder_as_the_flow_does(way):
    world = World()
    world.won("bob", effect="idempotent")

    answer = claim(world, way, world.bid(effect="idempotent"), patience=120.0)

    assert answer.state == "won"
    assert world.clock.monotonic() >= 60


@pytest.mark.parametrize("way", ["flow", "blocking", "awaited"])
def test_an_error_of_the_store_is_raised_and_a_claim_that_it_hides_is_given_back(way):
    world = World()
    world.store.plans.append(world.store.interrupted)

    with pytest.raises(Interrupted):
        claim(world, way, world.bid())

    assert world.stored is not None
    assert world.stored.state == "free"


@pytest.mark.parametrize("way", ["flow", "blocking", "awaited"])
def test_a_claim_on_a_store_that_is_down_raises(way):
    world = World()
    world.store.plans += [world.store.unreachable]

    with pytest.raises(Unreachable, match="nobody there"):
        claim(world, way, world.bid())


@pytest.mark.parametrize("way", ["flow", "blocking", "awaited"])
@pytest.mark.parametrize("plan", ["unknown", "unreachable"])
def test_an_ending_that_was_not_answered_is_asked_again(way, plan):
    world = World()
    hold = world.won()
    world.store.plans.append(getattr(world.store, plan))

    answer = settle(world, way, hold)

    assert answer.state == "settled"
    assert world.entered_a_flow
    assert world.stored is not None
    assert world.stored.state == "done"


@pytest.mark.parametrize("way", ["blocking", "awaited"])
@pytest.mark.parametrize("kind", ["returned", "refused", "raised", "rejected", "parked"])
def test_a_plain_ending_starts_no_flow_and_leaves_what_the_flow_leaves(way, kind):
    left = []
    for each in ("flow", way):
        world = World()
        answer = settle(world, each, world.won(), Ending(kind))
        left.append((answer.state, answer.entry, world.stored))

    assert left[0] == left[1]
    assert left[1][0] == "settled"
    assert [event.call.name for event in world.events] == ["swap", "swap"]  # before and after


@pytest.mark.parametrize("way", ["blocking", "awaited"])
def test_an_ending_of_a_claim_that_was_taken_over_is_lost(way):
    world = World()
    hold = world.won(effect="idempotent")
    world.clock.sleep(61)
    world.won("bob", effect="idempotent")

    assert settle(world, way, hold).state == "lost"


@pytest.mark.parametrize("way", ["flow", "blocking", "awaited"])
def test_an_ending_of_what_is_known_to_be_free_asks_nothing(way):
    world = World()
    settle(world, "flow", world.won(), Ending("refused"))
    world.events.clear()
    assert world.stored is not None

    assert settle(world, way, Hold(KEY, "ann", world.stored)).state == "lost"
    assert world.events == []


@pytest.mark.parametrize("way", ["flow", "blocking", "awaited"])
def test_an_interrupted_ending_is_written_once_more_before_the_interrupt_is_raised(way):
    world = World()
    hold = world.won()

    def interrupted(changes: Sequence[Change]) -> Sequence[Reply]:
        raise Interrupted

    world.store.plans.append(interrupted)
    with pytest.raises(Interrupted):
        settle(world, way, hold)

    assert world.stored is not None
    assert world.stored.state == "done"


class Slow:
    """A store whose swap is stored, and whose reply is never heard."""

    def __init__(self) -> None:
        self.store = MemoryStore()
        self.written = asyncio.Event()

    async def get(self, keys: Sequence[Key]) -> Sequence[Seen]:
        return self.store.get(keys)

    async def swap(self, changes: Sequence[Change]) -> Sequence[Reply]:
        replies = self.store.swap(changes)
        if not self.written.is_set():
            self.written.set()
            await asyncio.Event().wait()
        return replies

    async def scan(self, *asked: Any) -> Any:
        raise AssertionError("nobody lists here")

    async def close(self) -> None:
        pass


def test_a_cancelled_single_claim_is_given_back():
    async def scene() -> None:
        store = Slow()
        claiming = asyncio.create_task(aacquire_one(Bid(KEY, "ann", TERMS), 0.0, AsyncPorts(store)))
        await store.written.wait()
        claiming.cancel()

        with pytest.raises(asyncio.CancelledError):
            await claiming

        [seen] = store.store.get([KEY])
        assert seen.entry is not None
        assert seen.entry.state == "free"

    asyncio.run(scene())


def test_a_cancelled_single_ending_is_written_before_the_cancellation_is_raised():
    async def scene() -> None:
        store = Slow()
        store.written.set()
        [answer] = [await arun(acquire(Bid(KEY, "ann", TERMS)), AsyncPorts(store))]
        assert answer.entry is not None
        store.written.clear()
        ending = aend_one(Hold(KEY, "ann", answer.entry), RETURNED, TERMS, AsyncPorts(store))
        settling = asyncio.create_task(ending)
        await store.written.wait()
        settling.cancel()

        with pytest.raises(asyncio.CancelledError):
            await settling

        [seen] = store.store.get([KEY])
        assert seen.entry is not None
        assert seen.entry.state == "done"

    asyncio.run(scene())


@pytest.mark.parametrize("patience", [0.0, 5.0])
def test_a_single_call_that_is_dropped_unfinished_asks_nothing_more(patience):
    async def scene() -> None:
        store = Slow()
        claiming = aacquire_one(Bid(KEY, "ann", TERMS), patience, AsyncPorts(store))
        claiming.send(None)
        claiming.close()

        [seen] = store.store.get([KEY])
        assert seen.entry is not None
        assert seen.entry.state == "held"

        ending = aend_one(Hold(KEY, "ann", seen.entry), RETURNED, TERMS, AsyncPorts(Slow()))
        ending.send(None)
        ending.close()

    asyncio.run(scene())
