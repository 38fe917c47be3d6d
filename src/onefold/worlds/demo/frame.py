"""Runs the demo: worlds, workers that are killed and started again, and in the end the account.

It knows Onefold by its commands, and by what any SQLite browser shows. A kill counts as one between claim and
settle if it left a claim behind that nobody renewed or settled.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing, suppress
from pathlib import Path
from typing import Any, NamedTuple

from onefold.worlds.chat import TOKEN
from onefold.worlds.demo.account import Account, account
from onefold.worlds.demo.part import Part

WORKERS = 2
SILENCE = 2.0
"""Seconds after which a claim that is as it was belongs to a dead worker: a living one renews it sooner."""
DRAIN = 25.0
"""Seconds without progress, after the last kill and in truthful worlds, after which what is left is lost."""
DRAIN_AT_MOST = 120.0
"""Seconds after which it is lost even if there is progress: a slow machine is no loss, an endless one is."""

ONEFOLD = ("-m", "onefold")
"""The arguments of Python that run the command `onefold`."""

LOOKS = 0.5
"""Seconds between two looks of whoever watches."""

Say = Callable[[str], None]


class Glance(NamedTuple):
    """How one application stands in the middle of a run, by the journals alone."""

    name: str
    expected: int
    happened: int
    twice: int
    naive_happened: int
    naive_twice: int


class Look(NamedTuple):
    """What somebody who watches sees."""

    share: float
    kills: int
    between: int
    glances: list[Glance]


Watch = Callable[[Look], None]


class Result(NamedTuple):
    """What came of a demo."""

    seed: int
    set_up: float
    seconds: float
    kills: int
    between: int
    """How many of the kills fell between a claim and its settlement."""
    accounts: list[Account]
    naive: list[Account]

    @property
    def adds_up(self) -> bool:
        return all(one.adds_up for one in self.accounts)

    def as_json(self) -> dict[str, Any]:
        return {
            "seed": self.seed,
            "set_up_seconds": round(self.set_up, 2),
            "seconds": round(self.seconds, 2),
            "kills": self.kills,
            "kills_between_claim_and_settle": self.between,
            "adds_up": self.adds_up,
            "applications": [one.as_json() for one in self.accounts],
            "naive": [one.as_json() for one in self.naive],
        }


class Demo:
    """One run of the demo in a folder."""

    def __init__(
        self,
        parts: Sequence[tuple[Part, Part]],
        folder: Path,
        seed: int,
        say: Say,
        watch: Watch = lambda look: None,
        worker: Sequence[str] = ONEFOLD,
        drain: float = DRAIN,
    ) -> None:
        # A test passes workers with a bug, and less patience: what such workers lose does not come.
        self.parts = [ours for ours, _ in parts]
        self.naive_parts = [theirs for _, theirs in parts]
        self.folder = folder
        self.seed = seed
        self.kills = 0
        self.between = 0
        self._say = say
        self._watch = watch
        self._looked = 0.0
        self._worker = tuple(worker)
        self._drain_for = drain
        self._random = random.Random(seed)
        self._workers: list[subprocess.Popen[bytes]] = []
        self._naive: subprocess.Popen[bytes] | None = None
        self._orphans: list[tuple[float, dict[bytes, int]]] = []
        self._log = (folder / "workers.log").open("ab")

    def run(self, seconds: float) -> Result:
        """Live through all of it."""
        began = time.monotonic()
        with ExitStack() as stack:
            stack.callback(self._log.close)
            stack.callback(self._stop_all)
            self._set_up(stack)
            ready = time.monotonic()
            self._say(f"set up in {ready - began:.1f} s; {seconds:.0f} s of trouble begin")
            self._trouble(seconds)
            for part in (*self.parts, *self.naive_parts):
                part.calm()
            self._drain()
            self._stop_all()
            ended = time.monotonic()
            return Result(
                self.seed,
                ready - began,
                ended - ready,
                self.kills,
                self.between,
                [self._account(part, self._parked()) for part in self.parts],
                [self._account(part, {}) for part in self.naive_parts],
            )

    # ----- the stage

    def _set_up(self, stack: ExitStack) -> None:
        sections = []
        for part in self.parts:
            stack.callback(part.close)
            sections.append(f"[apps.{part.name}]\n{part.start(self.folder, self.seed)}")
        text = f'store = "sqlite:///{self.folder / "onefold.db"}"\n\n' + "\n".join(sections)
        (self.folder / "onefold.toml").write_text(text)
        naive_folder = self.folder / "naive"
        naive_folder.mkdir()
        facts = {}
        for part in self.naive_parts:
            stack.callback(part.close)
            part.start(naive_folder, self.seed)
            facts[part.name] = part.naive()
        (naive_folder / "naive.json").write_text(json.dumps(facts))
        for part in self.parts:
            for name, value in part.setup().items():
                file = self.folder / f"{name}.json"
                file.write_text(json.dumps(value))
                self._command("settings", "put", name, str(file), "-y")
        self._workers = [self._start() for _ in range(WORKERS)]
        self._naive = self._start_naive()

    def _start(self) -> subprocess.Popen[bytes]:
        command = [sys.executable, *self._worker, "run"]
        return subprocess.Popen(
            command, cwd=self.folder, env=self._environment(), stdout=self._log, stderr=self._log
        )

    def _start_naive(self) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "onefold.worlds.demo.naive", str(self.folder / "naive")]
        return subprocess.Popen(command, stdout=self._log, stderr=self._log)

    def _environment(self) -> dict[str, str]:
        return {**os.environ, "DEMO_CHAT_TOKEN": TOKEN, "DEMO_KEY": "demo-key-0123456789"}

    def _command(self, *arguments: str) -> str:
        """Do what an operator would do, by the same command."""
        command = [sys.executable, *ONEFOLD, *arguments]
        done = subprocess.run(
            command, cwd=self.folder, env=self._environment(), capture_output=True, text=True
        )
        if done.returncode not in (0, 3):
            raise RuntimeError(f"onefold {' '.join(arguments)} ended with {done.returncode}: {done.stderr}")
        return done.stdout

    # ----- the trouble

    def _trouble(self, seconds: float) -> None:
        began = time.monotonic()
        next_kill = began + 2.5
        while (now := time.monotonic()) < began + seconds:
            for part in (*self.parts, *self.naive_parts):
                part.happen((now - began) / seconds)
            self._mourn()
            self._look((now - began) / seconds)
            if now >= next_kill:
                self._kill_one()
                next_kill = time.monotonic() + self._random.uniform(0.8, 2.0)
            time.sleep(0.05)
        for part in (*self.parts, *self.naive_parts):
            part.happen(1.0)

    def _kill_one(self) -> None:
        """Kill the worker that lived longest, and start another."""
        oldest = self._workers.pop(0)
        self._wait_for_a_claim()
        oldest.kill()
        oldest.wait()
        self.kills += 1
        self._orphans.append((time.monotonic() + SILENCE, self._held()))
        self._workers.append(self._start())
        if self._naive is not None and self.kills % 2 == 0:
            self._naive.kill()
            self._naive.wait()
            self._naive = self._start_naive()
        self._say(f"kill {self.kills}, {self.between} so far between claim and settle")

    def _look(self, share: float) -> None:
        """Let whoever watches have a look, now and then."""
        if time.monotonic() - self._looked < LOOKS:
            return
        self._looked = time.monotonic()
        pairs = zip(self.parts, self.naive_parts, strict=True)
        self._watch(Look(share, self.kills, self.between, [_glance(*pair) for pair in pairs]))

    def _wait_for_a_claim(self) -> None:
        """Give the worker a moment to claim something, so that the kill hurts."""
        until = time.monotonic() + 1.0
        while not self._held() and time.monotonic() < until:
            time.sleep(0.002)

    def _held(self) -> dict[bytes, int]:
        """Read what is held, and in which version, as any SQLite browser would."""
        file = f"file:{self.folder / 'onefold.db'}?mode=ro"
        # Until the first worker is up there may be no file, and in it no table.
        with (
            suppress(sqlite3.OperationalError),
            closing(sqlite3.connect(file, uri=True, timeout=5)) as browser,
        ):
            return dict(browser.execute("SELECT id, version FROM onefold_entries WHERE state = 'held'"))
        return {}

    def _mourn(self) -> None:
        """Count the kills whose claims nobody renewed or settled since: their holder died between the two."""
        while self._orphans and self._orphans[0][0] <= time.monotonic():
            _, then = self._orphans.pop(0)
            self.between += bool(then.items() & self._held().items())

    def _drain(self) -> None:
        """Let the workers finish what is left, for as long as it becomes less."""
        began = moved = time.monotonic()
        left = self._left()
        while left and time.monotonic() < min(moved + self._drain_for, began + DRAIN_AT_MOST):
            self._look(1.0)
            time.sleep(0.5)
            before, left = left, self._left()
            moved = time.monotonic() if left < before else moved

    def _left(self) -> int:
        """Count what should have happened and did not, and is not parked."""
        parked = self._parked()
        return sum(self._account(part, parked).lost for part in self.parts)

    def _stop_all(self) -> None:
        for worker in self._workers:
            worker.send_signal(signal.SIGTERM)
        for worker in self._workers:
            try:
                worker.wait(15)
            except subprocess.TimeoutExpired:
                worker.kill()
                worker.wait()
        self._workers = []
        if self._naive is not None:
            self._naive.kill()
            self._naive.wait()
            self._naive = None

    # ----- the account

    def _listed(self, *options: str) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self._command("list", "--json", *options).splitlines()]

    def _parked(self) -> dict[str, list[dict[str, Any]]]:
        """List what is parked, by the application it belongs to."""
        found: dict[str, list[dict[str, Any]]] = {}
        for row in self._listed("--parked"):
            found.setdefault(row["scope"].partition(".")[0], []).append(row)
        return found

    def _account(self, part: Part, parked: dict[str, list[dict[str, Any]]]) -> Account:
        whys = {part.named(row) or "": row["why"] for row in parked.get(part.name, [])}
        return account(part.name, part.expected(), part.happened(), part.filtered(), whys)


def _glance(ours: Part, theirs: Part) -> Glance:
    expected, happened, naive = ours.expected(), ours.happened(), theirs.happened()
    twice = (happened - expected).total()
    naive_twice = (naive - theirs.expected()).total()
    return Glance(ours.name, expected.total(), happened.total(), twice, naive.total(), naive_twice)


def table(result: Result) -> list[str]:
    """Write the account for people."""
    head = (
        f"{'':<20}{'events':>8}{'effects':>9}{'filtered':>10}{'parked':>20}{'gaps':>6}{'lost':>6}{'twice':>7}"
    )
    lines = [head]
    for kind, accounts in (("", result.accounts), ("naive ", result.naive)):
        lines += [_line(kind, one) for one in accounts]
    return lines


def _line(kind: str, one: Account) -> str:
    parked = ", ".join(f"{why} {times}" for why, times in sorted(one.parked.items())) or "0"
    return (
        f"{kind + one.name:<20}{one.events:>8}{one.effects:>9}{one.filtered:>10}{parked:>20}"
        f"{one.gaps:>6}{one.lost:>6}{one.twice:>7}"
    )
