"""How fast a service is asked, by tables and a clock that is moved by hand."""

from __future__ import annotations

import anyio
import pytest

from onefold.core.errors import Later
from onefold.sinks.pace import Pace, Rates, Slots
from onefold.testing.clock import FakeClock

RATES = Rates(everywhere=0.1, person=1.0, group=3.0)


@pytest.mark.parametrize(
    ("address", "waits"),
    [("7", [0.0, 1.0, 2.0]), ("-100", [0.0, 3.0, 6.0]), ("@news", [0.0, 3.0, 6.0])],
)
def test_turns_of_one_address_are_as_far_apart_as_its_kind_asks(address, waits):
    slots = Slots(RATES)

    assert [slots.take(address, 10.0) for _ in waits] == waits


def test_an_address_that_waited_by_itself_need_not_wait():
    slots = Slots(RATES)
    slots.take("7", 10.0)

    assert slots.wait("7", 10.4) == pytest.approx(0.6)
    assert slots.wait("7", 11.0) == 0.0
    assert slots.wait("8", 10.0) == 0.0


def test_a_busy_address_does_not_hold_up_the_others():
    slots = Slots(RATES)
    for _ in range(100):
        slots.take("7", 10.0)

    assert slots.take("8", 10.0) == 0.0
    assert slots.crowd(10.0) == 0.0


def test_the_service_as_a_whole_is_asked_no_faster_than_it_allows():
    slots = Slots(RATES)

    assert slots.crowd(10.0) == 0.0
    assert slots.crowd(10.0) == pytest.approx(0.1)
    assert slots.crowd(10.1) == 0.0


def test_a_pause_is_for_one_address_and_for_all_if_a_second_address_gets_one():
    slots = Slots(RATES)
    slots.hold("7", 30, 10.0)

    assert slots.wait("7", 10.0) == 30
    assert slots.crowd(10.0) == 0.0
    slots.hold("7", 30, 10.0)
    assert slots.crowd(10.2) == 0.0
    slots.hold("8", 20, 11.0)
    assert slots.crowd(11.5) == pytest.approx(19.5)


def test_what_is_free_again_is_forgotten():
    slots = Slots(RATES)
    for n in range(10_001):
        slots.take(str(n), float(n * 10))

    assert len(slots._free) == 1


def test_messages_leave_at_the_pace_of_the_service():
    clock = FakeClock()
    left: list[float] = []

    async def main() -> None:
        pace = Pace(RATES, clock.awaited)
        for address in ("7", "8", "7", "8", "9"):
            await pace.turn(address)
            left.append(round(clock.monotonic() - 1000, 3))

    anyio.run(main)

    assert left == [0.0, 0.1, 1.0, 1.1, 1.2]


def test_a_message_that_would_wait_too_long_is_sent_later():
    clock = FakeClock()

    async def main() -> None:
        pace = Pace(RATES, clock.awaited, patience=3)
        await pace.hold("7", 30)
        with pytest.raises(Later) as told:
            await pace.turn("7")
        assert told.value.seconds == 30
        await pace.turn("8")

    anyio.run(main)

    assert clock.monotonic() == 1000
