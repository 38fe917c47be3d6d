"""The two ways to wait: what they hand on, what they refuse, and what a cancellation may still say."""

from __future__ import annotations

import asyncio
import gc
import os
import threading
from typing import Any

import anyio
import anyio.lowlevel
import anyio.to_thread
import pytest

from onefold.core.entry import Change, Entry
from onefold.core.errors import Unreachable
from onefold.core.flow import Call, get, now, scan, sleep, swap
from onefold.core.key import Key
from onefold.drive import AsyncPorts, Event, Inline, OneThread, Ports, Threaded, arun, run
from onefold.runtime.process import PROCESS
from onefold.stores.memory import MemoryStore

KEY = Key("drive", 1)


async def claim_it() -> str:
    [seen] = await swap([Change(KEY, None, Entry("held", token="ann"))])
    assert not isinstance(seen, str)
    [again] = await get([KEY])
    found, after = await scan("drive", ("held",), False, None, 10)
    await sleep(0)
    return f"{again.entry.token if again.entry else None} {len(found)} {after} {await now() > 0}"


class Broken:
    """A store that is not there."""

    def swap(self, changes: Any) -> Any:
        raise Unreachable("nobody there")


class AsyncBroken:
    """The same, awaited."""

    async def swap(self, changes: Any) -> Any:
        raise Unreachable("nobody there")


async def goes_on() -> str:
    try:
        await swap([])
    except Unreachable as error:
        return f"heard: {error}"
    return "heard nothing"


async def waits_for_asyncio() -> None:
    await asyncio.sleep(0)


@pytest.mark.parametrize("tapped", [False, True])
def test_both_drivers_run_the_same_flow_to_the_same_end(tapped):
    events: list[Event] = []
    tap = events.append if tapped else None

    blocking = run(claim_it(), Ports(MemoryStore(), tap=tap))
    inline = asyncio.run(arun(claim_it(), AsyncPorts(Inline(MemoryStore()), tap=tap)))
    threaded = asyncio.run(arun(claim_it(), AsyncPorts(Threaded(MemoryStore()), tap=tap)))

    assert blocking == inline == threaded == "ann 1 None True"
    assert len(events) == (3 * 2 * 5 if tapped else 0)


def test_the_tap_sees_every_call_before_and_after_with_what_came_of_it():
    events: list[Event] = []
    run(goes_on(), Ports(Broken(), tap=events.append))  # type: ignore[arg-type]
    asyncio.run(arun(goes_on(), AsyncPorts(AsyncBroken(), tap=events.append)))  # type: ignore[arg-type]

    before, after = events[0], events[1]

    assert [repr(event.call) for event in events] == ["store.swap"] * 4
    assert (before.seconds, before.error) == (None, None)
    assert after.seconds is not None
    assert isinstance(after.error, Unreachable)


def test_errors_are_thrown_into_the_flow_which_may_go_on():
    assert run(goes_on(), Ports(Broken())) == "heard: nobody there"  # type: ignore[arg-type]
    assert asyncio.run(arun(goes_on(), AsyncPorts(AsyncBroken()))) == "heard: nobody there"  # type: ignore[arg-type]


def test_a_flow_that_awaits_anything_else_is_closed_with_a_sentence():
    with pytest.raises(TypeError, match="awaits calls on its ports only"):
        run(waits_for_asyncio(), Ports(MemoryStore()))
    with pytest.raises(TypeError, match="awaits calls on its ports only"):
        asyncio.run(arun(waits_for_asyncio(), AsyncPorts(Inline(MemoryStore()))))


class Slow:
    """A store whose first call hangs until it is cancelled, and whose later ones answer or hang as told."""

    def __init__(self, later_hang: bool) -> None:
        self.calls = 0
        self.later_hang = later_hang
        self.started = asyncio.Event()

    async def swap(self, changes: Any) -> Any:
        self.calls += 1
        self.started.set()
        if self.calls == 1 or self.later_hang:
            await asyncio.Event().wait()
        return ["said"]


async def says_something_before_it_goes(heard: list[Any]) -> None:
    try:
        await swap([])
    except asyncio.CancelledError:
        try:
            heard.append(await swap([]))
        except Unreachable as error:
            heard.append(str(error))
        raise


async def cancelled_in_the_middle(later_hang: bool, grace: float = 20.0) -> list[Any]:
    store, heard = Slow(later_hang), []  # type: ignore[var-annotated]
    ports = AsyncPorts(store, grace=grace)  # type: ignore[arg-type]
    task = asyncio.create_task(arun(says_something_before_it_goes(heard), ports))
    await store.started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    return heard


def test_a_cancelled_flow_may_still_make_its_last_calls():
    assert asyncio.run(cancelled_in_the_middle(later_hang=False)) == [["said"]]


def test_the_last_calls_of_a_cancelled_flow_are_bounded_by_a_grace_time():
    [heard] = asyncio.run(cancelled_in_the_middle(later_hang=True, grace=0.01))

    assert "of grace after a cancellation" in heard


def test_a_call_names_itself():
    assert repr(Call("clock", "sleep", (1,))) == "clock.sleep"


@pytest.mark.parametrize("threaded", [Threaded, OneThread])
def test_a_threaded_store_can_be_listed_and_closed(threaded):
    async def main() -> Any:
        store = threaded(MemoryStore())
        await store.swap([Change(KEY, None, Entry("held"))])
        page = await store.scan(None, ("held",), False, None, 5)
        await store.close()
        await Inline(MemoryStore()).close()
        return page

    found, after = asyncio.run(main())
    assert ([key for key, _ in found], after) == ([KEY], None)


