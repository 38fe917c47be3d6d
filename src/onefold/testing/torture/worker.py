"""The worker that is killed: it goes through a list of keys with the real `Ledger`, past every crash point.

It says to its parent what it reaches for and what came of it, because the account needs to know what a dead
one left open. It decides nothing: what may be done about a key is the ledger's answer.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, Literal, NamedTuple

from onefold import Key, Ledger, Refused, Terms
from onefold.core.entry import UNKNOWN, Change, Effect, Seen
from onefold.core.errors import LostClaim, Unreachable, Unsettled
from onefold.drive import Event
from onefold.ledger.blocking import Claim
from onefold.ledger.ways import How
from onefold.testing.torture.children import Report
from onefold.testing.torture.farside import FarSide
from onefold.testing.torture.places import Caller, place
from onefold.testing.torture.points import Death, Manner, Tripwire

SCOPE = "torture"

BATCH = 4

Plant = Literal["none", "mark-before", "wrong-class", "no-dedupe"]
"""A worker that is wrong on purpose: settles before the effect, calls a one-shot effect idempotent, or sends
to a far side that does not ignore repeats."""

PLANTS: tuple[Plant, ...] = ("mark-before", "wrong-class", "no-dedupe")


class Site(NamedTuple):
    """What all workers of one run share."""

    scheme: str
    folder: Path
    effect: Effect
    plant: Plant = "none"
    server: str = ""
    """Where the store's server is, if it has one."""
    disturbed: bool = False
    """Whether the server is killed too; then a store that does not answer is no fault of the worker's."""

    @property
    def url(self) -> str:
        return place(self.scheme).url(self.server, self.folder)

    @property
    def lease(self) -> float:
        return place(self.scheme).lease

    @property
    def far_side(self) -> FarSide:
        return FarSide(self.folder / "journal", dedupe=self.effect == "keyed" and self.plant != "no-dedupe")

    def how(self, patience: float = 0.0) -> How:
        effect: Effect = "idempotent" if self.plant == "wrong-class" else self.effect
        return {"effect": effect, "terms": terms(self.lease), "wait": patience}


def terms(lease: float) -> Terms:
    """As many attempts as there can be deaths, and short pauses between them."""
    return Terms(lease=lease, attempts=1_000_000, backoff=(0.01, 0.05))


class Errand(NamedTuple):
    """What one worker is sent to do, and where it is to die."""

    manner: Manner
    keys: tuple[int, ...]
    death: Death | None = None
    library: int = 0
    """Which of the place's libraries a joined worker uses."""
    contended: bool = False
    """Whether another holds the keys all the while, so that there is somebody to wait for."""


def work(site: Site, errand: Errand, report: Report) -> None:
    """Go through the keys until every one is done or parked; or die on the way."""
    wire = Tripwire(site.effect, errand.death, report)
    worker = JoinedWorker if site.effect == "joined" else Worker
    with _held(site, errand.keys if errand.contended else ()):
        worker(site, errand, wire, report).run()


@contextmanager
def _held(site: Site, keys: Sequence[int]) -> Iterator[None]:
    """Hold keys in this process too: who dies of waiting for them need not come within a dead one's lease."""
    ledger = Ledger(site.url)
    claims = [ledger.claim(Key(SCOPE, key), **site.how()) for key in keys]
    yield
    for claim in [claim for claim in claims if claim.won]:
        # Where this process stood still for a lease, it has taken over from itself, or parked its own.
        with suppress(LostClaim):
            claim.release("nobody waited for it")


