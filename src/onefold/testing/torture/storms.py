"""Strike a process with signals while it uses a ledger: each raises KeyboardInterrupt wherever it strikes.

A signal's exception can come between any two steps, also inside the store's driver, and again inside the code
that cleans up after the first. Afterwards the ledger must work without help: here, and in other processes
while this one is still connected.
"""

from __future__ import annotations

import random
import signal
import sys
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from types import CodeType, FrameType
from typing import NamedTuple

from onefold import Key, Ledger, Terms
from onefold.core.entry import STATES
from onefold.testing.torture.children import Child, Children, Report
from onefold.testing.torture.places import place_alone

SCOPE = "torture"

TERMS = Terms(lease=600.0)
"""No lease may run out: a late end would then be lost for a reason that has nothing to do with signals."""

SHORT = 3.0
"""Strikes come within the time of so many calls."""

BEATEN = 3
"""Strikes in a row without a finished call, after which the next one waits for one call to finish.

A driver that was struck has to connect again, which takes longer than the time between two strikes.
"""

STUCK = 60.0
"""Seconds without a finished call after which the ledger counts as stuck."""

AFTER = 5
"""Calls that must work when the storm is over, in the struck process and in another."""

Progress = Callable[[int], None]


class Weather(NamedTuple):
    """What came of a storm."""

    calls: int
    strikes: int
    ran: Counter[int]
    """How often the effect of each key ran."""
    states: Mapping[int, str]
    """What the ledger says of each key."""
    unexplained: tuple[str, ...] = ()

    @property
    def duplicated(self) -> tuple[int, ...]:
        return tuple(key for key, times in sorted(self.ran.items()) if times > 1)

    @property
    def unfounded(self) -> tuple[int, ...]:
        """Keys that the ledger calls done although their effect never ran."""
        return tuple(
            key for key, state in sorted(self.states.items()) if state == "done" and not self.ran[key]
        )

    @property
    def holds(self) -> bool:
        return not (self.duplicated or self.unfounded or self.unexplained)

    def __str__(self) -> str:
        done = sum(state == "done" for state in self.states.values())
        return (
            f"{self.calls} calls, {self.strikes} strikes, ran {len(self.ran)}, done {done}, "
            f"duplicated {len(self.duplicated)}, done without running {len(self.unfounded)}, "
            f"unexplained {len(self.unexplained)}"
        )


def storm(scheme: str, server: str, folder: Path, calls: int, seed: int, progress: Progress) -> Weather:
    """Let a process make so many calls in a storm; look at what is left while it is still connected."""
    where = place_alone(scheme)
    url = where.url(server, folder)
    where.warm()
    with where.lend(url), Children() as children:
        struck = children.start(partial(_in_storm, url, calls, seed))
        complaints = _until(children, struck, "over", progress)
        if where.shared and not complaints:
            other = children.start(partial(_undisturbed, url))
            complaints = _until(children, other, "over", progress)
    return _weather(calls, struck, complaints)


def _until(children: Children, child: Child, word: str, progress: Progress) -> list[str]:
    """Wait for a word of a child; say what is wrong if it does not come."""
    while not child.words(word):
        heard = len(child.said)
        children.watch(STUCK)
        if child.status is not None and not child.words(word):
            return [child.complaint or f"worker {child.pid} ended too early"]
        if len(child.said) == heard:
            return [f"no call of worker {child.pid} has finished for {STUCK:.0f} s: {child.said[-1:]}"]
        if finished := child.words("finished"):
            progress(int(finished[-1][0]))
    return []


def _weather(calls: int, struck: Child, complaints: Iterable[str]) -> Weather:
    told = [*complaints, *(f"a call raised {words[0]}" for words in struck.words("raised"))]
    return Weather(
        calls,
        int(struck.words("strikes")[0][0]) if struck.words("strikes") else 0,
        Counter(int(key) for (key,) in struck.words("ran")),
        {int(key): state for key, state in struck.words("state")},
        tuple(told),
    )


# ----- the struck process


class Struck:
    """Makes calls in a storm. Its own loop is left in peace; everything that it calls is struck."""

    def __init__(self, ledger: Ledger, rng: random.Random, report: Report) -> None:
        self.ran: list[int] = []
        self.strikes = 0
        self._ledger = ledger
        self._rng = rng
        self._report = report
        self._beaten = 0
        self._short = 0.0

    def measure(self) -> None:
        """See how long a call takes on an open connection; the first one opens it."""
        times = [self._timed(-number) for number in range(1, 7)]
        self._short = max(SHORT * min(times), 0.001)
        self.ran.clear()

    def _timed(self, key: int) -> float:
        started = time.monotonic()
        self._once(key)
        return time.monotonic() - started

    def call_all(self, calls: int) -> None:
        """Call every key, and again if it was interrupted."""
        signal.signal(signal.SIGALRM, self._strike)
        self._arm()
        at = 0
        while at < calls:
            try:
                self._once(at)
                at += 1
                if self._beaten > BEATEN:
                    self._arm()
                self._beaten = 0
                if at % 20 == 0:
                    self._report("finished", at)
            except KeyboardInterrupt:
                pass
            except Exception as error:
                self._report("raised", f"{type(error).__name__}: {error}")
                at += 1
        # In this order: a strike that is already under way must not arm the timer again.
        signal.signal(signal.SIGALRM, signal.SIG_IGN)
        signal.setitimer(signal.ITIMER_REAL, 0)

    def _once(self, key: int) -> None:
        self._ledger.call(Key(SCOPE, key), partial(self.ran.append, key), terms=TERMS)

    def _arm(self) -> None:
        signal.setitimer(signal.ITIMER_REAL, self._rng.uniform(0.0001, self._short))

    def _strike(self, number: int, frame: FrameType | None) -> None:
        if not is_inside(Struck._once.__code__, frame):
            self._arm()
            return
        self.strikes += 1
        self._beaten += 1
        if self._beaten <= BEATEN:
            self._arm()
        raise KeyboardInterrupt


def is_inside(code: CodeType, frame: FrameType | None) -> bool:
    """Say whether a frame runs a function, or was called by it."""
    while frame is not None and frame.f_code is not code:
        frame = frame.f_back
    return frame is not None


def _in_storm(url: str, calls: int, seed: int, report: Report) -> None:
    # What is struck while it is thrown away says so on stderr, where nobody can do anything about it.
    warnings.simplefilter("ignore")
    sys.unraisablehook = lambda _: None
    ledger = Ledger(url)
    struck = Struck(ledger, random.Random(seed), report)
    struck.measure()
    struck.call_all(calls)
    _call_new(ledger, "after")
    report("strikes", struck.strikes)
    for number in struck.ran:
        report("ran", number)
    for key, entry in ledger.entries(SCOPE, *STATES):
        if key.label.isdecimal():
            report("state", key.label, entry.state)
    report("over")
    signal.pause()  # with its connections open, in whatever state the storm has left them


def _undisturbed(url: str, report: Report) -> None:
    _call_new(Ledger(url), "other")
    report("over")


def _call_new(ledger: Ledger, name: str) -> None:
    for number in range(AFTER):
        told = ledger.call(Key(SCOPE, name, number), lambda: None, terms=TERMS)
        if told.state != "ran":
            raise RuntimeError(f"a new key is {told.state} after the storm")
