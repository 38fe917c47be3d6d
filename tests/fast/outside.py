"""Fails a test of `tests/fast` that leaves the tier: it connects, starts a process, or lets real time pass.

An audit hook sees every connection, listener, name lookup and process that Python code asks for. Real time
passes where a thread sleeps, and where an event loop or a condition waits until its time is over; a wait that
another thread ends earlier is allowed. Clients written in C and locks with a timeout are not noticed.

The checks are put into this process once. They act only while a test is watched, and only on its own threads.
So tests of other tiers may run in the same process, and what they leave running may go on.
"""

from __future__ import annotations

import selectors
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from _pytest.outcomes import Failed

ACTS: dict[str, str] = {
    "socket.connect": "connects to {1}",
    "socket.bind": "listens at {1}",
    "socket.getaddrinfo": "looks up the address of {0}",
    "socket.gethostbyname": "looks up the address of {0}",
    "subprocess.Popen": "starts the program {0}",
    "os.system": "starts the program {0}",
    "os.posix_spawn": "starts the program {0}",
    "os.fork": "forks",
    "os.forkpty": "forks",
}
"""What a test must not do, by the events of Python's audit hooks."""

HOME = {
    "socket": "a test that needs a server belongs to tests/servers, one that needs a socket to "
    "tests/processes; on the virtual loop, streams, HTTP clients and stand-ins need no socket",
    "process": "a test that needs another process belongs to tests/processes",
    "time": "wait on the virtual loop (anyio.sleep, current().wait); a test that needs real time belongs to "
    "tests/processes",
}
"""Where such a test belongs."""


class Outside(Failed):
    """A test of the fast tier left it. It is no `Exception`, or the code under test would handle it."""


class Watch:
    """Watches one test, and remembers what it did that it must not do."""

    def __init__(self) -> None:
        self.complaints: list[Outside] = []
        self.others = frozenset(sys._current_frames()) - {threading.get_ident()}
        """The threads that ran before the test; they are not watched."""

    def refuse(self, kind: str, act: str) -> Outside:
        """Return the error that an act raises, and keep it in case the test catches it."""
        complaint = Outside(f"tests/fast: this test {act}; {HOME[kind]}")
        self.complaints.append(complaint)
        return complaint

    def report(self) -> None:
        """Raise the first complaint that nobody has seen yet."""
        complaints, self.complaints = self.complaints, []
        if complaints:
            raise complaints[0]


_watch: Watch | None = None
"""The watch over the test that is running."""


@contextmanager
def watched() -> Iterator[Watch]:
    """Watch what this thread does inside of the block, and the threads that start there."""
    global _watch
    before, _watch = _watch, Watch()
    try:
        yield _watch
    finally:
        _watch = before


@contextmanager
def guarded() -> Iterator[None]:
    """Watch a test with its fixtures, and raise at its end what was caught and not reported yet."""
    with watched() as watch:
        yield
    watch.report()


@contextmanager
def reporting() -> Iterator[None]:
    """Raise at the end of a part of a test what that part caught. What it raises is reported already."""
    try:
        yield
    except Outside:
        if _watch:
            _watch.complaints.clear()
        raise
    if _watch:
        _watch.report()


def _watching() -> Watch | None:
    """Return the watch if it is over this thread."""
    return _watch if _watch is not None and threading.get_ident() not in _watch.others else None


# ----- the checks


def _audit(event: str, args: tuple[Any, ...]) -> None:
    __tracebackhide__ = True
    if event in ACTS and (watch := _watching()):
        kind = "socket" if event.startswith("socket") else "process"
        raise watch.refuse(kind, ACTS[event].format(*args))


def _sleep(seconds: float, /, _sleep: Callable[[float], None] = time.sleep) -> None:
    __tracebackhide__ = True
    if seconds > 0 and (watch := _watching()):
        raise watch.refuse("time", f"sleeps for {seconds:g} s")
    _sleep(seconds)


def _timed(wait: Callable[..., Any], act: str) -> Callable[..., Any]:
    """Check a method that waits. It returns False or nothing once its time is over."""

    def checked(self: Any, timeout: float | None = None) -> Any:
        __tracebackhide__ = True
        came = wait(self, timeout)
        if not came and timeout is not None and timeout > 0 and (watch := _watching()):
            raise watch.refuse("time", f"waits {timeout:g} s {act}")
        return came

    return checked


def _install() -> None:
    """Put the checks into this process. An audit hook cannot be removed."""
    sys.addaudithook(_audit)
    time.sleep = _sleep  # type: ignore[assignment]
    selector: Any
    for selector in (selectors.SelectSelector, selectors.PollSelector, selectors.DefaultSelector):
        selector.select = _timed(selector.select, "on a real event loop")
    condition: Any = threading.Condition
    condition.wait = _timed(condition.wait, "for another thread")


_install()
