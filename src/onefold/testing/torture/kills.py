"""Kill workers: at every crash point, then at random moments; let the survivors finish, and take the account.

The plan follows from the seed; when exactly a process is scheduled does not. It must not open the store while
children live, and it judges nothing: `account` does.
"""

from __future__ import annotations

import os
import random
import signal
import time
from collections import Counter, deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

from onefold import Ledger
from onefold.core.entry import STATES, Entry
from onefold.testing.torture.account import Account, Run, Trail, account, trail
from onefold.testing.torture.children import Child, Children
from onefold.testing.torture.farside import Line
from onefold.testing.torture.places import place
from onefold.testing.torture.points import Death, Manner, Spot, spots
from onefold.testing.torture.worker import SCOPE, Errand, Site, number_of, work

HITS = 10
"""How often each crash point is to be hit, if there are kills enough."""

TRIES = 20
"""Workers in a row that may end before they are killed, at a crash point or at random, until it is given up.

A busy machine misses now and then.
"""

FAILURES = 5
"""Workers that may fail before the run is broken off."""

SECONDS = (60.0, 0.5)
"""How long a run may take: to begin with, and for each kill."""

SERVER_SECONDS = 20.0
"""How long workers may take to come to their end after their server is back.

How long the server itself takes is not counted: some take a minute, on a machine with much else to do."""

RESTART_SECONDS = 300
"""How long a worker may live whose server is killed and comes back."""

OUT_OF_TIME = "the run was broken off: it took too long"

FINAL = ("settled", "noted", "done", "parked")

Progress = Callable[[int], None]


class Shots(NamedTuple):
    """How often workers and their server are to be killed, and how to do that to a server."""

    workers: int
    servers: int = 0
    restart: Callable[[], object] = lambda: None
    """Kill the server, and return when it is back."""


class Toll(NamedTuple):
    """What a run of kills came to."""

    account: Account
    kills: int
    keys: int
    hits: Counter[str]
    at_random: int
    servers: int = 0


def points_needed(site: Site) -> int:
    """Say how many kills it takes to hit every point once."""
    return len(spots(site.effect))


def kill(site: Site, shots: Shots, seed: int, progress: Progress) -> Toll:
    """Run one effect class through this many kills and count what came of it."""
    place(site.scheme).warm()
    with place(site.scheme).lend(site.url), Children() as children:
        _prepare(site, children)
        campaign = Campaign(site, shots.workers, random.Random(f"{seed} {site.effect}"), children, progress)
        if shots.workers:
            campaign.sweep()
        campaign.at_random_moments()
        campaign.kill_server(shots)
        campaign.recover()
        return campaign.toll()


