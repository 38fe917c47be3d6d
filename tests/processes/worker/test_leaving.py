"""A process that promised to end does so, with the code that is known, and says what kept it.

The promise is kept by timers of this process, in threads that really wait.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator

import pytest

from onefold.worker import leaving
from onefold.worker.leaving import Leaving
from tests.waiting import PATIENCE


class Ends:
    """Takes the place of the end of the process."""

    def __init__(self) -> None:
        self.codes: list[int] = []
        self.ended = threading.Event()

    def __call__(self, code: int) -> None:
        self.codes.append(code)
        self.ended.set()


@pytest.fixture(autouse=True)
def the_tests_go_on(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let nothing of this process be closed for its exit, and no thread stay that would end it."""
    monkeypatch.setattr(logging, "shutdown", lambda: None)
    monkeypatch.setattr("atexit._run_exitfuncs", lambda: None)
    yield
    for timer in timers():
        timer.cancel()
        timer.join(PATIENCE)


def timers() -> list[threading.Timer]:
    return [one for one in threading.enumerate() if isinstance(one, threading.Timer)]


def test_a_process_that_is_still_there_ends_and_names_the_threads_that_kept_it(caplog, monkeypatch):
    monkeypatch.setattr(leaving, "LAST", 0.0)
    end = Ends()
    Leaving(end).promise(0.0, 1)

    assert end.ended.wait(PATIENCE)
    assert end.codes == [1]
    assert "the process ends now; threads: MainThread" in caplog.text


def test_without_a_stop_nothing_is_promised():
    assert not Leaving(Ends()).is_promised


def test_the_code_that_is_known_at_the_end_takes_the_place_of_the_first(monkeypatch):
    monkeypatch.setattr(leaving, "SHORTEST", 0.0)
    end = Ends()
    one = Leaving(end, lambda: 0.0)
    one.promise(0.0, 1)
    one.last(3, is_hung=False)

    assert end.ended.wait(PATIENCE)
    assert end.codes == [3]


def test_a_process_whose_calls_hang_ends_immediately():
    end = Ends()
    one = Leaving(end)
    one.promise(3600, 1)
    one.last(3, is_hung=True)

    assert end.codes == [3]


def test_threads_of_the_user_have_the_rest_of_the_grace_time():
    now, end = [100.0], Ends()
    one = Leaving(end, lambda: now[0])
    one.promise(3600, 1)
    [first] = timers()
    now[0] += 1000
    one.last(0, is_hung=False)
    first.join(PATIENCE)

    assert [timer.interval for timer in timers()] == [2600]
    assert end.codes == []
