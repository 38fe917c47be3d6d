"""Heartbeats of blocking callers: a real thread renews claims, says when it cannot, ends and begins again.

It waits in real time, beside everything else. What is due and what is heard is tested in tests/fast/drive.
"""

from __future__ import annotations

import threading
import time

from onefold.drive import Heart, Ports
from onefold.stores.memory import MemoryStore
from tests.fast.drive.test_hearts import Counting, pulse
from tests.waiting import PATIENCE, wait_for


def test_a_heart_tells_when_the_store_stays_down_for_a_lease():
    store = Counting()
    heart = Heart(lambda: Ports(store))  # type: ignore[arg-type]
    one, told = store.win(1), threading.Event()
    one.tell = told.set
    store.down = True

    heart.add(one)

    assert told.wait(PATIENCE)
    assert one.lost
    heart.drop(one)


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


def test_a_heart_with_nothing_to_keep_alive_starts_no_thread():
    heart = Heart(lambda: Ports(MemoryStore()))

    heart.add()

    assert heart._thread is None


def test_a_shorter_lease_wakes_a_heart_that_rests():
    store = Counting()
    heart = Heart(lambda: Ports(store))  # type: ignore[arg-type]
    slow, fast = pulse(since=time.monotonic(), lease=3000.0), store.win(1)

    heart.add(slow)
    wait_for(lambda: heart._wakes < float("inf"))
    heart.add(fast)
    wait_for(lambda: len(store.sizes) >= 1)
    heart.drop(slow, fast)

    assert store.sizes[0] == 1


def test_a_heart_with_nothing_to_do_ends_and_a_new_one_begins():
    store = Counting()
    heart = Heart(lambda: Ports(store), linger=0.02)  # type: ignore[arg-type]
    one = store.win(1)

    heart.add(one)
    heart.drop(one)
    wait_for(lambda: heart._thread is None)
    two = store.win(2)
    heart.add(two)
    wait_for(lambda: len(store.sizes) >= 1)
    heart.drop(two)

    assert heart._pulses == {}


def test_a_heart_whose_thread_was_replaced_leaves_the_beating_to_the_other():
    heart = Heart(lambda: Ports(MemoryStore()))
    heart._thread = threading.Thread()  # as if an interrupt had struck while the first one was started

    assert heart._next() == []


def test_a_heart_that_gets_work_as_it_is_about_to_end_goes_on():
    heart = Heart(lambda: Ports(MemoryStore()))
    heart._thread = threading.current_thread()
    heart._pulses = {1: pulse()}

    assert not heart._ends()
    assert heart._wakes == float("inf")


def test_a_heart_that_woke_up_in_another_process_keeps_nothing_of_the_parents():
    store = Counting()
    heart = Heart(lambda: Ports(store))  # type: ignore[arg-type]
    parents, mine = pulse(since=time.monotonic()), store.win(1)
    heart._pulses, heart._process = {id(parents): parents}, -1

    heart.add(mine)
    kept = list(heart._pulses.values())
    heart.drop(mine)

    assert kept == [mine]
