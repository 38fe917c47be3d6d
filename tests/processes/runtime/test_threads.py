"""Blocking calls in threads: they give what the function gives, and nobody has to wait for one that hangs."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Iterator

import anyio
import pytest

from onefold.core.errors import Later
from onefold.runtime import threads
from onefold.runtime.process import PROCESS
from onefold.runtime.threads import Calls, Drawn, in_thread, left_running
from tests.waiting import until, wait_for


@pytest.fixture(autouse=True, scope="module")
def own_threads() -> Iterator[None]:
    """Start threads here: lines are not counted in those that tests elsewhere have left idle."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(threads, "_THREADS", threads._Threads())
        yield


class Hanging:
    """A call that runs until it is released."""

    def __init__(self) -> None:
        self.begun, self.go = threading.Event(), threading.Event()

    def __call__(self) -> str:
        self.begun.set()
        self.go.wait()
        return "late"


@pytest.fixture
def hanging() -> Iterator[Hanging]:
    one = Hanging()
    yield one
    one.go.set()
    wait_for(lambda: not left_running())


async def left(hanging: Hanging, linger: float = 0.0) -> None:
    """Begin a call that hangs, and leave it."""
    async with anyio.create_task_group() as group:
        group.start_soon(lambda: in_thread(hanging, linger=linger))
        await until(hanging.begun.is_set)
        group.cancel_scope.cancel()


def test_a_call_gives_its_value_and_runs_in_a_thread_that_no_exit_waits_for():
    def named(first: int, second: int) -> tuple[int, bool, int]:
        return first + second, threading.current_thread().daemon, threading.get_ident()

    total, daemon, thread = anyio.run(in_thread, named, 1, 2)

    assert (total, daemon) == (3, True)
    assert thread != threading.get_ident()


@pytest.mark.parametrize("error", [ValueError("no"), KeyboardInterrupt(), SystemExit(3)])
def test_what_a_call_raises_is_raised(error: BaseException):
    def fail() -> None:
        raise error

    async def main() -> BaseException:
        try:
            await in_thread(fail)
        except BaseException as raised:
            return raised
        raise AssertionError

    assert anyio.run(main) is error


def test_a_call_that_raises_the_end_of_an_iteration_does_not_hang():
    with pytest.raises(RuntimeError, match="StopIteration"):
        anyio.run(in_thread, next, iter(()))


def test_a_call_sees_the_context_of_its_caller():
    name = contextvars.ContextVar[str]("name")

    async def main() -> str:
        name.set("ann")
        return await in_thread(name.get)

    assert anyio.run(main) == "ann"


def test_one_thread_serves_call_after_call():
    async def main() -> set[int]:
        return {await in_thread(threading.get_ident) for _ in range(20)}

    assert len(anyio.run(main)) == 1


