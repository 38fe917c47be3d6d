"""Blocking code of the user in threads: one call, or an iteration.

A thread cannot be interrupted. So a caller that is cancelled leaves its call running, and the exit of the
process does not wait for it: these threads are daemons, unlike those of anyio and asyncio, which the
interpreter joins. What an unfinished call means for a claim is decided by the caller; nothing here knows of
effects.
"""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import AsyncGenerator, Callable, Iterable
from contextlib import suppress
from contextvars import ContextVar, Token, copy_context
from functools import partial
from queue import SimpleQueue
from types import TracebackType
from typing import Any, Generic, Self, TypeVar

import anyio

from onefold.core.errors import Later
from onefold.runtime.process import PROCESS

T = TypeVar("T")

Outcome = tuple[Any, BaseException | None]

KEPT = 40
"""How many idle threads are kept for the next call; starting one costs more than the handing over."""

LEFT_RUNNING = 200
"""How many calls may run on after their callers left them; then no further call is started."""

LINGER = 1.0
"""Seconds for which a reader that is told to stop waits for its call, which mostly ends soon."""


async def in_thread(function: Callable[..., T], *args: Any, linger: float = 0.0) -> T:
    """Run a blocking function in a thread, and return what it returns.

    A cancelled caller waits for the call for `linger` seconds, and then leaves it running.
    """
    job = _Job(partial(copy_context().run, function, *args), asyncio.get_running_loop())
    calls = _CALLS.get()
    if calls is not None:
        calls.add(job)
    _THREADS.begin(job)
    try:
        # Without the shield, the cancellation would end the future that tells when the thread is done.
        value, error = await (asyncio.shield(job.done) if linger else job.done)
    except asyncio.CancelledError:
        if linger:
            with anyio.move_on_after(linger, shield=True):
                await asyncio.wait([job.done])
        _THREADS.leave(job)
        raise
    if error is None:
        return value  # type: ignore[no-any-return]
    try:
        raise error
    finally:
        del error  # it holds this frame by its traceback, and the frame would hold it


