"""Other processes on the same file: forked, so that one without any rights needs to read no code.

They are real processes with real locks; nothing here waits for a length of time.
"""

from __future__ import annotations

import faulthandler
import os
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from multiprocessing import get_context
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Any, TypeVar

import apsw

from tests.waiting import PATIENCE

T = TypeVar("T")
NOBODY = 65534
STACK = signal.SIGUSR2
"""A child that gets this signal writes its stack and ends."""

_FORK = get_context("fork")

FORKING = "ignore:.*multi-threaded, use of fork:DeprecationWarning"
"""For `filterwarnings`: newer Pythons warn of forks beside threads, which is what is tested here."""


def in_child(work: Callable[[], T]) -> T:
    """Do work in another process; return what it returns, raise what it raises."""
    [answer] = in_children([work])
    return answer


def in_children(works: Sequence[Callable[[], T]]) -> list[T]:
    """Do work in several processes that start at the same moment."""
    start = _FORK.Barrier(len(works))
    pipes = [_FORK.Pipe() for _ in works]
    children = [
        _FORK.Process(target=_report, args=(start.wait, work, theirs), daemon=True)
        for work, (_, theirs) in zip(works, pipes, strict=True)
    ]
    with TemporaryFile() as stacks:
        # Before the fork: a child may hang in a hook of the fork, before its first line.
        faulthandler.register(STACK, file=stacks, chain=True)
        try:
            for child in children:
                child.start()
            told = [_heard(ours, children, stacks) for ours, _ in pipes]
        finally:
            faulthandler.unregister(STACK)
            for child in filter(lambda child: child.pid, children):
                child.kill()  # it has said all that it will say
                child.join()
    for error in told:
        if isinstance(error, BaseException):
            raise error
    return told


def _heard(child: Connection, all_children: Sequence[BaseProcess], stacks: IO[bytes]) -> Any:
    """Wait for the answer of a child. If it hangs, say where each of them is: it may wait for another."""
    if child.poll(PATIENCE):
        return child.recv()
    for one in all_children:
        if one.pid is not None and one.is_alive():
            os.kill(one.pid, STACK)
            one.join()
    stacks.seek(0)
    raise TimeoutError(f"a child hangs:\n{stacks.read().decode()}")


def _report(start: Callable[[], Any], work: Callable[[], Any], to: Connection) -> None:
    start()
    try:
        to.send(work())
    except BaseException as error:
        to.send(error)


def as_nobody(work: Callable[[], T]) -> T:
    """Do work in a process that may do as little as any user; tests that are not root are one already."""

    def dropped() -> T:
        if os.geteuid() == 0:
            os.setgroups([])
            os.setgid(NOBODY)
            os.setuid(NOBODY)
        return work()

    return in_child(dropped)


@contextmanager
def write_lock(path: Path) -> Iterator[None]:
    """Let another process keep a file locked for writing."""
    ours, theirs = _FORK.Pipe()
    child = _FORK.Process(target=_hold, args=(path, theirs), daemon=True)
    child.start()
    assert ours.recv() == "locked"
    try:
        yield
    finally:
        ours.send("enough")
        child.join()


def _hold(path: Path, to: Connection) -> None:
    connection = apsw.Connection(str(path))
    connection.execute("BEGIN IMMEDIATE")
    to.send("locked")
    to.recv()
    connection.close()
