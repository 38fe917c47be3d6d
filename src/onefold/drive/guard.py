"""A lock that neither an interrupted holder nor a fork can leave locked.

A signal's exception can strike between any two lines, also right after a lock was taken or right before it
is released. So nothing here relies on a release: the lock is a queue of calls, and the first one holds it.
Each call is known by its frame. A blocked call checks whether the call ahead still runs in its thread, and
removes it if not. Before a fork, the forking thread takes all guards, so that the child inherits none that
another thread holds. Do not hold a guard for anything longer than one call of a store.
"""

from __future__ import annotations

import os
import sys
import threading
import weakref
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from itertools import count
from types import FrameType, TracebackType
from typing import TYPE_CHECKING

from onefold.core.errors import Locked
from onefold.runtime.process import PROCESS

if TYPE_CHECKING:
    from onefold.core.line import Ask

LOOK = 1.0
"""Seconds after which a blocked call looks whether the call ahead of it still runs."""

FORK_LOOKS = 10
"""How often a fork looks before it stops waiting for a call of another thread."""


class Call:
    """A call in a queue: the process and the thread in which it runs, and its frame."""

    __slots__ = ("ask", "frame", "process", "thread", "turn")

    def __init__(self, frame: FrameType, thread: int | None = None) -> None:
        self.process = PROCESS.number
        self.thread = threading.get_ident() if thread is None else thread
        self.frame: FrameType | None = frame
        self.turn: threading.Lock | None = None  # most calls never wait
        self.ask: Ask | None = None  # what a waiting call wants; see `Merged`

    def runs(self) -> bool:
        """Say whether the call still runs. An interrupt or a fork may have ended it in its queue."""
        if self.process != PROCESS.number:
            return False
        frame = sys._current_frames().get(self.thread)
        while frame is not None and frame is not self.frame:
            frame = frame.f_back
        return frame is not None

    def is_elsewhere(self) -> bool:
        """Say whether the call belongs to another thread of this process, which can wake this one."""
        return self.process == PROCESS.number and self.thread != threading.get_ident()

    def wake(self) -> None:
        """Tell a waiting call to look again."""
        turn = self.turn
        if turn is not None:
            with suppress(RuntimeError):  # it was woken already
                turn.release()


class Queue:
    """Calls in the order in which they came. The first one has its turn until it leaves.

    Every change is one operation of a deque: no thread and no signal finds it half done.
    """

    __slots__ = ("calls",)

    def __init__(self) -> None:
        self.calls: deque[Call] = deque()

    def enter(self, call: Call) -> bool:
        """Stand in line; True if it is this call's turn."""
        self.calls.append(call)
        return self.calls[0] is call

    def leave(self, call: Call) -> None:
        """Step out of line and wake the next call."""
        calls = self.calls
        try:
            calls.remove(call)
            calls[0].wake()
        except (ValueError, IndexError):
            pass  # another thread has removed it already, or nobody waits
        call.frame = None  # its locals hold this call: the two would keep each other alive

    def wait(self, call: Call, looks: float = float("inf")) -> bool:
        """Wait until it is this call's turn, or until its ask is answered; False after so many looks."""
        call.turn = turn = threading.Lock()
        turn.acquire()
        while (ahead := self.calls[0]) is not call and (call.ask is None or call.ask.open):
            if ahead.is_elsewhere() and turn.acquire(timeout=LOOK):
                continue
            # The frame that waits here cannot run inside of its turn: it was interrupted there before.
            if ahead.frame is call.frame or not ahead.runs():
                self.leave(ahead)
            elif not ahead.is_elsewhere():
                raise Locked(
                    "this thread is inside of another call on the store: a signal handler made this one"
                )
            else:
                looks -= 1
                if looks <= 0:
                    return False
        return True


class Guard:
    """Lets one call in at a time: `with guard:`. `rest` is called before a fork, with the guard held."""

    __slots__ = ("__weakref__", "_queue", "_rest")

    def __init__(self, rest: Callable[[], object] | None = None) -> None:
        self._queue = Queue()
        self._rest = None if rest is None else weakref.WeakMethod(rest)
        number = next(_NUMBERS)
        _GUARDS[number] = weakref.ref(self, lambda _: _GUARDS.pop(number, None))
        for thread, frame in list(_FORKING.items()):
            # A fork that is under way may have listed the guards already: it holds this one, too.
            self._queue.enter(Call(frame, thread))
            if thread not in _FORKING:
                self.give(frame)  # it ended meanwhile, and may have given back all that it knew of

    def __enter__(self) -> None:
        queue, call = self._queue, Call(sys._getframe(1))
        queue.calls.append(call)
        if queue.calls[0] is not call:
            self._wait(call)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.give(sys._getframe(1))

    def take(self, frame: FrameType, looks: float) -> bool:
        """Hold the guard while a frame runs; False if another call keeps it for so many looks."""
        call = Call(frame)
        return self._queue.enter(call) or self._wait(call, looks)

    def give(self, frame: FrameType) -> None:
        """Let the next call in, if the frame holds the guard."""
        calls = self._queue.calls
        try:
            while calls[0].frame is frame:
                calls.popleft()
            calls[0].wake()
        except IndexError:
            pass  # nobody waits

    def _wait(self, call: Call, looks: float = float("inf")) -> bool:
        taken = False
        try:
            taken = self._queue.wait(call, looks)
        finally:
            if not taken:
                self._queue.leave(call)
        return taken

    def come_to_rest(self) -> None:
        """Do what has to be done before a fork."""
        rest = self._rest and self._rest()
        if rest is not None:
            rest()


_NUMBERS = count()
_GUARDS: dict[int, weakref.ref[Guard]] = {}
"""All guards in the order in which they were made. A call inside one guard takes only those made later."""

_FORKING: dict[int, FrameType] = {}
"""The threads that are forking this process now, with the frame that forks."""


def _before_fork() -> None:
    """Hold every guard, so that the child finds no lock taken and no transaction half done."""
    frame = _FORKING[threading.get_ident()] = sys._getframe(1)
    for guard in _all():
        with suppress(Locked):  # this very thread is inside: a signal handler forks
            if guard.take(frame, FORK_LOOKS):
                guard.come_to_rest()


def _after_fork() -> None:
    frame = sys._getframe(1)
    _FORKING.pop(threading.get_ident(), None)
    for guard in _all():
        guard.give(frame)


def _all() -> list[Guard]:
    guards = (_GUARDS[number]() for number in sorted(_GUARDS.copy()) if number in _GUARDS)
    return [guard for guard in guards if guard is not None]


os.register_at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=_after_fork)
# Of the threads that forked at the same moment, a child has only its own.
os.register_at_fork(after_in_child=_FORKING.clear)
