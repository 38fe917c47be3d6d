"""The fake clock: both times of a process, moved by hand."""

import asyncio
import threading

from onefold.core.flow import now, sleep
from onefold.core.key import Key
from onefold.drive import AsyncPorts, Inline, Ports, arun, run
from onefold.stores.memory import MemoryStore
from onefold.testing.clock import START, FakeClock
from onefold.testing.contract.words import entry, look, put


def test_a_fake_clock_stands_still():
    clock = FakeClock()

    assert [clock(), clock()] == [START, START]
    assert clock.monotonic() == clock.monotonic()


def test_a_sleep_moves_both_times_at_once():
    clock = FakeClock(wall=100.0, monotonic=5.0)

    clock.sleep(3600)

    assert (clock(), clock.monotonic()) == (3700.0, 3605.0)


def test_a_sleep_of_less_than_nothing_moves_nothing():
    clock = FakeClock(wall=100.0, monotonic=5.0)

    clock.sleep(-1)

    assert (clock(), clock.monotonic()) == (100.0, 5.0)


def test_a_jump_moves_only_the_time_of_day():
    clock = FakeClock(wall=100.0, monotonic=5.0)

    clock.jump(-50)

    assert (clock(), clock.monotonic()) == (50.0, 5.0)


def test_flows_and_stores_see_one_time():
    clock = FakeClock()
    store = MemoryStore(clock)

    async def flow() -> tuple[float, float]:
        await put(Key("scope", 1), entry())
        before = await now()
        await sleep(10)
        return await now() - before, (await look(Key("scope", 1))).idle

    assert run(flow(), Ports(store, clock)) == (10.0, 10.0)
    assert asyncio.run(arun(flow(), AsyncPorts(Inline(MemoryStore(clock)), clock.awaited))) == (10.0, 10.0)


def test_an_awaited_sleep_lets_others_go_first():
    clock = FakeClock()
    order: list[str] = []

    async def sleeper() -> None:
        await clock.awaited.sleep(1)
        order.append("sleeper")

    async def other() -> None:
        order.append("other")

    async def both() -> None:
        await asyncio.gather(sleeper(), other())

    asyncio.run(both())

    assert order == ["other", "sleeper"]


def test_threads_that_sleep_at_once_all_move_the_clock():
    clock = FakeClock(wall=0.0)

    def sleep_often() -> None:
        for _ in range(1000):
            clock.sleep(1)

    threads = [threading.Thread(target=sleep_often) for _ in range(4)]

    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert clock() == 4000.0
