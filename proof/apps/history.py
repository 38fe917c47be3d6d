"""One history of one application, from its seed to its verdict.

Two or three workers run the application's real pipelines on a shared store, against services that misbehave.
They die and start again, are stopped, lose the store, and have clocks that jump. Operators resolve and retry.
Then everything becomes quiet, and one worker finishes what is left. The verdict comes from the journals of
the services: every effect that should have happened happened once.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from hashlib import blake2b
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

from onefold.core.entry import Change, Reply, Seen
from onefold.core.key import Key
from onefold.core.operate import resolve, retry
from onefold.core.ports import Store
from onefold.drive import AsyncPorts, Inline, arun
from onefold.stores.memory import MemoryStore
from onefold.stores.sqlite.file import SqliteStore
from onefold.testing.runtime import EPOCH
from onefold.testing.virtual import VirtualLoop
from onefold.worker import Pipeline, Worker
from onefold.worker.configuration import Section, Value
from onefold.worker.loading import from_app
from onefold.worker.observing import Observation
from onefold.worker.settings import Live, put
from proof.apps.life import Life, View
from proof.apps.part import Part, Setting

PROMISES = {
    "lost": "Every effect that should have happened happened.",
    "twice": "No effect happened twice, and none that nobody asked for.",
    "open": "Nothing is left open or parked that nobody explained.",
    "true": "Cursors and coverage are true whenever they are written.",
    "stuck": "Every history comes to an end.",
    "errors": "No worker breaks off with an error.",
}

MEMORY = "/dev/shm"
"""Where files of a history lie, if it is there: no machine loses its power here, and syncing takes long."""

LONGEST = 1200.0
"""Seconds that the last worker has to finish what is left."""

AFTERWARDS = 20.0
"""Seconds for which it runs on when nothing is left: what would be done twice is done now."""


PATIENCE = 15.0
"""The longest that operators wait in the end before they decide about a doubt. By then all workers that might
have caused one are dead with their connections, and services answer as quickly as they can."""

REPORTS = 20.0
"""Seconds between two reports of a worker. Nothing acts on them, and in production they come more often."""


class Violation(NamedTuple):
    """A promise that was broken."""

    promise: str
    text: str

    def __str__(self) -> str:
        return f"{self.promise}: {self.text}"


class Hazards(NamedTuple):
    """What may happen to workers and to the store in one history."""

    workers: int
    mortal: bool
    away: float
    """How often a call on the store fails."""
    loses: float
    """How often the reply of a write is lost."""
    jumps: bool
    operators: bool


class History:
    """Everything of one history that outlives its workers."""

    def __init__(self, make: Callable[..., Part], seed: int, tracing: bool = False) -> None:
        self.seed = f"{make.__name__} {seed}"
        self.random = Random(self.seed)
        self.loop = VirtualLoop(self.seed)
        self.lines: list[str] | None = [] if tracing else None
        self.violations: list[Violation] = []
        self._digest = blake2b(digest_size=8)
        self._folder = Path(
            tempfile.mkdtemp(prefix="onefold-sim-", dir=MEMORY if os.access(MEMORY, os.W_OK) else None)
        )
        self._began = EPOCH
        self.part = make(Random(f"part {self.seed}"), self.now, self._folder)
        self._began = self.part.began
        self.hazards = Hazards(
            workers=self.random.choice((2, 2, 3)),
            mortal=self.random.random() < 0.6,
            away=self.random.choice((0.0, 0.0, 0.02)),
            loses=self.random.choice((0.0, 0.0, 0.02)),
            jumps=self.random.random() < 0.3,
            operators=self.random.random() < 0.5,
        )
        self._store = self._made_store()
        self._outages = self.part.outages = self._drawn_outages()
        self._lives = 0
        self._pipelines: Sequence[Pipeline] = ()
        self._is_calm = False

    # ----- what lives ask

    def now(self) -> float:
        """Return the true time of day."""
        return self._began + self.loop.time()

    def latency(self) -> float:
        return self.random.random() * 0.005

    def is_away(self) -> bool:
        if self._is_calm:
            return False
        at = self.loop.time()
        return any(since <= at < until for since, until in self._outages) or self._strikes(self.hazards.away)

    def loses_a_reply(self) -> bool:
        return not self._is_calm and self._strikes(self.hazards.loses)

    def _strikes(self, rate: float) -> bool:
        return rate > 0 and self.random.random() < rate

    def _drawn_outages(self) -> list[tuple[float, float]]:
        if self.random.random() < 0.7:
            return []
        since = self.random.uniform(0, self.part.span)
        return [(since, since + self.random.uniform(1, 40))]

    def _made_store(self) -> Store:
        in_memory = self.random.random() < 0.85
        if own := self.part.store():
            return own
        if in_memory:
            return MemoryStore(self.now)
        return SqliteStore(self._folder / "ledger.db", synchronous="normal", clock=self.now)

    # ----- the trace

    def say(self, line: str) -> None:
        """Add a line to the trace; the digest tells whether two runs of a seed are the same."""
        text = f"{self.loop.time():10.4f}  {line}"
        self._digest.update(text.encode())
        if self.lines is not None:
            self.lines.append(text)

    @property
    def digest(self) -> str:
        return self._digest.hexdigest()

    def noted(self, who: str, what: str, keys: Sequence[Key], seen: Sequence[Reply]) -> None:
        """Note a call on the store with everything that it says."""
        told = ", ".join(f"{key} {_short(one)}" for key, one in zip(keys, seen, strict=True))
        self.say(f"{who} {what}: {told}")

    def swapped(self, who: str, changes: Sequence[Change], replies: Sequence[Reply]) -> bool:
        """Note a write, and hold cursors and coverage against the truth; say whether its worker dies now."""
        self.noted(who, "swap", [change.key for change in changes], replies)
        deadly = False
        for change, reply in zip(changes, replies, strict=True):
            entry = reply.entry if isinstance(reply, Seen) else None
            if entry is None or change.entry is None or entry.token != change.entry.token:
                continue
            deadly = self.part.is_deadly(change.key, entry) or deadly
            for complaint in self.part.moved(change.key, entry, self._store.get):
                self.broken("true", complaint)
        return deadly and self.hazards.mortal and not self._is_calm

    def broken(self, promise: str, text: str) -> None:
        """Note that a promise was broken."""
        self.violations.append(Violation(promise, text))
        self.say(f"BROKEN {promise}: {text}")

    # ----- the course of things

    def live(self) -> None:
        """Live through this history, and judge it."""
        try:
            self.loop.run(self._live())
        except Exception as error:  # a history that breaks off is a finding like any other
            self.broken("errors", f"it broke off: {type(error).__name__}: {error}")
        finally:
            self._store.close()
            # Reading a section leaves its folder on the import path.
            sys.path[:] = [one for one in sys.path if one != str(self._folder)]
            shutil.rmtree(self._folder, ignore_errors=True)

    async def _live(self) -> None:
        async with AsyncExitStack() as services:
            for one in self.part.services():
                await services.enter_async_context(one)
            for setting in self.part.settings():
                await self._put(setting)
            await self._trouble()
            self._is_calm = True
            self.part.calm()
            self.part.patience = min(self.part.patience, PATIENCE)
            self.loop.network.heal()
            self.say("everything is calm")
            await self._finish()
            self._judge()

    async def _trouble(self) -> None:
        seats = [self._seat(number) for number in range(self.hazards.workers)]
        beside = [self._happen(), *([self._operate()] if self.hazards.operators else [])]
        tasks = [asyncio.create_task(one) for one in (*seats, *beside)]
        await asyncio.sleep(self.part.span)
        for task in tasks:
            task.cancel()
        for ended in await asyncio.gather(*tasks, return_exceptions=True):
            if isinstance(ended, Exception):
                raise ended

    async def _happen(self) -> None:
        """Let happen what is planned, when it is planned."""
        for at, act in sorted(self.part.plan(), key=lambda one: one[0]):
            await asyncio.sleep(max(at - self.loop.time(), 0.0))
            if isinstance(act, Setting):
                await self._put(act)
            else:
                act()

    async def _put(self, setting: Setting) -> None:
        name, ports = f"{self.part.name}.{setting.name}", self._ports()
        self.say(f"an operator puts {name}")
        token = f"{self.random.getrandbits(128):032x}"
        for number in range(100):
            if await arun(put(name, setting.value, "operator", token, number), ports):
                return

    # ----- workers

    async def _seat(self, number: int) -> None:
        """Keep one worker running: when a life ends, another begins."""
        await asyncio.sleep(self.random.uniform(0, 5))
        while True:
            await self._one_life(number)
            await asyncio.sleep(self.random.uniform(0.1, 8))

    async def _one_life(self, number: int) -> None:
        mortal = self.hazards.mortal and self.random.random() < 0.8
        dies_at = self.random.randint(1, 80) if mortal and self.random.random() < 0.7 else None
        within = self.random.uniform(1, 60) if mortal else self.part.span
        life, worker, running = self._begun(f"w{number}", number, dies_at)
        try:
            await self._until(life, running, within)
            if mortal and not life.is_dead and self.random.random() < 0.5:
                worker.stop()
                await self._until(life, running, 60.0)
        finally:
            if not running.done():
                if not life.is_dead:
                    life.die("in the middle of something")
                running.cancel()
        self._heard(running)

    async def _until(self, life: Life, running: asyncio.Task[int], within: float) -> None:
        """Wait until a life ends, or for so long; the clock of its worker may jump meanwhile."""
        death = asyncio.ensure_future(life.died.wait())
        until = self.loop.time() + within
        try:
            while not life.is_dead and not running.done() and self.loop.time() < until:
                left = until - self.loop.time()
                await asyncio.wait(
                    (death, running), timeout=min(left, 15.0), return_when=asyncio.FIRST_COMPLETED
                )
                if self.hazards.jumps and self.random.random() < 0.2:
                    life.ahead = self.random.uniform(-40, 40)
                    self.say(f"the clock of {life.name} jumps: it is {life.ahead:.1f} s ahead")
        finally:
            death.cancel()

    def _begun(self, seat: str, number: int, dies_at: int | None) -> tuple[Life, Worker, asyncio.Task[int]]:
        self._lives += 1
        life = Life(self, f"{seat}.{self._lives}", dies_at)
        self.say(f"{life.name} begins" + (f"; it dies at step {dies_at}" if dies_at else ""))
        live = Live()
        # Workers of one application are made from its section, as `onefold run` makes them.
        given = self.part.section_of(number % self.part.kinds)
        section = Section(
            f"apps.{self.part.name}", {name: Value(value, "the simulation") for name, value in given.items()}
        )
        # Files are named relative to this folder: its own name differs from run to run.
        self._pipelines = from_app(self.part.name, section, self._folder, live)
        worker = Worker(
            self._pipelines, store=View(self, life, self._store), name=life.name, runtime=life, grace="20s"
        )
        worker.beside += [live.attend, Observation(worker, REPORTS).attend]
        return life, worker, asyncio.create_task(worker.arun(), name=life.name)

    def _heard(self, running: asyncio.Task[int]) -> None:
        if running.done() and not running.cancelled() and (error := running.exception()):
            self.broken("errors", f"{running.get_name()} broke off: {type(error).__name__}: {error}")

    async def _finish(self) -> None:
        """Let one worker of each kind do what is left, with an operator who decides whatever is parked."""
        begun = [self._begun("last", kind, None) for kind in range(self.part.kinds)]
        workers, tasks = [worker for _, worker, _ in begun], [running for _, _, running in begun]
        until = self.loop.time() + LONGEST
        while not any(running.done() for running in tasks) and self.loop.time() < until:
            await asyncio.sleep(5.0)
            await self._decide()
            if not self._is_done():
                continue
            await asyncio.sleep(AFTERWARDS)
            # Something may have been shown late, and be under way.
            if self._is_done() or self.part.happened() - self.part.expected():
                break
        else:
            if not any(running.done() for running in tasks):
                self.broken("stuck", f"after {LONGEST:.0f} s of quiet something is still left")
        for worker in workers:
            worker.stop()
        await asyncio.wait(tasks)
        for running in tasks:
            self._heard(running)

    # ----- operators

    async def _operate(self) -> None:
        while True:
            await asyncio.sleep(self.random.uniform(20, 60))
            await self._decide()

    async def _decide(self) -> None:
        """Decide about everything that is parked, once no request of it can be on its way any more."""
        for key, seen in self._open("parked"):
            entry = seen.entry
            assert entry is not None
            if self.part.is_final(key, entry):
                continue
            token = f"{self.random.getrandbits(128):032x}"
            if entry.why == "in-doubt":
                if seen.idle < self.part.patience:
                    continue
                happened = self.part.did_happen(key, entry, self._store.get)
                if happened is None:
                    continue
                self.say(f"an operator says that {key} {'happened' if happened else 'did not happen'}")
                body = '"found"' if happened else None
                await arun(resolve(key, happened, body, "operator", token, entry), self._ports())
            else:
                self.say(f"an operator retries {key}, which is parked as {entry.why}")
                await arun(retry(key, "operator", token, entry), self._ports())

    def _ports(self) -> AsyncPorts:
        return AsyncPorts(Inline(self._store))

    def _open(self, *states: Any) -> list[tuple[Key, Seen]]:
        """List the entries of the application's pipelines that are in one of these states."""
        found: list[tuple[Key, Seen]] = []
        # Records that wait for their names have a scope of their own. Rows that cannot be read stay parked.
        for scope in (f"{one.name}{kind}" for one in self._pipelines for kind in ("", ".each")):
            after: str | None = None
            while True:
                page, after = self._store.scan(scope, states, False, after, 500)
                found += page
                if after is None:
                    break
        return found

    # ----- the verdict

    def _is_done(self) -> bool:
        if self.part.expected() != self.part.happened():
            return False
        return not any(
            seen.entry is not None and not self.part.is_final(key, seen.entry)
            for key, seen in self._open("free", "held", "parked")
        )

    def _judge(self) -> None:
        expected, happened = self.part.expected(), self.part.happened()
        for name, number in sorted((expected - happened).items()):
            self.broken("lost", f"{name}" + (f", {number} times" if number > 1 else ""))
        for name, number in sorted((happened - expected).items()):
            kind = "happened once more than it should" if expected[name] else "should not have happened"
            self.broken("twice", f"{name} {kind}" + (f", {number} times" if number > 1 else ""))
        for key, seen in self._open("free", "held", "parked"):
            entry = seen.entry
            if entry is not None and not self.part.is_final(key, entry):
                self.broken(
                    "open", f"{key} is {entry.state} {entry.why or ''}: {self.part.named(key, entry)}"
                )
        for complaint in self.part.wrong():
            self.broken("true", complaint)


def _short(seen: Reply) -> str:
    if not isinstance(seen, Seen):
        return "unknown"
    entry = seen.entry
    if entry is None:
        return "-"
    return f"{entry.state}{f'/{entry.why}' if entry.why else ''} v{entry.version % 10**9} {entry.token[:6]}"
