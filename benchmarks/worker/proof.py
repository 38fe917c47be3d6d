"""What every alternative to the worker shares: the records it reads, and the proof that it acted on them.

It knows no alternative and starts nothing.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from benchmarks.measure import Keys, Sizes, Skipped
from benchmarks.stores.servers import lent
from benchmarks.worker.stages import PAGE

DEADLINE = 120.0
"""Seconds that a round of an alternative may take at most."""


class Unavailable(Exception):
    """An alternative cannot run here; the text says why."""


class Stuck(Exception):
    """An alternative did not finish a round in time."""


@dataclass
class Site:
    """Where the alternatives run, how much they get to do, and what to undo at the end."""

    folder: Path
    sizes: Sizes
    stack: ExitStack

    @cached_property
    def redis(self) -> str:
        """The URL of a server that lives until the end; raises `NotThere` if there is none."""
        return self.stack.enter_context(lent("redis", starts="./dev bench worker"))

    def path(self, name: str) -> Path:
        """Return the path of a file or folder that does not exist yet."""
        return self.folder / f"{name}-{time.time_ns()}"


def pages(keys: Keys) -> Iterator[list[dict[str, Any]]]:
    """Give the records of a round in pages, as a source would; `n` grows, as a creation time would."""
    for start in range(0, len(keys), PAGE):
        yield [
            {"id": key, "n": number} for number, key in enumerate(keys[start : start + PAGE], start=start + 1)
        ]


def proven(name: str, acted: Sequence[str], keys: Keys) -> int:
    """Return how many effects ran, or raise `Skipped` unless each record had exactly one."""
    if len(acted) == len(keys) and set(acted) == set(keys):
        return len(acted)
    missed = set(keys) - set(acted)
    unexpected = Counter(acted) - Counter(keys)
    raise Skipped(
        f"{name}: {len(acted)} effects for {len(keys)} records; "
        f"{len(missed)} records without an effect, {unexpected.total()} effects too many"
    )


def wait_until(
    holds: Callable[[], bool], name: str, why: Callable[[], str], seconds: float = DEADLINE
) -> None:
    """Poll a condition each millisecond; raise `Stuck` with `why` if it does not hold in time."""
    deadline = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > deadline:
            raise Stuck(f"{name} did not finish within {seconds:g} s: {why()}")
        time.sleep(0.001)