class Calls:
    """Notes the blocking calls that are made inside of its block, which may run on after the block."""

    __slots__ = ("_jobs", "_outer")

    def __init__(self) -> None:
        self._jobs: list[_Job] = []
        self._outer: Token[Calls | None]

    def __enter__(self) -> Self:
        self._outer = _CALLS.set(self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        _CALLS.reset(self._outer)

    def add(self, job: _Job) -> None:
        self._jobs = [one for one in self._jobs if not one.ended]
        self._jobs.append(job)

    @property
    def running(self) -> bool:
        """Whether one of the calls has not ended."""
        return any(not job.ended for job in self._jobs)


_CALLS: ContextVar[Calls | None] = ContextVar("onefold_calls", default=None)


def left_running() -> int:
    """Return how many calls still run after their callers left them."""
    return _THREADS.left_running


# ----- threads


class _Job:
    """One call, and where its end is told."""

    __slots__ = ("_call", "_loop", "done", "ended")

    def __init__(self, call: Callable[[], Any], loop: asyncio.AbstractEventLoop) -> None:
        self._call = call
        self._loop = loop
        self.done: asyncio.Future[Outcome] = loop.create_future()
        self.ended = False

    def run(self) -> Outcome:
        """Make the call; runs in the thread."""
        try:
            return self._call(), None
        except BaseException as error:  # even SystemExit is the caller's to judge
            return None, error
        finally:
            self.ended = True

    def tell(self, outcome: Outcome) -> None:
        """Tell the caller; runs in the thread."""
        with suppress(RuntimeError):  # the loop is closed, and nobody waits any more
            self._loop.call_soon_threadsafe(self._told, outcome)

    def _told(self, outcome: Outcome) -> None:
        if not self.done.done():
            self.done.set_result(outcome)


class _Threads:
    """The threads of this process, which wait for calls."""

    def __init__(self) -> None:
        self._forget()

    def _forget(self) -> None:
        self._process = PROCESS.number
        self._idle: list[SimpleQueue[_Job]] = []
        self._left: set[_Job] = set()

    def begin(self, job: _Job) -> None:
        """Hand a call to an idle thread, or to a new one."""
        if self._process != PROCESS.number:
            self._forget()  # a forked child has none of its parent's threads
        if len(self._left) >= LEFT_RUNNING:
            raise Later(
                f"{LEFT_RUNNING} calls still run after they were given up: find out what they wait for", 60
            )
        try:
            jobs = self._idle.pop()
        except IndexError:
            jobs = SimpleQueue()
            live = partial(_live, jobs, self._idle, self._left)
            threading.Thread(target=live, name="onefold-call", daemon=True).start()
        jobs.put(job)

    @property
    def left_running(self) -> int:
        return len(self._left)

    def leave(self, job: _Job) -> None:
        """Note that nobody waits for a call any more."""
        self._left.add(job)
        if job.ended:  # perhaps before it was noted: then its thread did not strike it out
            self._left.discard(job)


def _live(jobs: SimpleQueue[_Job], idle: list[SimpleQueue[_Job]], left: set[_Job]) -> None:
    is_kept = True
    while is_kept:
        job = jobs.get()
        outcome = job.run()
        left.discard(job)
        is_kept = len(idle) < KEPT
        if is_kept:  # before the caller hears of it, who may have the next call
            idle.append(jobs)
        job.tell(outcome)
        del job, outcome  # keep nothing alive while waiting for the next one


_THREADS = _Threads()


# ----- an iteration


class Drawn(Generic[T]):
    """Iterates over blocking items in a thread, and gives what has come, at most `most` at a time.

    An item is given immediately, because the next may be long in coming. The thread waits while `most` items
    were not taken. Whoever leaves the iteration ends it at its next item, in the thread; `ended` says when.
    """

    def __init__(self, items: Iterable[T], most: int) -> None:
        self.ended = threading.Event()
        self._items = items
        self._most = most
        self._room = threading.Condition()
        self._come: list[T] = []
        self._is_left = False

    async def come(self) -> AsyncGenerator[list[T], None]:
        """Give what has come since the last time; close it when it is left early."""
        loop, news = asyncio.get_running_loop(), asyncio.Event()
        job = _Job(partial(copy_context().run, self._draw, loop, news), loop)
        try:
            _THREADS.begin(job)
        except BaseException:
            self.ended.set()
            raise
        job.done.add_done_callback(lambda _: news.set())
        try:
            over = False
            while not over:
                await news.wait()
                news.clear()
                over = job.done.done()  # before the last look: what came until then is taken
                if come := self._taken():
                    yield come
            _, error = job.done.result()
            if error is not None:
                raise error
        finally:
            self._leave()
            _THREADS.leave(job)

    def _draw(self, loop: asyncio.AbstractEventLoop, news: asyncio.Event) -> None:
        """Draw all items; runs in the thread."""
        try:
            for item in self._items:
                number = self._put(item)
                if not number:
                    break
                if number == 1:  # with more, the loop has been told and has not looked yet
                    with suppress(RuntimeError):  # it is closed: the next item finds that nobody waits
                        loop.call_soon_threadsafe(news.set)
        finally:
            if inspect.isgenerator(self._items):
                self._items.close()
            self.ended.set()

    def _put(self, item: T) -> int:
        """Add an item, as soon as there is room; return how many wait to be taken, none if nobody takes."""
        with self._room:
            self._room.wait_for(lambda: self._is_left or len(self._come) < self._most)
            if self._is_left:
                return 0
            self._come.append(item)
            return len(self._come)

    def _taken(self) -> list[T]:
        with self._room:
            come, self._come = self._come, []
            self._room.notify()
            return come

    def _leave(self) -> None:
        with self._room:
            self._is_left = True
            self._room.notify()