def test_more_calls_than_threads_are_kept_all_end(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(threads, "KEPT", 2)
    monkeypatch.setattr(threads, "_THREADS", threads._Threads())
    together = threading.Barrier(5)

    async def main() -> None:
        async with anyio.create_task_group() as group:
            for _ in range(5):
                group.start_soon(in_thread, together.wait)

    before = threading.active_count()
    anyio.run(main)
    wait_for(lambda: threading.active_count() <= before + 2)


def test_a_cancelled_caller_leaves_a_call_that_hangs_and_is_told_that_it_still_runs(hanging: Hanging):
    async def main() -> tuple[bool, int]:
        with Calls() as calls:
            await left(hanging)
            return calls.running, left_running()

    assert anyio.run(main) == (True, 1)
    hanging.go.set()
    wait_for(lambda: left_running() == 0)


def test_a_cancelled_caller_that_lingers_waits_for_a_call_that_ends(hanging: Hanging):
    async def main() -> bool:
        with Calls() as calls:
            async with anyio.create_task_group() as group:
                group.start_soon(lambda: in_thread(hanging, linger=60))
                await until(hanging.begun.is_set)
                group.cancel_scope.cancel()
                hanging.go.set()
            return calls.running

    assert not anyio.run(main)
    assert left_running() == 0


def test_a_cancelled_caller_lingers_no_longer_than_it_said(hanging: Hanging):
    anyio.run(left, hanging, 0.01)

    assert left_running() == 1


def test_calls_that_have_ended_do_not_count_as_running():
    async def main() -> bool:
        with Calls() as calls:
            for number in range(3):
                await in_thread(abs, number)
            return calls.running

    assert not anyio.run(main)


def test_a_call_that_ends_after_its_loop_is_closed_disturbs_nobody(hanging: Hanging):
    anyio.run(left, hanging)
    hanging.go.set()
    wait_for(lambda: left_running() == 0)

    assert anyio.run(in_thread, abs, -1) == 1


def test_a_call_that_ends_after_it_was_left_disturbs_nobody(hanging: Hanging):
    async def main() -> int:
        await left(hanging)
        hanging.go.set()
        await until(lambda: not left_running())
        return await in_thread(abs, -1)

    assert anyio.run(main) == 1


def test_no_call_is_begun_while_too_many_hang(hanging: Hanging, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(threads, "LEFT_RUNNING", 1)
    anyio.run(left, hanging)
    called: list[int] = []

    with pytest.raises(Later, match="1 calls still run"):
        anyio.run(in_thread, called.append, 1)

    async def draw() -> None:
        drawn = Drawn([1], 1)
        try:
            await anext(drawn.come())
        finally:
            assert drawn.ended.is_set()

    with pytest.raises(Later):
        anyio.run(draw)
    assert called == []


def test_a_call_that_ends_while_it_is_left_is_not_counted_for_ever():
    async def main() -> None:
        job = threads._Job(lambda: None, asyncio.get_running_loop())
        job.run()
        threads._THREADS.leave(job)

    anyio.run(main)
    assert left_running() == 0


def test_a_forked_child_does_not_wait_for_the_threads_of_its_parent(monkeypatch: pytest.MonkeyPatch):
    async def main() -> tuple[int, int]:
        before = await in_thread(threading.get_ident)
        monkeypatch.setattr(PROCESS, "number", PROCESS.number + 1)  # as the interpreter does in a child
        return before, await in_thread(threading.get_ident)

    before, after = anyio.run(main)

    assert before != after


# ----- iterations


def test_an_iteration_gives_everything_in_order_and_in_bounded_parts():
    async def main() -> list[list[int]]:
        return [come async for come in Drawn(range(1000), 7).come()]

    parts = anyio.run(main)

    assert [number for part in parts for number in part] == list(range(1000))
    assert max(map(len, parts)) <= 7


def test_an_iteration_over_nothing_gives_nothing():
    async def main() -> list[list[int]]:
        return [come async for come in Drawn(list[int](), 7).come()]

    assert anyio.run(main) == []


def test_an_item_is_given_before_the_next_one_comes():
    asked = threading.Event()

    def items() -> Iterator[int]:
        yield 1
        asked.wait()
        yield 2

    async def main() -> list[list[int]]:
        parts = []
        async for come in Drawn(items(), 10).come():
            parts.append(come)
            asked.set()
        return parts

    assert anyio.run(main) == [[1], [2]]


def test_what_an_iteration_raises_comes_after_its_items():
    def items() -> Iterator[int]:
        yield 1
        raise ValueError("cut")

    got: list[int] = []

    async def main() -> None:
        async for come in Drawn(items(), 10).come():
            got.extend(come)

    with pytest.raises(ValueError, match="cut"):
        anyio.run(main)
    assert got == [1]


def test_an_iteration_that_is_left_ends_at_its_next_item_and_closes_its_generator():
    closed = threading.Event()

    def items() -> Iterator[int]:
        try:
            yield from range(1000)
        finally:
            closed.set()

    async def main() -> Drawn[int]:
        drawn = Drawn(items(), 2)
        coming = drawn.come()
        await anext(coming)
        await coming.aclose()
        return drawn

    drawn = anyio.run(main)
    wait_for(lambda: drawn.ended.is_set() and left_running() == 0)
    assert closed.is_set()


def test_an_iteration_whose_loop_is_closed_goes_on_until_it_is_left():
    loop = asyncio.new_event_loop()
    loop.close()
    drawn = Drawn([1, 2, 3], 10)

    drawn._draw(loop, asyncio.Event())

    assert drawn._taken() == [1, 2, 3]
    assert drawn.ended.is_set()
