"""Guards: one call at a time, and none that an interrupt or a fork leaves locked."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest

from onefold.core.errors import Locked
from onefold.drive import guard as module
from onefold.drive.guard import Call, Guard, Queue
from tests.interrupts import every_line
from tests.waiting import PATIENCE, wait_for

FORKING = pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")


def is_free(guard: Guard) -> bool:
    return not guard._queue.calls


def in_thread(work: Callable[[], object]) -> threading.Thread:
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    return thread


class Holder:
    """A thread that holds a guard until it is told to leave."""

    def __init__(self, guard: Guard) -> None:
        self.guard = guard
        self.entered, self.leave = threading.Event(), threading.Event()
        self.thread = in_thread(self._hold)
        assert self.entered.wait(PATIENCE)

    def _hold(self) -> None:
        with self.guard:
            self.entered.set()
            assert self.leave.wait(PATIENCE)

    def end(self) -> None:
        self.leave.set()
        self.thread.join(PATIENCE)


def test_one_call_is_inside_at_a_time():
    guard, inside, most = Guard(), 0, 0

    def work() -> None:
        nonlocal inside, most
        for _ in range(500):
            with guard:
                inside += 1
                most = max(most, inside)
                inside -= 1

    threads = [in_thread(work) for _ in range(4)]
    for thread in threads:
        thread.join(PATIENCE)

    assert (most, inside, is_free(guard)) == (1, 0, True)


def test_calls_enter_in_the_order_in_which_they_came():
    guard, order = Guard(), list[int]()
    holder = Holder(guard)

    def work(number: int) -> None:
        with guard:
            order.append(number)

    threads = []
    for number in range(5):
        threads.append(in_thread(lambda number=number: work(number)))  # type: ignore[misc]
        wait_for(lambda number=number: len(guard._queue.calls) == number + 2)  # type: ignore[misc]
    holder.end()
    for thread in threads:
        thread.join(PATIENCE)

    assert order == [0, 1, 2, 3, 4]


def test_what_raises_inside_lets_the_next_one_in():
    guard = Guard()

    with pytest.raises(ValueError, match="inside"), guard:
        raise ValueError("inside")

    assert is_free(guard)


# ----- interrupts


def test_an_interrupt_before_any_line_leaves_no_guard_locked(monkeypatch):
    monkeypatch.setattr(module, "LOOK", 0.01)
    guard, entered = Guard(), list[int]()

    def hold(at: int) -> None:
        with guard:
            entered.append(at)

    struck = 0
    for at, line in every_line([module, sys.modules[__name__]], hold):
        struck += 1
        other = in_thread(lambda at=at: hold(-at))  # type: ignore[misc]
        other.join(PATIENCE)
        assert not other.is_alive(), f"another thread hangs after a strike at {line}"
        hold(at)

    assert struck > 10


def test_an_interrupt_before_any_line_of_a_wait_leaves_no_guard_locked(monkeypatch):
    monkeypatch.setattr(module, "LOOK", 0.01)
    guard = Guard()

    def wait_behind(_: int) -> None:
        holder = Holder(guard)
        helper = in_thread(lambda: open_when_somebody_waits(holder))
        try:
            with guard:
                pass
        finally:
            sys.settrace(None)
            holder.end()
            helper.join(PATIENCE)

    def open_when_somebody_waits(holder: Holder) -> None:
        wait_for(lambda: len(guard._queue.calls) > 1 or holder.leave.is_set())
        holder.leave.set()

    for _, line in every_line([module], wait_behind):
        with guard:
            pass
        assert is_free(guard), line


def test_a_call_that_the_same_frame_left_behind_is_not_waited_for():
    guard = Guard()
    guard._queue.enter(Call(sys._getframe()))  # as if the line that leaves the guard had been struck

    with guard:
        pass

    assert is_free(guard)


def test_a_signal_handler_inside_of_a_call_is_refused_and_does_not_hang():
    guard, told = Guard(), list[str]()

    def handle(*_: object) -> None:
        try:
            with guard:
                told.append("entered")
        except Locked as error:
            told.append(str(error))

    before = signal.signal(signal.SIGUSR1, handle)
    try:
        with guard:
            signal.raise_signal(signal.SIGUSR1)
    finally:
        signal.signal(signal.SIGUSR1, before)

    assert told == ["this thread is inside of another call on the store: a signal handler made this one"]
    assert is_free(guard)


def test_a_call_that_is_woken_twice_looks_once_more():
    call = Call(sys._getframe())
    call.wake()
    call.turn = threading.Lock()
    call.wake()

    assert not call.turn.locked()


def test_a_call_of_another_process_does_not_run_here():
    call = Call(sys._getframe())
    here = call.runs()
    call.process = -1

    assert (here, call.runs(), call.is_elsewhere()) == (True, False, False)


def test_leaving_a_queue_twice_changes_nothing():
    queue, first, second = Queue(), Call(sys._getframe()), Call(sys._getframe())
    entered = [queue.enter(first), queue.enter(second)]
    queue.leave(first)
    queue.leave(first)

    assert entered == [True, False]
    assert list(queue.calls) == [second]


# ----- forks


def exit_code(work: Callable[[], bool]) -> int:
    """Do work in a forked child; 0 if it is well."""
    pid = os.fork()
    if pid == 0:
        signal.alarm(int(PATIENCE))  # a child that hangs is killed
        os._exit(0 if work() else 1)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def enters(guard: Guard) -> bool:
    with guard:
        return True


@FORKING
def test_a_child_knows_nothing_of_other_threads_that_forked_at_the_same_moment(monkeypatch):
    # A guard that is made in the child would wait for such a thread, which is not there.
    monkeypatch.setitem(module._FORKING, 1, sys._getframe())

    assert exit_code(lambda: not module._FORKING) == 0


@FORKING
def test_a_fork_waits_until_no_thread_is_inside_and_brings_what_is_guarded_to_rest():
    rested = list[bool]()

    class Guarded:
        def __init__(self) -> None:
            self.guard = Guard(rest=self.rest)

        def rest(self) -> None:
            rested.append(holder.leave.is_set())

    guarded, codes = Guarded(), list[int]()
    holder = Holder(guarded.guard)
    forking = in_thread(lambda: codes.append(exit_code(lambda: enters(guarded.guard))))
    wait_for(lambda: len(guarded.guard._queue.calls) == 2)
    before = list(rested)
    holder.end()
    forking.join(PATIENCE)

    assert (before, rested, codes) == ([], [True], [0])
    assert is_free(guarded.guard)


@FORKING
def test_a_guard_that_is_made_while_a_process_forks_is_held_by_the_fork_too():
    guards, states = list[Guard](), list[bool]()

    class Guarded:
        def __init__(self) -> None:
            self.guard = Guard(rest=self.rest)

        def rest(self) -> None:
            in_thread(self.make).join(PATIENCE)

        def make(self) -> None:  # what another thread may do while the fork waits for a guard
            guards.append(Guard())
            states.append(guards[0]._queue.calls[0].runs())

    guarded = Guarded()
    code = exit_code(lambda: enters(guards[0]) and enters(guarded.guard))

    assert (code, states) == (0, [True])
    assert is_free(guards[0])


def test_a_guard_that_is_made_as_a_fork_ends_is_free():
    class Ending(dict[int, FrameType]):
        """The forks under way, as a thread sees them that looks just before the last one ends."""

        def items(self) -> Any:
            return [(1, sys._getframe(1))]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_FORKING", Ending())
        guard = Guard()

    assert is_free(guard)


@FORKING
def test_a_fork_does_not_wait_for_ever_and_its_child_is_not_blocked(monkeypatch):
    monkeypatch.setattr(module, "LOOK", 0.01)
    monkeypatch.setattr(module, "FORK_LOOKS", 2)
    guard = Guard()
    holder = Holder(guard)

    code = exit_code(lambda: enters(guard))
    holder.end()

    assert code == 0
    assert is_free(guard)


@FORKING
def test_a_fork_inside_of_a_guard_of_its_own_thread_goes_on():
    guard = Guard()

    with guard:
        code = exit_code(lambda: True)

    assert code == 0
    assert is_free(guard)


def test_a_guard_that_is_not_used_any_more_is_forgotten():
    class Guarded:
        def __init__(self) -> None:
            self.guard = Guard(rest=self.rest)

        def rest(self) -> None:
            raise AssertionError("it is gone")

    known = len(module._GUARDS)
    guarded = Guarded()
    guard = guarded.guard
    more = len(module._GUARDS)
    del guarded
    guard.come_to_rest()
    del guard

    assert (more, len(module._GUARDS)) == (known + 1, known)
