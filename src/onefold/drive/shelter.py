"""A thread for calls that a signal must not interrupt.

Signals strike the main thread only. Some drivers use conditions of the standard library, whose lock stays
taken if an exception strikes inside `Condition.__enter__`. The driver's clean-up then waits for that lock for
ever. So their calls run here, and the main thread waits for the answer. If the main thread is interrupted,
the call still runs to its end, and its answer is dropped. The protocol treats that as a lost reply.
"""

from __future__ import annotations

import threading
import weakref
from _thread import start_new_thread
from collections.abc import Callable
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Any, TypeVar

from onefold.runtime.process import PROCESS

T = TypeVar("T")

LOOK = 1.0
"""Seconds after which a waiting call looks whether a signal came."""

Answers = SimpleQueue[tuple[BaseException | None, Any]]
Jobs = SimpleQueue["tuple[Answers, Callable[..., Any], tuple[Any, ...]] | None"]


class Shelter:
    """Runs calls of the main thread in another one. Calls of other threads run where they are."""

    def __init__(self) -> None:
        self._process = -1
        self._jobs: Jobs | None = None
        """Those of a thread that has nothing to do; None while it has, and after an interrupt."""

    def call(self, function: Callable[..., T], *args: Any) -> T:
        """Return what a function returns, or raise what it raises."""
        if threading.get_ident() != threading.main_thread().ident:
            return function(*args)
        jobs, self._jobs = self._jobs, None
        if jobs is None or self._process != PROCESS.number:
            jobs = self._started()
        answers: Answers = SimpleQueue()
        try:
            jobs.put((answers, function, args))
            error, value = _answer(answers)
        except BaseException:
            jobs.put(None)  # this thread ends with the call; the next call has another one
            raise
        self._jobs = jobs
        if error is not None:
            raise error
        answer: T = value
        return answer

    def _started(self) -> Jobs:
        jobs: Jobs = SimpleQueue()
        # Not `Thread.start`: it waits on a condition of its own, which an interrupt can break.
        start_new_thread(_work, (jobs,))
        self._process = PROCESS.number
        weakref.finalize(self, jobs.put, None)
        return jobs


def _answer(answers: Answers) -> tuple[BaseException | None, Any]:
    """Wait for an answer, a second at a time: a signal that comes right before a wait does not end it."""
    while True:
        with suppress(Empty):
            return answers.get(timeout=LOOK)


def _work(jobs: Jobs) -> None:
    while (job := jobs.get()) is not None:
        answers, function, args = job
        try:
            answers.put((None, function(*args)))
        except BaseException as error:
            answers.put((error, None))
        del job, answers, function, args  # keep nothing alive while waiting for the next job
