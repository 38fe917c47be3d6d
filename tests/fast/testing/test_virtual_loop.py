"""The virtual loop itself: its time, its endings, its errors, and how it leaves the process behind."""

import asyncio
import gc
import itertools
import os
import random
import secrets
import uuid
from collections.abc import AsyncIterator
from typing import Any

import anyio._backends._asyncio as backend
import httpcore2._async.http11 as http11
import pytest
from websockets.asyncio.connection import Connection

from onefold.testing.virtual import VirtualClock, VirtualLoop
from tests.fast.testing.serving import live


def test_time_is_exact_and_costs_nothing():
    async def main(loop: VirtualLoop) -> list[float]:
        moments = []
        for moment in (0.1, 0.3, 86_400.7, 1e9 + 0.1):
            await asyncio.sleep(moment - loop.time())
            moments.append(loop.time())
        return moments

    assert live(main) == [0.1, 0.3, 86_400.7, 1e9 + 0.1]


def test_the_clock_of_a_process_is_that_of_its_loop():
    async def main(loop: VirtualLoop) -> float:
        clock = VirtualClock(loop)
        await clock.sleep(5)
        return await clock.monotonic()

    assert live(main) == 5


def test_waiting_for_ever_is_an_error_that_names_the_tasks():
    async def main(loop: VirtualLoop) -> None:
        waiting = asyncio.create_task(asyncio.Event().wait(), name="the reader")
        await waiting

    with pytest.raises(RuntimeError, match=r"everybody waits for ever.*: Task-1, the reader$"):
        live(main)


def test_a_long_list_of_waiting_tasks_is_cut():
    async def main(loop: VirtualLoop) -> None:
        await asyncio.gather(*(asyncio.Event().wait() for _ in range(50)))

    with pytest.raises(RuntimeError, match=r"Task-20 and 31 more$"):
        live(main)


def test_spinning_without_time_passing_is_an_error_that_names_the_task():
    async def spin() -> None:
        for _ in itertools.count():
            await asyncio.sleep(0)

    async def main() -> None:
        await asyncio.create_task(spin(), name="the spinner")

    with pytest.raises(RuntimeError, match=r"more than 1000 turns .* at 0\.0 s.*: the spinner$"):
        VirtualLoop(turns=1000).run(main())


def test_many_turns_are_fine_while_time_passes():
    async def main() -> None:
        for _ in range(100):
            for _ in range(99):
                await asyncio.sleep(0)
            await asyncio.sleep(1)

    VirtualLoop(turns=105).run(main())


def test_leftovers_are_cancelled_in_the_order_of_their_creation():
    ended: list[int] = []

    async def wait(number: int) -> None:
        try:
            await asyncio.sleep(number * 1000)
        finally:
            await asyncio.sleep(0.5)
            ended.append(number)

    async def main(loop: VirtualLoop) -> list[asyncio.Task[None]]:
        tasks = [asyncio.create_task(wait(number)) for number in range(1, 100)]
        await asyncio.sleep(1)
        return tasks

    live(main)

    assert ended == list(range(1, 100))


def test_tasks_that_start_others_when_they_are_cancelled_are_an_error():
    started: list[asyncio.Task[None]] = []

    async def again() -> None:
        try:
            await asyncio.sleep(1000)
        finally:
            if len(started) < 15:
                started.append(asyncio.create_task(again(), name="the successor"))

    async def main() -> None:
        started.append(asyncio.create_task(again()))
        await asyncio.sleep(1)

    loop = VirtualLoop()
    with pytest.raises(RuntimeError, match=r"start new ones .*: the successor$"):
        loop.live(main())

    loop.run(asyncio.sleep(0))  # the other five
    assert len(started) == 15


def test_timers_of_one_moment_fire_in_the_order_in_which_they_were_set():
    fired: list[int] = []

    async def main(loop: VirtualLoop) -> None:
        for number in range(1000):
            loop.call_at(5, fired.append, number)
        await asyncio.sleep(5)

    live(main)

    assert fired == list(range(1000))


def test_abandoned_generators_are_closed_in_order():
    closed: list[int] = []

    async def numbers(number: int) -> AsyncIterator[int]:
        try:
            yield number
        finally:
            await asyncio.sleep(0)
            closed.append(number)

    async def main(loop: VirtualLoop) -> list[Any]:
        generators = [numbers(number) for number in range(50)]
        for generator in generators:
            await anext(generator)
        return generators

    live(main)

    assert closed == list(range(50))


def test_a_loop_can_live_again():
    async def step() -> float:
        async def one() -> AsyncIterator[int]:
            yield 1

        async for _ in one():
            await asyncio.sleep(1)
        return loop.time()

    loop = VirtualLoop()
    assert [loop.live(step()), loop.live(step())] == [1, 2]
    loop.close()


def state_of_the_process() -> list[object]:
    return [
        backend.CancelScope, backend.Event, vars(backend)["all_tasks"],
        asyncio.all_tasks, asyncio.tasks.all_tasks,
        vars(asyncio.tasks._GatheringFuture).get("__hash__"),  # type: ignore[attr-defined]
        os.urandom, random._urandom, http11.time, vars(Connection).get("__hash__"),  # type: ignore[attr-defined]
        gc.isenabled(), random.getstate(),
    ]  # fmt: skip


@pytest.mark.parametrize("fails", [False, True])
def test_the_process_is_left_as_it_was(fails):
    async def main(loop: VirtualLoop) -> list[object]:
        random.random()
        inside = state_of_the_process()
        if fails:
            raise ZeroDivisionError("planted")
        return inside

    before = state_of_the_process()
    if fails:
        with pytest.raises(ZeroDivisionError):
            live(main)
    else:
        assert all(one != other for one, other in zip(before, live(main), strict=True))

    assert state_of_the_process() == before


def test_a_seed_decides_every_random_number():
    async def main(loop: VirtualLoop) -> tuple[object, ...]:
        drawn = random.random(), secrets.token_hex(), uuid.uuid4(), os.urandom(3)
        await asyncio.sleep(1)
        return (*drawn, random.random())

    assert live(main, 5) == live(main, 5)
    assert all(one != other for one, other in zip(live(main, 5), live(main, 6), strict=True))


def test_without_a_seed_the_random_numbers_are_those_of_the_process():
    async def main(loop: VirtualLoop) -> tuple[float, str]:
        return random.random(), secrets.token_hex()

    random.seed(3)
    first = live(main, None)
    following = random.random()
    random.seed(3)

    assert (random.random(), random.random()) == (first[0], following)
    assert first[1] != live(main, None)[1]