class Campaign:
    """One run: which keys there are, who was sent, what is known of them, and how the dead died."""

    def __init__(
        self, site: Site, kills: int, rng: random.Random, children: Children, progress: Progress
    ) -> None:
        self.site = site
        self.wanted = kills
        self.rng = rng
        self.children = children
        self.progress = progress
        self.keys = 0
        self.open: dict[int, None] = {}
        """Keys that were handed out and are not known to be over; those touched last stand last."""
        self.over: list[int] = []
        self.hits: Counter[str] = Counter()
        self.random_kills = 0
        self.trails: list[Trail] = []
        self.complaints: list[str] = []
        self.sent = 0
        self.server_kills = 0
        self.deadline = time.monotonic() + SECONDS[0] + SECONDS[1] * kills

    @property
    def kills(self) -> int:
        return self.hits.total() + self.random_kills

    # ----- at every point

    def sweep(self) -> None:
        """Send workers to every crash point in turn, until each was hit often enough or was given up."""
        every = spots(self.site.effect)
        times = min(HITS, max(1, self.wanted * 3 // 4 // len(every)))
        queue = deque(every * times)
        misses: Counter[Spot] = Counter()
        underway: dict[Child, Spot] = {}
        while (more := bool(queue) and not self.broken) or underway:
            while more and queue and len(underway) < 2:
                spot = queue.popleft()
                underway[self.send(self.errand_to(spot))] = spot
            for child in self.children.watch(None):
                spot = underway.pop(child)
                self.note(child)
                if child.killed:
                    misses[spot] = 0
                elif misses[spot] < TRIES:
                    misses[spot] += 1
                    queue.append(spot)
        self.complaints += [
            f"the point {spot.point!r} was hit {self.hits[spot.point]} times of {times}"
            for spot in every
            if self.hits[spot.point] < times and not self.broken
        ]

    def errand_to(self, spot: Spot) -> Errand:
        """Choose keys with which a worker comes past a point."""
        step, _, call = spot.point.partition(": ")
        if step.endswith(("take over", "park")) and spot.manner in ("single", "batch"):
            return self._errand(spot.manner, self._oldest(4), Death(spot.point))
        if call.endswith("get") and self.site.effect != "joined":
            return self._errand(spot.manner, self._fresh(1), Death(spot.point))._replace(contended=True)
        keys = [*self._some(list(self.open), 2), *self._some(self.over, 1), *self._fresh(3)]
        self.rng.shuffle(keys)
        nth = self.rng.choice((1, 1, 2))
        # A slow worker waits for one heartbeat only: it may be through before there is a second.
        return self._errand(spot.manner, keys, Death(spot.point, 1 if spot.manner == "slow" else nth))

    # ----- at any moment

    def at_random_moments(self) -> None:
        """Make the remaining kills: half of them with one worker at a time, half with two."""
        self._at_random(lanes=1, until=(self.wanted + self.kills) // 2)
        self._at_random(lanes=2, until=self.wanted)
        if self.kills < self.wanted and not self.broken:
            self.complaints.append(
                f"only {self.kills} of {self.wanted} kills were made: "
                f"{TRIES} workers in a row ended before their random moment"
            )

    def _at_random(self, lanes: int, until: int) -> None:
        ends: dict[Child, float] = {}
        misses, life = 0, place(self.site.scheme).life
        # A worker that is still alive when the last one was sent belongs to this loop: nothing after it knows
        # this worker, and the account needs its trail.
        while (more := self.kills < until and misses < TRIES and not self.broken) or ends:
            while more and len(ends) < min(lanes, until - self.kills):
                child = self.send(self._any_errand())
                ends[child] = child.born + self.rng.uniform(0, life)
            now = time.monotonic()
            for child in [child for child, end in ends.items() if end <= now]:
                os.kill(child.pid, signal.SIGKILL)
                ends[child] = float("inf")
            for child in self.children.watch(max(min(ends.values()) - now, 0.0) if _pending(ends) else None):
                del ends[child]
                self.note(child)
                misses = 0 if child.killed else misses + 1
                if not child.killed:
                    # How long workers live depends on the machine and on what they do: this one shows it.
                    life = min(life, time.monotonic() - child.born)

    def _any_errand(self, count: int = 12) -> Errand:
        manners: list[Manner] = sorted({spot.manner for spot in spots(self.site.effect)})
        keys = [*self._some(list(self.open), 9), *self._some(self.over, 2)]
        keys += self._fresh(count - len(keys))
        self.rng.shuffle(keys)
        return self._errand(self.rng.choice(manners), keys)

    # ----- with the server

    def kill_server(self, shots: Shots) -> None:
        """Kill the server under two workers that are in the middle of it, and let them come to their end."""
        for _ in range(shots.servers):
            if self.broken:
                return
            self.deadline += SERVER_SECONDS
            workers = [self.send(self._any_errand(40), lifetime=RESTART_SECONDS) for _ in range(2)]
            self._until_at_work(workers)
            self.children.watch(self.rng.uniform(0, 0.1))
            began = time.monotonic()
            shots.restart()
            self.deadline += time.monotonic() - began
            self.server_kills += 1
            self.children.until_ended(workers)
            for child in workers:
                self.note(child)

    def _until_at_work(self, workers: Sequence[Child]) -> None:
        while any(child.status is None and not child.words("end") for child in workers):
            self.children.watch(None)

    # ----- to the end

    def recover(self) -> None:
        """Let two workers go over every key, undisturbed, until nothing more is to be done."""
        keys = range(self.keys)
        errands = [Errand("single", tuple(keys)), Errand("single", tuple(reversed(keys)), library=1)]
        workers = [self.send(errand, lifetime=60 + self.keys // 50) for errand in errands if not self.broken]
        self.children.until_ended(workers)
        for child in workers:
            self.note(child)
            if child.killed:
                self.complaints.append(f"worker {child.pid} was killed by somebody else")

    def toll(self) -> Toll:
        """Take the account."""
        assert len(self.children) == 0, "a worker that is alive can still change what is counted here"
        entries, lines = _outcome(self.site)
        run = Run(self.site.effect, range(self.keys), entries, lines, self.trails, self.complaints)
        return Toll(account(run), self.kills, self.keys, self.hits, self.random_kills, self.server_kills)

    # ----- sending workers and hearing of them

    def send(self, errand: Errand, lifetime: int = 30) -> Child:
        self.sent += 1
        return self.children.start(partial(work, self.site, errand), lifetime)

    def note(self, child: Child) -> None:
        """Take in how a worker ended and what it left open."""
        if child.killed:
            self._count(child)
        if child.complaint:
            self.complaints.append(child.complaint)
        if self.site.plant == "none" and not self.site.disturbed:
            self.complaints += [f"{point!r} is not in the table" for point in sorted(_unlisted(child))]
        self.trails.append(trail(child.pid, child.killed, child.said))
        for number, state in child.words("end"):
            self._learn(int(number), state)
        for key in self.trails[-1].open & self.open.keys():
            self.open[key] = self.open.pop(key)

    def _count(self, child: Child) -> None:
        if dies := child.words("dies"):
            self.hits[dies[0][0]] += 1
        else:
            self.random_kills += 1
        self.progress(self.kills)

    def _learn(self, key: int, state: str) -> None:
        if state in FINAL and key in self.open:
            del self.open[key]
            self.over.append(key)

    @property
    def broken(self) -> bool:
        """Whether going on makes no sense: workers fail one after another, or time is up."""
        if time.monotonic() > self.deadline and OUT_OF_TIME not in self.complaints:
            self.complaints.append(OUT_OF_TIME)
        return len(self.complaints) > FAILURES or OUT_OF_TIME in self.complaints

    # ----- choosing keys

    def _errand(self, manner: Manner, keys: list[int], death: Death | None = None) -> Errand:
        return Errand(manner, tuple(keys or self._fresh(2)), death, self.rng.randrange(2))

    def _fresh(self, count: int) -> list[int]:
        keys = list(range(self.keys, self.keys + count))
        self.keys += len(keys)
        self.open.update(dict.fromkeys(keys))
        return keys

    def _oldest(self, count: int) -> list[int]:
        return list(self.open)[:count]

    def _some(self, keys: list[int], count: int) -> list[int]:
        return self.rng.sample(keys, min(count, len(keys)))


def _pending(ends: dict[Child, float]) -> bool:
    return min(ends.values()) < float("inf")


def _unlisted(child: Child) -> set[str]:
    return {words[0] for words in child.words("unlisted")}


# ----- the place


def _prepare(site: Site, children: Children) -> None:
    """Make the caller's own table, if effects are rows; in a child, so that nothing stays open here."""
    if site.effect != "joined":
        return
    table = "CREATE TABLE effects (word TEXT NOT NULL, number INTEGER NOT NULL, pid INTEGER NOT NULL)"

    def make(_: object) -> None:
        caller = place(site.scheme).callers[0](site.url)
        caller.rows(table)
        caller.commit()

    maker = children.start(make)
    children.until_ended([maker])
    if maker.status != 0:
        raise RuntimeError(f"the table of effects was not made: {maker.complaint or 'its maker was killed'}")


def _outcome(site: Site) -> tuple[dict[int, Entry], list[Line]]:
    """Read what the ledger says, and what the far side saw."""
    if site.effect == "joined":
        caller = place(site.scheme).callers[0](site.url)
        rows = caller.rows("SELECT word, number, pid FROM effects")
        entries = _entries(Ledger.on(caller.connection))
        caller.commit()
        caller.close()
        return entries, [Line(word, key, 0, pid, 0) for word, key, pid in rows]
    ledger = Ledger(site.url, create=False)
    entries = _entries(ledger)
    ledger.close()
    return entries, site.far_side.lines()


def _entries(ledger: Ledger) -> dict[int, Entry]:
    return {number_of(key): entry for key, entry in ledger.entries(SCOPE, *STATES)}
