"""The flaky store: what goes wrong goes wrong as announced, and the journal knows what was really done."""

import asyncio
from collections.abc import Callable, Sequence
from itertools import islice
from typing import Any

import pytest

from onefold.core.claims import Bid
from onefold.core.entry import NOTHING, UNKNOWN, Change
from onefold.core.errors import Unreachable
from onefold.core.flow import Flow
from onefold.core.protocol import claim
from onefold.core.terms import Terms
from onefold.drive import AsyncPorts, Inline, Ports, arun, run
from onefold.stores.memory import MemoryStore
from onefold.testing.clock import FakeClock
from onefold.testing.contract.words import entry, keys
from onefold.testing.flaky import AsyncFlaky, Delay, Fault, Flaky, Mishap, at_random

KEYS = keys(4)
CHANGES = [Change(key, None, entry(token="ann")) for key in KEYS]


class Blocking:
    """Calls a flaky store; the other colour has the same face, so that every test runs on both."""

    def __init__(self, mishaps: Sequence[Mishap]) -> None:
        self.clock = FakeClock()
        self.behind = MemoryStore(self.clock)
        self.flaky = Flaky(self.behind, mishaps, self.clock)

    def call(self, name: str, *args: Any) -> Any:
        return getattr(self.flaky, name)(*args)

    def run(self, flow: Flow[Any]) -> Any:
        return run(flow, Ports(self.flaky, self.clock))

    def stored(self) -> list[str | None]:
        return [seen.entry.token if seen.entry else None for seen in self.behind.get(KEYS)]


class Awaited(Blocking):
    def __init__(self, mishaps: Sequence[Mishap]) -> None:
        super().__init__(mishaps)
        self.async_flaky = AsyncFlaky(Inline(self.behind), mishaps, self.clock.awaited)

    def call(self, name: str, *args: Any) -> Any:
        return asyncio.run(getattr(self.async_flaky, name)(*args))

    def run(self, flow: Flow[Any]) -> Any:
        return asyncio.run(arun(flow, AsyncPorts(self.async_flaky, self.clock.awaited)))


both = pytest.mark.parametrize("on", [Blocking, Awaited])
On = Callable[[Sequence[Mishap]], Blocking]


@both
def test_a_call_that_fails_writes_nothing(on: On):
    caller = on([Fault.FAILS])

    with pytest.raises(Unreachable, match="nothing was asked"):
        caller.call("swap", CHANGES)

    assert caller.stored() == [None] * 4


@both
def test_a_lost_reply_is_unknown_and_written(on: On):
    caller = on([Fault.LOSES])

    assert caller.call("swap", CHANGES) == [UNKNOWN] * 4
    assert caller.stored() == ["ann"] * 4


@both
def test_a_call_that_is_cut_is_an_error_and_written(on: On):
    caller = on([Fault.CUTS])

    with pytest.raises(Unreachable, match="nobody heard the reply"):
        caller.call("swap", CHANGES)

    assert caller.stored() == ["ann"] * 4


@both
def test_half_a_batch_is_written_and_all_of_it_unknown(on: On):
    caller = on([Fault.HALVES])

    assert caller.call("swap", CHANGES) == [UNKNOWN] * 4
    assert caller.stored() == ["ann", None, "ann", None]


@both
def test_a_delay_lets_time_pass_before_the_call(on: On):
    caller = on([Delay(90.0), Delay(10.0, Fault.FAILS)])
    start = caller.clock()

    [told, *_] = caller.call("swap", CHANGES)
    with pytest.raises(Unreachable):
        caller.call("get", KEYS)

    assert told.entry.written == start + 90
    assert caller.clock() == start + 100


@both
@pytest.mark.parametrize("fault", Fault)
def test_a_read_with_any_fault_is_an_error(on: On, fault: Fault):
    caller = on([fault, fault])

    with pytest.raises(Unreachable):
        caller.call("get", KEYS)
    with pytest.raises(Unreachable):
        caller.call("scan", None, ("held",), False, None, 10)


@both
def test_after_the_script_nothing_goes_wrong(on: On):
    caller = on([None, Fault.FAILS])

    assert caller.call("get", KEYS[:1]) == [NOTHING]
    with pytest.raises(Unreachable):
        caller.call("get", KEYS)
    assert caller.call("get", KEYS) == [NOTHING] * 4


@both
def test_a_claim_survives_a_reply_that_was_lost(on: On):
    caller = on([Fault.LOSES, Fault.HALVES])

    [answer] = caller.run(claim([Bid(KEYS[0], "ann", Terms())]))

    assert answer.state == "won"


def test_the_journal_says_what_was_really_done():
    flaky = Flaky(MemoryStore(FakeClock()), [Fault.FAILS, Fault.HALVES, None])
    with pytest.raises(Unreachable):
        flaky.swap(CHANGES)
    flaky.swap(CHANGES)
    found = flaky.get(KEYS)

    first, second, third = flaky.journal
    assert first == ("swap", (), Fault.FAILS, None)
    assert (second.call, second.asked, second.mishap) == ("swap", (CHANGES[::2],), Fault.HALVES)
    assert [seen.entry.token for seen in second.said] == ["ann", "ann"]
    assert third == ("get", (KEYS,), None, found)


def test_the_same_seed_gives_the_same_weather():
    drawn = [[*islice(at_random(seed), 200)] for seed in (7, 7, 8)]

    assert drawn[0] == drawn[1] != drawn[2]


def test_the_weather_is_as_bad_as_asked():
    assert set(islice(at_random(1, rate=1.0), 200)) == set(Fault)
    assert set(islice(at_random(1, rate=0.0), 200)) == {None}
    assert set(islice(at_random(1, rate=1.0, faults=[Delay(5)]), 9)) == {Delay(5)}


def test_a_flaky_store_closes_the_store_behind_it():
    class Closing(MemoryStore):
        closed = 0

        def close(self) -> None:
            self.closed += 1

    behind = Closing()
    Flaky(behind).close()
    asyncio.run(AsyncFlaky(Inline(behind)).close())

    assert behind.closed == 2