class Worker:
    """Claims, acts, settles; what is busy is asked for again, with patience, on the next round."""

    def __init__(self, site: Site, errand: Errand, wire: Tripwire, report: Report) -> None:
        self.site = site
        self.manner = errand.manner
        self.keys = errand.keys
        self.wire = wire
        self.report = report
        self.far_side = site.far_side
        self.returned: set[int] = set()
        self.unanswered = False
        """Whether the store left a call unanswered since this worker reached for its present keys."""
        self.waits: list[float] = []
        self.connect(errand)

    def connect(self, errand: Errand) -> None:
        self.ledger = Ledger(self.site.url)
        self.ledger.tap = self.tap

    def tap(self, event: Event) -> None:
        """Say at once what the store has noted as done: who dies after that has left nothing open."""
        self.unanswered |= _is_unanswered(event)
        if event.call.name == "swap" and event.reply is not None:
            for change, reply in zip(event.call.args[0], event.reply, strict=True):
                if isinstance(reply, Seen) and _noted(change, reply):
                    self.report("end", number_of(change.key), "noted")
        self.wire.tap(event)

    def run(self) -> None:
        left, patience = list(self.keys), 0.0
        many = self.manner in ("batch", "returning")
        while left:
            if many:
                left = [key for batch in _batches(left) for key in self.braved(self.batch, batch)]
                self.rest()
            else:
                left = [key for key in left if self.braved(self.left_of_single, [key], patience)]
            patience = 2 * self.site.lease

    def braved(self, work: Callable[..., list[int]], keys: Sequence[int], *how: Any) -> list[int]:
        """Work on keys. If the store's server died under it, nobody knows what stands, and all are left."""
        disturbed: tuple[type[Exception], ...] = (Unreachable, Unsettled, *self.breaks)
        try:
            return work(keys, *how)
        except disturbed as error:
            if not self.site.disturbed:
                raise
            for key in keys:
                self.report("end", key, "unsure")
            self.reconnect(error)
            return list(keys)

    def left_of_single(self, keys: Sequence[int], patience: float) -> list[int]:
        return [key for key in keys if not self.single(key, patience)]

    @property
    def breaks(self) -> tuple[type[Exception], ...]:
        """What else a lost server makes the work raise."""
        return ()

    def reconnect(self, error: Exception) -> None:
        """Wait a little; the ledger finds its server by itself."""
        time.sleep(0.05)

    def rest(self) -> None:
        """Wait as long as the ledger said, where it was not asked to wait itself."""
        if self.waits:
            time.sleep(min(self.waits))
            self.waits.clear()

    # ----- one at a time

    def single(self, key: int, patience: float) -> bool:
        """Try one key; say whether nothing more is to be done about it."""
        self.unanswered = False
        self.report("reach", key)
        claim = self.claim(key, patience)
        if not claim.won:
            self.lose(claim)
            return claim.state != "busy"
        if self.manner in ("releasing", "refusing") and key not in self.returned:
            self.returned.add(key)
            self.give_back(claim)
            return False
        return self.act(claim)

    def claim(self, key: int, patience: float) -> Claim:
        with self.wire.during("claim"):
            return self.ledger.claim(Key(SCOPE, key), **self.site.how(patience))

    def give_back(self, claim: Claim) -> None:
        if self.manner == "releasing":
            try:
                with self.wire.during("release"):
                    claim.release("not now")
            except LostClaim:
                self.end_lost(claim)
            else:
                self.end(claim, "released")
            return
        try:
            with self.wire.during("refuse"), claim:
                raise Refused("nothing happened")
        except Refused as error:
            # The function's own exception goes on; that the ledger could not say so is noted on it.
            unsaid = self.site.disturbed and getattr(error, "__notes__", None)
            self.end(claim, "unsure" if unsaid else "refused")

    def act(self, claim: Claim) -> bool:
        if self.site.plant == "mark-before":
            return self.settle(claim) and self.perform(claim)
        return self.perform(claim) and self.settle(claim)

    def settle(self, claim: Claim) -> bool:
        try:
            with self.wire.during("settle"):
                claim.settle(os.getpid())
        except LostClaim:
            self.end_lost(claim)
            return False
        self.end(claim, "settled")
        return True

    def perform(self, claim: Claim) -> bool:
        """Have the effect on the far side."""
        number, attempt = number_of(claim.key), claim.entry.attempt if claim.entry else 0
        self.wire.at("effect: before")
        self.far_side.arrive(number, claim.fence, attempt)
        if self.manner == "slow" and not claim.finished:
            self.wire.renewed.wait(2 * self.site.lease)
        self.wire.at("effect: inside")
        self.far_side.carry_out(number, claim.fence, attempt)
        self.wire.at("effect: after")
        return True

    def lose(self, claim: Claim) -> None:
        self.end(claim, claim.state)
        if claim.state == "busy":
            self.waits.append(claim.wait)

    def end(self, claim: Claim, state: str) -> None:
        """Say what came of reaching for a key."""
        self.report("end", number_of(claim.key), state)

    def end_lost(self, claim: Claim) -> None:
        """Say that a claim was lost. That needs evidence: a claim that is lost without it is a finding.

        Its lease ran out by this worker's own clock, for instance while a server was away. Or the killed
        server left this worker's call unanswered: the call was done, another took over, and the worker that
        asked again found the other's claim.
        """
        pulse = claim.pulse
        if pulse is not None and time.monotonic() >= pulse.hold.since + pulse.terms.lease:
            self.end(claim, "lost")
        elif self.site.disturbed and self.unanswered:
            self.end(claim, "unsure")
        else:
            raise RuntimeError(f"{claim.key} was lost within its lease, and the store answered every call")

    # ----- several at a time

    def batch(self, keys: Sequence[int]) -> list[int]:
        """Try several keys at once; return those about which more is to be done."""
        claims = self.claim_many(keys)
        busy = [number_of(claim.key) for claim in claims if claim.state == "busy"]
        return busy + self.act_many([claim for claim in claims if claim.won])

    def claim_many(self, keys: Sequence[int]) -> list[Claim]:
        self.unanswered = False
        for key in keys:
            self.report("reach", key)
        with self.wire.during("batch claim"):
            claims = self.ledger.claim_many([Key(SCOPE, key) for key in keys], **self.site.how())
        for claim in claims:
            if not claim.won:
                self.lose(claim)
        return claims

    def act_many(self, won: Sequence[Claim]) -> list[int]:
        """Act on what was won; return what is still to be done."""
        numbers = [number_of(claim.key) for claim in won]
        if not won:
            return []
        if self.manner == "returning" and not self.returned.issuperset(numbers):
            self.returned.update(numbers)
            self.release_many(won)
            return numbers
        if self.site.plant == "mark-before":
            lost = self.settle_many(won)
            self.perform_many(won)
        else:
            self.perform_many(won)
            lost = self.settle_many(won)
        return [number_of(claim.key) for claim in lost]

    def perform_many(self, won: Sequence[Claim]) -> None:
        for claim in won:
            self.perform(claim)

    def settle_many(self, won: Sequence[Claim]) -> list[Claim]:
        with self.wire.during("batch settle"):
            lost = self.ledger.settle_many([(claim, os.getpid()) for claim in won])
        self._end_many(won, lost, "settled")
        return lost

    def release_many(self, won: Sequence[Claim]) -> None:
        with self.wire.during("batch release"):
            lost = self.ledger.release_many(won, "not now")
        self._end_many(won, lost, "released")

    def _end_many(self, claims: Sequence[Claim], lost: Sequence[Claim], state: str) -> None:
        for claim in claims:
            if claim in lost:
                self.end_lost(claim)
            else:
                self.end(claim, state)


