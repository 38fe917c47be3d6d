"""Tasks under one roof: all end before it does, whatever happens to one of them or to whoever waits."""

from __future__ import annotations

import asyncio

import anyio
import pytest

from onefold.worker.crew import Crew


def test_whoever_started_tasks_leaves_when_all_have_ended():
    ended: list[int] = []

    async def live(number: int) -> None:
        await anyio.lowlevel.checkpoint()
        ended.append(number)

    async def main() -> None:
        async with Crew() as crew:
            for number in range(3):
                crew.start(live(number))

    anyio.run(main)

    assert ended == [0, 1, 2]


def test_one_that_fails_lets_the_others_end_and_is_told_afterwards():
    ended: list[str] = []

    async def fail() -> None:
        raise ValueError("the first")

    async def live() -> None:
        await anyio.lowlevel.checkpoint()
        ended.append("the other")

    async def main() -> None:
        async with Crew() as crew:
            crew.start(fail())
            crew.start(live())

    with pytest.raises(ValueError, match="the first"):
        anyio.run(main)
    assert ended == ["the other"]


@pytest.mark.parametrize("inside", [False, True], ids=["while it waits for them", "while it starts them"])
def test_a_cancellation_reaches_each_task_once_and_waits_for_its_last_words(inside):
    heard: list[str] = []

    async def live() -> None:
        try:
            await anyio.sleep_forever()
        except asyncio.CancelledError:
            heard.append("cancelled")
            with anyio.CancelScope(shield=True):
                for _ in range(50):
                    await anyio.lowlevel.checkpoint()
            heard.append("said")
            raise

    async def main() -> None:
        with anyio.CancelScope() as scope:
            async with Crew() as crew:
                crew.start(live())
                await anyio.lowlevel.checkpoint()
                asyncio.get_running_loop().call_soon(scope.cancel)
                if inside:
                    await anyio.sleep_forever()
        heard.append("left")

    anyio.run(main)

    assert heard == ["cancelled", "said", "left"]


def test_work_is_begun_in_its_order_and_what_waits_holds_nothing_up():
    begun: list[int] = []
    ended: list[int] = []
    all_begun = asyncio.Event()

    async def act(number: int) -> None:
        begun.append(number)
        if len(begun) == 4:
            all_begun.set()
        if number in (1, 2):
            await all_begun.wait()
        ended.append(number)

    async def main() -> None:
        async with Crew() as crew:
            crew.share(range(4), act)

    anyio.run(main)

    assert begun == [0, 1, 2, 3]
    assert sorted(ended) == [0, 1, 2, 3]


def test_work_that_waits_for_nothing_is_done_in_one_task():
    tasks: set[object] = set()

    async def act(number: int) -> None:
        tasks.add(asyncio.current_task())

    async def main() -> None:
        async with Crew() as crew:
            crew.share(range(100), act)

    anyio.run(main)

    assert len(tasks) == 1


def test_one_that_fails_leaves_the_rest_of_the_work_to_others():
    done: list[int] = []

    async def act(number: int) -> None:
        if number == 0:
            raise ValueError("the first")
        done.append(number)

    async def main() -> None:
        async with Crew() as crew:
            crew.share(range(3), act)

    with pytest.raises(ValueError, match="the first"):
        anyio.run(main)
    assert done == [1, 2]


def test_work_that_had_no_turn_when_its_starter_failed_is_not_begun():
    begun: list[int] = []

    async def act(number: int) -> None:
        begun.append(number)

    async def main() -> None:
        async with Crew() as crew:
            crew.share(range(3), act)
            raise ValueError("the starter")

    with pytest.raises(ValueError, match="the starter"):
        anyio.run(main)
    assert begun == []
