"""Hearts: what is due, what is heard, when they begin and end.

Here the event loop beats for blocking callers. Their threads are tested in tests/processes/drive.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from msgspec.structs import replace

from onefold import drive
from onefold.core.claims import Answer, Bid, Hold
from onefold.core.entry import Change, Entry, Reply
from onefold.core.errors import Unreachable
from onefold.core.key import Key
from onefold.core.protocol import claim
from onefold.core.pulse import Pulse, due, soonest
from onefold.core.terms import Terms
from onefold.drive import AsyncHeart, AsyncPorts, Heart, Inline, Ports, run
from onefold.runtime import current, monotonic
from onefold.stores.memory import MemoryStore
from tests.waiting import PATIENCE, until, wait_for

SHORT = Terms(lease=0.09)


def pulse(since: float = 0.0, lease: float = 30.0, effect: str = "idempotent", key: int = 1) -> Pulse:
    entry = Entry("held", token="ann", version=5, effect=effect, lease=lease)  # type: ignore[arg-type]
    return Pulse.of(Hold(Key("hearts", key), "ann", entry, since), Terms(lease=lease))


# ----- the bookkeeping


def test_a_beat_is_due_after_a_third_of_the_lease_and_neighbours_leave_with_it():
    early, late = pulse(since=0.0, key=1), pulse(since=5.0, key=2)

    assert soonest([early, late]) == 10.0
    assert soonest([]) == float("inf")
    assert due([early, late], 7.0) == []
    assert due([early, late], 10.0) == [early]
    assert due([early, late], 13.0) == [early, late]


def test_a_key_that_its_holder_took_over_from_itself_stands_once_in_a_beat():
    before, after = pulse(since=0.0), pulse(since=1.0)

    assert due([before, after], 30.0) == [after]


def test_a_renewed_claim_counts_its_lease_from_the_send():
    one = pulse()
    one.hear(Answer("won", replace(one.hold.entry, version=6), since=12.0), now=20.0)

    assert (one.next, one.hold.since, one.hold.entry.version, one.gone(41.9)) == (22.0, 12.0, 6, False)


def test_an_unanswered_renewal_is_asked_again_soon_and_makes_the_claim_unsure():
    one = pulse()
    one.hear(Answer("unknown"), now=20.0)

    assert (one.next, one.hold.unsure, one.lost) == (21.0, True, False)


@pytest.mark.parametrize(("effect", "told"), [("idempotent", 1), ("keyed", 1), ("one-shot", 0)])
def test_a_lost_claim_is_told_once_unless_its_effect_must_run_to_its_end(effect, told):
    calls: list[int] = []
    one = pulse(effect=effect)
    one.tell = lambda: calls.append(1)
    one.hear(Answer("lost"), now=20.0)

    assert (one.lost, one.gone(20.0), one.next, len(calls)) == (True, True, float("inf"), told)


def test_a_parked_one_shot_rests_and_a_parked_repeatable_is_lost():
    one, other = pulse(effect="one-shot"), pulse(effect="keyed")
    for each in (one, other):
        each.hear(Answer("parked"), now=20.0)

    assert (one.lost, one.next, other.lost) == (False, float("inf"), True)


def test_a_claim_that_could_not_be_renewed_for_a_whole_lease_is_gone():
    one = pulse()
    one.miss(now=29.0)
    before = one.lost
    one.miss(now=30.0)

    assert (before, one.lost) == (False, True)


# ----- beating


class Counting:
    """A memory store that counts renewals and may be down."""

    def __init__(self) -> None:
        self.store = MemoryStore()
        self.sizes: list[int] = []
        self.down = False

    def swap(self, changes: Sequence[Change]) -> Sequence[Reply]:
        self.sizes.append(len(changes))
        if self.down:
            raise Unreachable("down")
        return self.store.swap(changes)

    def win(self, n: int) -> Pulse:
        [won] = self.win_together(n)
        return won

    def win_together(self, *numbers: int) -> list[Pulse]:
        """Win keys in one claim: their leases count from one moment, and so all their beats fall together."""
        bids = [Bid(Key("hearts", n), f"t{n}", SHORT, "idempotent") for n in numbers]
        won = zip(bids, run(claim(bids), Ports(self.store)), strict=True)
        return [
            Pulse.of(Hold(bid.key, bid.token, stored(answer), answer.since), SHORT) for bid, answer in won
        ]


def stored(answer: Answer) -> Entry:
    assert answer.entry is not None
    return answer.entry


def test_a_heart_renews_everything_in_one_batch_and_drops_what_is_dropped():
    store = Counting()
    heart = Heart(lambda: Ports(store))  # type: ignore[arg-type]
    pulses = store.win_together(*range(1, 6))

    heart.add(*pulses)
    wait_for(lambda: len(store.sizes) >= 3)
    heart.drop(*pulses[1:])
    seen = len(store.sizes)
    wait_for(lambda: len(store.sizes) >= seen + 3)
    heart.drop(pulses[0])

    assert store.sizes[:3] == [5, 5, 5]
    assert store.sizes[-1] == 1


def test_a_heart_hears_nothing_about_what_was_dropped_during_its_beat():
    store = Counting()
    one = store.win(1)
    hearts: list[Heart] = []

    class Dropping:
        def swap(self, changes: Sequence[Change]) -> Sequence[Reply]:
            hearts[0].drop(one)
            raise Unreachable("down")

    heart = Heart(lambda: Ports(Dropping()))  # type: ignore[arg-type]
    hearts.append(heart)
    heart._beat([one])
    heart._pulses[id(one)] = one
    heart._beat([one])

    assert (one.lost, one.hold.unsure) == (False, False)


def test_a_shorter_lease_wakes_a_heart_that_rests():
    store = Counting()
    heart = Heart(lambda: Ports(store))  # type: ignore[arg-type]
    slow, fast = pulse(since=monotonic(), lease=3000.0), store.win(1)

    heart.add(slow)
    wait_for(lambda: heart._wakes < float("inf"))
    heart.add(fast)
    wait_for(lambda: len(store.sizes) >= 1)
    heart.drop(slow, fast)

    assert store.sizes[0] == 1


def test_a_heart_tells_when_the_store_stays_down_for_a_lease():
    store, told = Counting(), []
    heart = Heart(lambda: Ports(store))  # type: ignore[arg-type]
    one = store.win(1)
    one.tell = lambda: told.append(monotonic())
    store.down = True

    heart.add(one)
    current().wait(1)
    heart.drop(one)

    assert len(told) == 1
    assert SHORT.lease <= told[0] < SHORT.lease * 1.1
    assert one.lost


def test_a_heart_of_virtual_time_rests_where_nothing_is_due_any_more():
    store = Counting()
    heart = Heart(lambda: Ports(store))  # type: ignore[arg-type]
    one = store.win(1)

    heart.add(one)
    heart.drop(one)
    current().wait(10_000)

    assert store.sizes == []
    assert heart._wakes == float("inf")


def awaited(work: Callable[[Counting, AsyncHeart], Any], linger: float = drive.LINGER) -> Counting:
    store = Counting()

    class Awaiting:
        async def swap(self, changes: Sequence[Change]) -> Sequence[Reply]:
            return store.swap(changes)

    async def main() -> None:
        await work(store, AsyncHeart(lambda: AsyncPorts(Awaiting()), linger=linger))  # type: ignore[arg-type]

    asyncio.run(main())
    return store


def test_an_async_heart_renews_in_batches_too():
    async def work(store: Counting, heart: AsyncHeart) -> None:
        pulses = store.win_together(*range(1, 6))
        heart.add(*pulses)
        await until(lambda: len(store.sizes) >= 3)
        heart.drop(*pulses[1:])
        seen = len(store.sizes)
        await until(lambda: len(store.sizes) >= seen + 2)
        heart.drop(pulses[0])

    sizes = awaited(work).sizes
    assert sizes[:3] == [5, 5, 5]
    assert sizes[-1] == 1


def test_an_async_heart_tells_when_the_store_stays_down_for_a_lease():
    async def work(store: Counting, heart: AsyncHeart) -> None:
        one, told = store.win(1), asyncio.Event()
        one.tell = told.set
        store.down = True
        heart.add(one)
        await asyncio.wait_for(told.wait(), PATIENCE)
        heart.drop(one)

    awaited(work)


def test_an_async_heart_is_woken_ends_and_begins_again():
    async def work(store: Counting, heart: AsyncHeart) -> None:
        slow = pulse(since=monotonic(), lease=3000.0)
        heart.add(slow)
        await until(lambda: heart._wakes < float("inf"))
        fast = store.win(1)
        heart.add(fast)
        await until(lambda: len(store.sizes) >= 1)
        heart.drop(slow, fast)
        first = heart._life
        assert first is not None
        await until(first.done)
        again = store.win(2)
        heart.add(again)
        seen = len(store.sizes)
        await until(lambda: len(store.sizes) > seen)
        heart.drop(again)
        assert heart._life is not first

    awaited(work, linger=0.02)


def test_an_async_heart_hears_nothing_about_what_was_dropped_during_its_beat():
    async def work(store: Counting, heart: AsyncHeart) -> None:
        one = store.win(1)
        store.down = True
        await heart._beat([one])
        assert (one.lost, one.hold.unsure) == (False, False)

    awaited(work)


def test_hearts_of_both_colours_need_something_to_keep_alive():
    async def work(store: Counting, heart: AsyncHeart) -> None:
        heart.add()
        assert heart._life is None

    heart = Heart(lambda: Ports(MemoryStore()))
    heart.add()
    awaited(work)

    assert heart._thread is None


def test_inline_stores_serve_the_async_side():
    assert Inline(MemoryStore()).store is not None
