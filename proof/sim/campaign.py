"""A whole run: many seeds and all planted bugs, spread over processes, and one closing line.

It starts the parts and adds them up; it lives through no history itself, but for those that it shows.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Any, NamedTuple

from proof.sim.planted import BUGS

ROOT = Path(__file__).resolve().parents[2]
"""The top of the checkout, where `python -m` finds this package."""

CHUNK = 2500
"""How many histories one process lives through."""

OF_WORKERS = 50
"""One history of workers for so many of ledgers: they take that much longer."""

WITHIN = 10_000
"""How many histories a planted bug may hide in."""

Say = Callable[[str], object]


class Order(NamedTuple):
    """What one process is to do."""

    verb: str
    args: tuple[str, ...]
    module: str = "proof.sim.part"


class Account:
    """What came of a run so far."""

    def __init__(self, start: int, histories: int) -> None:
        self.start = start
        self.wanted = histories
        self.began = time.monotonic()
        self.histories = 0
        self.of_workers = 0
        self.violations = 0
        self.broken: list[dict[str, Any]] = []
        self.found: dict[str, dict[str, Any]] = {}
        self.missed: list[str] = []

    @property
    def is_fine(self) -> bool:
        lived = self.histories == self.wanted and self.of_workers == self.wanted // OF_WORKERS
        return self.violations == 0 and not self.missed and lived

    def add(self, told: dict[str, Any]) -> None:
        """Add what one process told."""
        if "bug" in told and told["found"]:
            self.found[told["bug"]] = told["found"]
        elif "bug" in told:
            self.missed.append(told.get("error") or f"{told['bug']}: not found in {WITHIN} histories")
        else:
            if told.get("of", "ledger") == "ledger":
                self.histories += told["histories"]
            else:
                self.of_workers += told["histories"]
            self.violations += told["violations"]
            self.broken += told["broken"]

    def closing(self) -> str:
        """Sum everything up in one line."""
        bugs = len(self.found) + len(self.missed)
        seeds = f"seeds {self.start}..{self.start + self.wanted - 1}"
        spent = time.monotonic() - self.began
        return (
            f"{self.histories} histories and {self.of_workers} of workers, {self.violations} violations, "
            f"{len(self.found)}/{bugs} planted bugs found, {seeds}, {spent:.1f} s"
        )


def orders(start: int, histories: int, bugs: Sequence[str]) -> Iterator[Order]:
    """Split a run into parts."""
    for first in range(start, start + histories, CHUNK):
        yield Order("walk", (str(first), str(min(CHUNK, start + histories - first))))
    if histories >= OF_WORKERS:
        yield Order("work", (str(start), str(histories // OF_WORKERS)))
    for bug in bugs:
        yield Order("hunt", (bug, "0", str(WITHIN)))


def carry_out(order: Order) -> dict[str, Any]:
    """Have a process of its own do one part."""
    command = [sys.executable, "-m", order.module, order.verb, *order.args]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)} ended with {done.returncode}:\n{done.stderr}")
    told: dict[str, Any] = json.loads(done.stdout)
    return told


def run(start: int, histories: int, jobs: int, say: Say, bugs: Sequence[str] | None = None) -> Account:
    """Run everything and say now and then how far it is."""
    names = [bug.name for bug in BUGS] if bugs is None else bugs
    account = Account(start, histories)
    shown = time.monotonic()
    with ThreadPoolExecutor(jobs) as pool:
        futures = [pool.submit(carry_out, order) for order in orders(start, histories, names)]
        for future in as_completed(futures):
            account.add(future.result())
            if time.monotonic() - shown > 5.0:
                shown = time.monotonic()
                say(f"  {account.histories} histories, {len(account.found)} planted bugs found")
    return account
