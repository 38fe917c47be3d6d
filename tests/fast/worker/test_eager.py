"""A coroutine that runs up to its first wait at once: the same ends as awaiting it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from onefold.worker.eager import Eager


async def returns() -> str:
    return "now"


async def raises() -> str:
    raise ValueError("now")


async def waits() -> str:
    await asyncio.sleep(0)
    first = await asyncio.wait_for(returns(), 60)
    future: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    asyncio.get_running_loop().call_soon(future.set_result, "later")
    return f"{first} and {await future}"


def test_what_waits_for_nothing_has_ended_when_it_is_made():
    eager = Eager(returns())

    assert eager.ended
    assert eager.result() == "now"


def test_what_raises_in_its_first_step_raises_when_it_is_made():
    with pytest.raises(ValueError, match="now"):
        Eager(raises())


def test_what_waits_is_awaited_to_its_end():
    async def main() -> str:
        eager = Eager(waits())
        assert not eager.ended
        return await eager

    assert asyncio.run(main()) == "now and later"


async def waits_for_ever(seen: list[str]) -> None:
    try:
        await asyncio.Event().wait()
    except BaseException as error:
        seen.append(type(error).__name__)
        raise


def test_a_timeout_around_what_waits_is_felt_inside():
    seen: list[str] = []

    async def main() -> None:
        eager = Eager(waits_for_ever(seen))
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0):
                await eager

    asyncio.run(main())
    assert seen == ["CancelledError"]


async def catches(seen: list[Any]) -> str:
    try:
        await asyncio.Event().wait()
    except asyncio.CancelledError:
        await asyncio.sleep(0)
        return "caught"
    return "never"


def test_a_cancellation_that_is_caught_inside_is_followed_by_what_comes_then():
    async def main() -> str:
        eager = Eager(catches([]))
        task = asyncio.current_task()
        assert task is not None
        asyncio.get_running_loop().call_soon(task.cancel)
        return await eager

    assert asyncio.run(main()) == "caught"


async def own_timeout() -> str:
    try:
        async with asyncio.timeout(0):
            await asyncio.Event().wait()
    except TimeoutError:
        return "its own limit"
    return "never"


def test_a_limit_that_the_first_step_set_is_told_from_one_around_the_rest():
    async def main() -> str:
        eager = Eager(own_timeout())
        async with asyncio.timeout(60):
            return await eager

    assert asyncio.run(main()) == "its own limit"
