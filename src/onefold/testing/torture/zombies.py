"""Stop workers past their lease while they hold a claim, let a rival act, wake them, see what they can do.

Only leased effects have zombies: a joined one holds a lock of the database, which nobody takes over. What was
written is read from the ledger and from the far side's journal at the end, not taken from the zombie's word.
"""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from itertools import cycle, islice
from pathlib import Path
from typing import Literal, NamedTuple

from onefold import Key, Ledger, Refused
from onefold.core.entry import STATES, Effect
from onefold.core.errors import LostClaim
from onefold.drive import Event
from onefold.ledger.blocking import Claim
from onefold.ledger.ways import How
from onefold.stores import connect
from onefold.testing.torture.cases import Act, Case, Stop, Story, Tally, Told, cases, tally
from onefold.testing.torture.children import Child, Children, Report
from onefold.testing.torture.farside import FarSide
from onefold.testing.torture.places import place
from onefold.testing.torture.planted import BlindWrites
from onefold.testing.torture.worker import SCOPE, number_of, terms

TOGETHER = 12
"""Zombies that are stopped at the same time, so that they wait for the ends of their leases together."""

PATIENCE = 5.0
"""Seconds that a rival waits for a lease to end, and a zombie for its heartbeat's answer."""

Plant = Literal["none", "blind-writes", "unfenced"]
"""A store that does not compare versions, or a far side that does not compare fences."""

PLANTS: tuple[Plant, ...] = ("blind-writes", "unfenced")


class Grave(NamedTuple):
    """What all zombies of one run share."""

    scheme: str
    folder: Path
    plant: Plant = "none"
    server: str = ""
    """Where the store's server is, if it has one."""

    @property
    def url(self) -> str:
        return place(self.scheme).url(self.server, self.folder)

    @property
    def lease(self) -> float:
        return place(self.scheme).lease

    def ledger(self) -> Ledger:
        return Ledger(BlindWrites(connect(self.url)) if self.plant == "blind-writes" else self.url)

    def far_side(self, effect: Effect) -> FarSide:
        fenced = self.plant != "unfenced"
        return FarSide(self.folder / "journal", dedupe=effect == "keyed", fenced=fenced)


def zombies(grave: Grave, count: int, seed: int, progress: Callable[[int], None]) -> Tally:
    """Make this many zombies, of every case in turn, and judge what came of them."""
    place(grave.scheme).warm()
    every = cases()
    random.Random(seed).shuffle(every)
    chosen = list(enumerate(islice(cycle(every), count)))
    told: dict[int, tuple[Told, Told]] = {}
    with place(grave.scheme).lend(grave.url), Children() as children:
        for start in range(0, count, TOGETHER):
            told |= _raise_some(grave, chosen[start : start + TOGETHER], children)
            progress(len(told))
        return tally(_stories(grave, chosen, told))


def _raise_some(
    grave: Grave, chosen: Sequence[tuple[int, Case]], children: Children
) -> dict[int, tuple[Told, Told]]:
    """Stop some holders, let their rivals act, wake them, and let the rivals that waited go on."""
    holders = [children.start(partial(hold, grave, key, case)) for key, case in chosen]
    for holder in holders:
        children.until_stopped(holder)
    rivals = [children.start(partial(rival, grave, key, case)) for key, case in chosen]
    for other, (_, case) in zip(rivals, chosen, strict=True):
        if case.rival == "holds":
            children.until_stopped(other)
        else:
            children.until_ended([other])
    _wake(holders, children)
    _wake(rivals, children)
    return {
        key: (_told(holder), _told(other))
        for (key, _), holder, other in zip(chosen, holders, rivals, strict=True)
    }


def _wake(stopped: Sequence[Child], children: Children) -> None:
    for child in stopped:
        if child.status is None:
            os.kill(child.pid, signal.SIGCONT)
    children.until_ended(stopped)


def _told(child: Child) -> Told:
    def last(word: str) -> str:
        said = child.words(word)
        return said[-1][0] if said else ""

    complaint = child.complaint or (f"worker {child.pid} was killed" if child.killed else None)
    return Told(child.pid, last("won"), last("found"), last("answer"), last("knew") == "True", complaint)


def _stories(
    grave: Grave, chosen: Sequence[tuple[int, Case]], told: dict[int, tuple[Told, Told]]
) -> list[Story]:
    ledger = grave.ledger()
    entries = {number_of(key): entry for key, entry in ledger.entries(SCOPE, *STATES)}
    ledger.close()
    lines = grave.far_side("one-shot").lines()
    return [
        Story(case, key, *told[key], entries.get(key), [line for line in lines if line.key == key])
        for key, case in chosen
    ]