def test_a_threaded_store_answers_while_every_other_thread_of_the_program_is_blocked():
    started, gate = threading.Semaphore(0), threading.Event()

    def effect() -> None:
        started.release()
        assert gate.wait(60)

    async def main() -> int:
        store = Threaded(MemoryStore())
        total = int(anyio.to_thread.current_default_thread_limiter().total_tokens)
        async with anyio.create_task_group() as group:
            for _ in range(total):
                group.start_soon(anyio.to_thread.run_sync, effect)
            for _ in range(total):
                while not started.acquire(blocking=False):
                    await anyio.lowlevel.checkpoint()
            with anyio.fail_after(60):
                [seen] = await store.get([KEY])
            gate.set()
        assert seen.entry is None
        return total

    assert asyncio.run(main()) == 40


# ----- one thread


class Gated(MemoryStore):
    """A store whose writes wait at a gate, and that knows its threads."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = threading.Event()
        self.entered = threading.Event()
        self.threads: set[str] = set()

    def swap(self, changes: Any) -> Any:
        self.threads.add(threading.current_thread().name)
        self.entered.set()
        assert self.gate.wait(60)
        return super().swap(changes)


def test_every_call_of_one_thread_runs_in_the_same_thread_which_ends_with_the_store():
    store = Gated()
    store.gate.set()

    async def main() -> None:
        one = OneThread(store)
        for number in range(20):
            await one.swap([Change(Key("drive", number), None, Entry("held"))])
        await asyncio.gather(*(one.get([KEY]) for _ in range(20)))
        [thread] = [each for each in threading.enumerate() if each.name == "onefold-store"]
        await one.close()
        await asyncio.to_thread(thread.join, 60)
        assert not thread.is_alive()
        assert await one.get([KEY])  # a closed store opens again, in a new thread
        await one.close()

    asyncio.run(main())
    assert store.threads == {"onefold-store"}


def test_the_thread_of_a_store_that_is_dropped_ends():
    async def main() -> threading.Thread:
        await OneThread(MemoryStore()).get([KEY])
        [thread] = [each for each in threading.enumerate() if each.name == "onefold-store"]
        return thread

    thread = asyncio.run(main())
    gc.collect()
    thread.join(60)
    assert not thread.is_alive()


@pytest.mark.parametrize("way", ["task", "scope"])
def test_a_cancelled_call_in_one_thread_runs_to_its_end_before_the_caller_hears_of_it(way):
    store = Gated()

    async def main() -> None:
        one = OneThread(store)
        with anyio.CancelScope() as scope:
            asking = asyncio.create_task(one.swap([Change(KEY, None, Entry("held", token="ann"))]))
            await asyncio.to_thread(store.entered.wait, 60)
            if way == "task":
                asking.cancel()
                asyncio.get_running_loop().call_soon(asking.cancel)  # twice is no reason to leave either
                asyncio.get_running_loop().call_soon(store.gate.set)
                with pytest.raises(asyncio.CancelledError):
                    await asking
            else:
                asyncio.get_running_loop().call_soon(scope.cancel)
                asyncio.get_running_loop().call_soon(store.gate.set)
                await one.swap([Change(Key("drive", 2), None, Entry("held", token="bob"))])
        assert scope.cancelled_caught is (way == "scope")
        await asyncio.wait([asking])
        [seen] = await one.get([KEY])
        assert seen.entry is not None
        await one.close()

    asyncio.run(main())


def test_an_error_in_one_thread_reaches_its_caller_and_harms_nobody_else():
    async def main() -> None:
        one = OneThread(Broken())  # type: ignore[arg-type]
        for _ in range(2):
            with pytest.raises(Unreachable, match="nobody there"):
                await one.swap([])

    asyncio.run(main())


def test_an_answer_for_a_loop_that_is_closed_is_dropped_and_the_next_loop_is_answered():
    store = Gated()
    one = OneThread(store)
    loop = asyncio.new_event_loop()
    asking = loop.create_task(one.swap([Change(KEY, None, Entry("held"))]))
    loop.call_soon(loop.stop)
    loop.run_forever()
    assert store.entered.wait(60)
    asking.cancel()
    loop.close()
    store.gate.set()

    async def main() -> bool:
        [seen] = await one.get([KEY])
        await one.close()
        return seen.entry is not None

    assert asyncio.run(main())


def test_a_child_is_not_stopped_by_a_lock_that_another_thread_held_at_the_fork(monkeypatch):
    one = OneThread(MemoryStore())
    asyncio.run(one.get([KEY]))
    one._starting.lock().acquire()
    monkeypatch.setattr(PROCESS, "number", PROCESS.number + 1)

    asyncio.run(one.swap([Change(KEY, None, Entry("held"))]))
    asyncio.run(one.close())


def test_two_event_loops_use_and_close_one_thread_and_no_call_is_lost():
    one = OneThread(MemoryStore())
    start = threading.Barrier(2)

    async def work() -> None:
        start.wait(60)
        for _ in range(100):
            await one.get([KEY])
            await one.close()

    threads = [threading.Thread(target=lambda: asyncio.run(work()), daemon=True) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not any(thread.is_alive() for thread in threads)


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")
def test_a_forked_child_has_a_thread_of_its_own():
    one = OneThread(MemoryStore())
    asyncio.run(one.get([KEY]))
    pid = os.fork()
    if pid == 0:
        asyncio.run(one.swap([Change(KEY, None, Entry("held"))]))
        os._exit(0)

    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    asyncio.run(one.close())