class JoinedWorker(Worker):
    """The same in the caller's own transaction: the effect is a row, and the caller commits."""

    caller: Caller

    def connect(self, errand: Errand) -> None:
        self.ends: list[tuple[int, str]] = []
        libraries = place(self.site.scheme).callers
        self.open = partial(libraries[errand.library % len(libraries)], self.site.url)
        self.join(self.open())

    def join(self, caller: Caller) -> None:
        self.caller = caller
        self.ledger = Ledger.on(caller.connection)
        self.ledger.tap = self.wire.tap

    @property
    def breaks(self) -> tuple[type[Exception], ...]:
        return self.caller.broken

    def reconnect(self, error: Exception) -> None:
        self.ends.clear()
        with suppress(*self.breaks):
            self.caller.close()
        while True:
            super().reconnect(error)
            with suppress(*self.breaks):
                return self.join(self.open())

    def single(self, key: int, patience: float) -> bool:
        over = super().single(key, 0.0)
        self.commit()
        self.rest()
        return over

    def batch(self, keys: Sequence[int]) -> list[int]:
        left = super().batch(keys)
        self.commit()
        return left

    def end(self, claim: Claim, state: str) -> None:
        self.ends.append((number_of(claim.key), state))  # nothing came of it before the commit

    def perform(self, claim: Claim) -> bool:
        if self.site.plant == "mark-before":
            self.commit()
        number = number_of(claim.key)
        self.wire.at("effect: before")
        self._write("arrived", number)
        self.wire.at("effect: inside")
        self._write("accepted", number)
        self.wire.at("effect: after")
        return True

    def _write(self, word: str, key: int) -> None:
        self.caller.rows("INSERT INTO effects (word, number, pid) VALUES (?, ?, ?)", (word, key, os.getpid()))

    def commit(self) -> None:
        self.wire.at("commit: before")
        self.caller.commit()
        self.wire.at("commit: after")
        for number, state in self.ends:
            self.report("end", number, state)
        self.ends.clear()


def number_of(key: Key) -> int:
    """Read a key of this list from its label."""
    return int(key.label)


def _is_unanswered(event: Event) -> bool:
    """Say whether the store did not tell what became of a call."""
    replies = event.reply if event.call.name == "swap" and event.reply is not None else ()
    return event.error is not None or UNKNOWN in replies


def _noted(change: Change, seen: Seen) -> bool:
    return (
        seen.entry is not None
        and change.entry is not None
        and seen.entry.state == change.entry.state == "done"
    )


def _batches(keys: Sequence[int]) -> Iterator[Sequence[int]]:
    return (keys[at : at + BATCH] for at in range(0, len(keys), BATCH))
