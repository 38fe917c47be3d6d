"""Lets processes of a test run stand still at random, as on a machine that has much else to do.

`./dev test --stalls 1.5` stops one Python process of the run after another, for up to so many seconds each.
A test that fails then took a moment for granted: it waited for one thing and asserted another that comes
later, or counted on a lease that a busy machine outlasts. Servers are let be, whatever a test stopped itself,
and tortures of zombies, which take every stop for their own. Which process stands still and when is chance;
a run cannot be repeated.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import NamedTuple

import pytest

EVERY = 2.0
"""Seconds from one stall to the next, on average."""


class Process(NamedTuple):
    """A process as Linux tells of it."""

    pid: int
    parent: int
    name: str
    state: str
    words: tuple[str, ...] = ()
    """What it was started with."""


def processes() -> Iterator[Process]:
    """List what runs on this machine."""
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            with suppress(OSError):  # it has ended meanwhile
                head, _, tail = (folder / "stat").read_text().rpartition(")")
                state, parent, *_ = tail.split()
                words = tuple((folder / "cmdline").read_text(errors="replace").split("\0"))
                yield Process(int(folder.name), int(parent), head.partition("(")[2], state, words)


def may_stand_still(found: list[Process], root: int) -> list[int]:
    """Pick the Python processes below a root that nobody stopped."""
    below = {root}
    for _ in found:  # at most one generation for each process
        more = {one.pid for one in found if one.parent in below} - below
        if not more:
            break
        below |= more
    chosen = [one for one in found if one.pid in below - {root} and one.state != "T"]
    ours = [one for one in chosen if one.name.startswith(("python", "onefold"))]
    return sorted(one.pid for one in ours if "zombie" not in one.words)


class Stalls:
    """A pytest plugin, for the process that leads a run."""

    def __init__(self, longest: float, every: float = EVERY) -> None:
        self.count = 0
        self._longest = longest
        self._every = every
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._go_on, name="stalls", daemon=True)

    def pytest_sessionstart(self) -> None:
        self._thread.start()

    def pytest_sessionfinish(self) -> None:
        self._over.set()
        self._thread.join()

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        terminalreporter.write_line(f"{self.count} times a process stood still, up to {self._longest:g} s")

    def _go_on(self) -> None:
        chance = Random()
        while not self._over.wait(chance.expovariate(1 / self._every)):
            pids = may_stand_still(list(processes()), os.getpid())
            if pids:
                self._stall(chance.choice(pids), chance.uniform(0, self._longest))

    def _stall(self, pid: int, seconds: float) -> None:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGSTOP)
            self._over.wait(seconds)
            os.kill(pid, signal.SIGCONT)
            self.count += 1