# ----- stopping


class Sleep:
    """Stops this process, but never while its heartbeat is inside the store: it would lock everybody out."""

    def __init__(self, ledger: Ledger, lease: float) -> None:
        ledger.tap = self.tap
        self._lease = lease
        self._calm = threading.Lock()
        self._since = float("inf")
        self._answered = threading.Event()
        self._token = ""

    def tap(self, event: Event) -> None:
        """Watch the heartbeat; for `Ledger.tap`."""
        if threading.current_thread() is threading.main_thread() or event.call.port != "store":
            return
        if event.seconds is None:
            self._calm.acquire()
            return
        self._calm.release()
        if time.monotonic() > self._since + self._lease and event.reply:
            entry = event.reply[0].entry
            self._token = entry.token if entry else ""
            self._answered.set()

    def begin(self) -> None:
        """Stop until somebody wakes this process."""
        with self._calm:
            self._since = time.monotonic()
            os.kill(os.getpid(), signal.SIGSTOP)

    def renewed(self, token: str) -> str:
        """Say what became of the first heartbeat after waking."""
        if not self._answered.wait(PATIENCE):
            return "unheard"
        return "accepted" if self._token == token else "refused"


# ----- the holder


def hold(grave: Grave, key: int, case: Case, report: Report) -> None:
    """Win a claim, be stopped somewhere in the effect, and go on after waking as if nothing had been."""
    Holder(grave, key, case, report).run()


class Holder:
    """A worker that is stopped; its heartbeat is stopped with it."""

    def __init__(self, grave: Grave, key: int, case: Case, report: Report) -> None:
        self.grave = grave
        self.key = key
        self.case = case
        self.report = report
        self.far_side = grave.far_side(case.effect)
        self.ledger = grave.ledger()
        self.sleep = Sleep(self.ledger, grave.lease)

    def run(self) -> None:
        claim = self.ledger.claim(Key(SCOPE, self.key), **_how(self.grave, self.case))
        self.report("won", claim.token)
        if self.case.act == "refuse":
            self.report("answer", self.refuse(claim))
            return
        self.stop("before")
        self.far_side.arrive(self.key, claim.fence, 1)
        self.stop("inside")
        self.far_side.carry_out(self.key, claim.fence, 1)
        self.stop("after")
        self.report("knew", claim.lost)
        self.report("answer", self.end(claim, self.case.act))

    def stop(self, where: Stop) -> None:
        if where == self.case.stop:
            self.sleep.begin()

    def end(self, claim: Claim, act: Act) -> str:
        if act == "renew":
            return self.sleep.renewed(claim.token)
        acts: dict[str, Callable[[], None]] = {
            "settle": claim.settle,
            "release": claim.release,
            "park": claim.park,
        }
        try:
            acts[act]()
        except LostClaim:
            return "refused"
        return "accepted"

    def refuse(self, claim: Claim) -> str:
        """Find after waking that nothing happened."""
        try:
            with claim:
                self.stop("before")
                raise Refused("the far side was not reached")
        except Refused as error:
            # The function's own exception goes on; that the ledger did not take its word is noted on it.
            return "refused" if getattr(error, "__notes__", None) else "accepted"


# ----- the rival


def rival(grave: Grave, key: int, case: Case, report: Report) -> None:
    """Act on the key of a stopped holder, as soon as its lease is over."""
    ledger, name = grave.ledger(), Key(SCOPE, key)
    sleep = Sleep(ledger, grave.lease)
    claim = ledger.claim(name, **_how(grave, case, PATIENCE))
    if not claim.won:
        report("found", claim.state)
    if case.rival == "resolves":
        ledger.resolve(name, happened=True, receipt="by hand", by="torture")
    if case.rival == "reruns":
        ledger.resolve(name, happened=False, by="torture")
        claim = ledger.claim(name, **_how(grave, case))
    if claim.won:
        report("won", claim.token)
        grave.far_side(case.effect).arrive(key, claim.fence, 2)
        if case.rival == "holds":
            sleep.begin()
        report("answer", _act(grave, key, case, claim))


def _act(grave: Grave, key: int, case: Case, claim: Claim) -> str:
    grave.far_side(case.effect).carry_out(key, claim.fence, 2)
    try:
        claim.settle()
    except LostClaim:
        return "refused"
    return "accepted"


def _how(grave: Grave, case: Case, patience: float = 0.0) -> How:
    how: How = {"effect": case.effect, "terms": terms(grave.lease), "wait": patience}
    if case.rival == "probes":
        how["probe"] = _not_found
    return how


def _not_found() -> None:
    """Say of an effect that it was not found: it may still be on its way, so that means unknown."""
