"""Shelters: calls of the main thread run where no signal strikes, and an interrupted one blocks nobody."""

from __future__ import annotations

import gc
import os
import signal
import sys
import threading
from queue import SimpleQueue
from types import FrameType

import pytest

from onefold.drive import shelter as module
from onefold.drive.shelter import Shelter
from tests.interrupts import every_line
from tests.waiting import PATIENCE, wait_for


def threads() -> int:
    """Count the threads of shelters."""
    gc.collect()  # shelters of other tests, which an exception may keep alive
    count = 0
    for frame in sys._current_frames().values():
        at: FrameType | None = frame
        while at is not None:
            count += at.f_code is module._work.__code__
            at = at.f_back
    return count


def test_calls_of_the_main_thread_run_in_one_other_thread():
    shelter = Shelter()

    idents = {shelter.call(threading.get_ident) for _ in range(5)}

    assert len(idents) == 1
    assert idents != {threading.get_ident()}


def test_calls_of_other_threads_run_where_they_are():
    shelter, told = Shelter(), list[bool]()
    thread = threading.Thread(target=lambda: told.append(shelter.call(threading.get_ident) == thread.ident))
    thread.start()
    thread.join(PATIENCE)

    assert told == [True]


def test_what_a_call_raises_is_raised():
    shelter = Shelter()

    with pytest.raises(ValueError, match="invalid literal"):
        shelter.call(int, "x")
    assert shelter.call(int, "1") == 1


def test_whatever_ends_a_wait_leaves_a_shelter_that_works(monkeypatch):
    shelter = Shelter()
    with monkeypatch.context() as now:
        now.setattr(module, "LOOK", -1.0)
        with pytest.raises(ValueError, match="non-negative"):
            shelter.call(int, "1")

    assert shelter.call(int, "1") == 1


def test_an_interrupt_before_any_line_leaves_a_shelter_that_works():
    shelter = Shelter()
    struck = 0

    for _, line in every_line([module], lambda at: shelter.call(int, str(at))):
        struck += 1
        assert shelter.call(int, "1") == 1, line

    assert struck > 8


def test_an_interrupt_while_a_call_is_waited_for_does_not_interrupt_the_call():
    shelter, go_on, ended = Shelter(), threading.Event(), threading.Event()

    def work() -> None:
        os.kill(os.getpid(), signal.SIGUSR1)
        assert go_on.wait(PATIENCE)
        ended.set()

    before = signal.signal(signal.SIGUSR1, interrupt)
    try:
        with pytest.raises(KeyboardInterrupt):
            shelter.call(work)
    finally:
        signal.signal(signal.SIGUSR1, before)
    after = shelter.call(int, "1")  # the first call still runs
    go_on.set()

    assert after == 1
    assert ended.wait(PATIENCE)
    wait_for(lambda: threads() <= 1)  # the thread that was left ends with its call


def test_a_call_is_waited_for_however_long_it_takes(monkeypatch):
    monkeypatch.setattr(module, "LOOK", 0.0)

    assert Shelter().call(threading.Event().wait, 0.01) is False


def interrupt(*_: object) -> None:
    raise KeyboardInterrupt


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")
def test_a_forked_child_has_a_thread_of_its_own():
    shelter = Shelter()
    shelter.call(int, "1")
    pid = os.fork()
    if pid == 0:
        os._exit(shelter.call(int, "3"))

    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 3
    assert shelter.call(int, "1") == 1


def test_a_shelter_that_woke_up_in_another_process_starts_a_thread():
    shelter = Shelter()
    shelter.call(int, "1")
    shelter._process = -1

    assert shelter.call(int, "1") == 1


def test_a_thread_of_a_shelter_answers_until_it_is_told_to_end():
    jobs: module.Jobs = SimpleQueue()
    answers: module.Answers = SimpleQueue()
    for job in ((answers, int, ("1",)), (answers, int, ("x",)), None):
        jobs.put(job)
    module._work(jobs)  # here: coverage does not see threads that the interpreter starts itself

    assert answers.get() == (None, 1)
    error, value = answers.get()
    assert (type(error), value) == (ValueError, None)
