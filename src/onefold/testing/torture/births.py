"""Kill workers while they make a new store, and see whether the next one can use what they left.

Every birth has a folder of its own. It judges by one thing only: whether a second worker comes to its end.
"""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Literal, NamedTuple

from onefold.testing.torture.children import Child, Children, Report
from onefold.testing.torture.places import place
from onefold.testing.torture.worker import Errand, Site, work

SHARE_OF_LIFE = 0.4
"""Part of the time in which workers are killed at random: about what it takes to make a store."""

TOGETHER = 10
"""Second workers that are at it at the same time."""

Plant = Literal["none", "empty-first"]
"""A worker that makes an empty file before anything is in it, as SQLite does by itself."""

PLANTS: tuple[Plant, ...] = ("empty-first",)


class Births(NamedTuple):
    """What came of all births."""

    stores: int
    killed: int
    wedged: tuple[str, ...]
    """What the second worker complained of, where it could not work."""

    def __str__(self) -> str:
        return f"{self.stores} new stores, {self.killed} first workers killed, wedged {len(self.wedged)}"


def births(site: Site, plant: Plant, count: int, seed: int, progress: Callable[[int], None]) -> Births:
    """Kill the first worker of this many new stores, and send a second one to each."""
    where = place(site.scheme)
    where.warm()
    rng = random.Random(seed)
    sites = [site._replace(folder=site.folder / str(number)) for number in range(count)]
    seconds: list[Child] = []
    with ExitStack() as stack, Children() as children:
        for one in sites:
            stack.enter_context(where.lend(one.url))
        lives = [rng.uniform(0, where.life * SHARE_OF_LIFE) for _ in sites]
        firsts = [_kill_first(one, plant, life, children) for one, life in zip(sites, lives, strict=True)]
        for start in range(0, count, TOGETHER):
            some = [children.start(partial(_go_on, one)) for one in sites[start : start + TOGETHER]]
            children.until_ended(some)
            seconds += some
            progress(len(seconds))
    complaints = [child.complaint for child in (*firsts, *seconds)]
    return Births(count, sum(child.killed for child in firsts), tuple(filter(None, complaints)))


def _kill_first(site: Site, plant: Plant, life: float, children: Children) -> Child:
    site.folder.mkdir()
    child = children.start(partial(_begin, site, plant))
    while child.status is None and (left := child.born + life - time.monotonic()) > 0:
        children.watch(left)
    if child.status is None:
        os.kill(child.pid, signal.SIGKILL)
    children.until_ended([child])
    return child


def _begin(site: Site, plant: Plant, report: Report) -> None:
    if plant == "empty-first":
        Path(site.url.removeprefix("sqlite:///")).touch()
        signal.pause()
    work(site, Errand("single", (0,)), report)


def _go_on(site: Site, report: Report) -> None:
    work(site, Errand("single", (1,)), report)
