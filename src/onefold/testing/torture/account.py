"""The account of a run, in pure functions: what the far side saw, the ledger says and the dead left open.

A repeat or a parked key is *explained* only by a worker that is known to have died, to have lost its claim,
or to have asked a server that was killed, between reaching for that key and saying how it ended. Everything
else is a finding. Nothing here reads a file.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from onefold.core.entry import Effect, Entry
from onefold.testing.torture.farside import Line


class Trail(NamedTuple):
    """What one worker left behind."""

    pid: int
    killed: bool
    open: frozenset[int] = frozenset()
    """Keys it had reached for, and of which it did not say how they ended."""
    lost: frozenset[int] = frozenset()
    """Keys whose claim the ledger told it was gone."""
    unsure: frozenset[int] = frozenset()
    """Keys of which the ledger could not tell it what stands, because the store's server was killed."""


class Run(NamedTuple):
    """Everything that is known after a run."""

    effect: Effect
    keys: Sequence[int]
    entries: Mapping[int, Entry]
    lines: Sequence[Line]
    trails: Sequence[Trail]
    complaints: Sequence[str] = ()
    """What the run itself found: workers that failed, points that were not reached."""


class Account(NamedTuple):
    """What became of the keys."""

    effect: Effect
    duplicated: tuple[int, ...]
    lost: tuple[int, ...]
    parked: tuple[int, ...]
    unexplained: tuple[str, ...]
    repeats: Mapping[str, int] = {}
    """How often a reason was had to repeat an effect, by the reason."""

    @property
    def holds(self) -> bool:
        """Whether every promise was kept; what is idempotent may repeat, if the reason is known."""
        repeats = self.duplicated and self.effect != "idempotent"
        return not (repeats or self.lost or self.unexplained)

    def __str__(self) -> str:
        return (
            f"duplicated {len(self.duplicated)}, lost {len(self.lost)}, "
            f"parked {len(self.parked)}, unexplained {len(self.unexplained)}"
        )


def trail(pid: int, killed: bool, said: Iterable[tuple[str, ...]]) -> Trail:
    """Read what a worker said while it lived."""
    open_keys: set[int] = set()
    lost: set[int] = set()
    unsure: set[int] = set()
    for line in said:
        match line:
            case ("reach", key):
                open_keys.add(int(key))
            case ("end", key, state):
                open_keys.discard(int(key))
                if state == "lost":
                    lost.add(int(key))
                if state == "unsure":
                    unsure.add(int(key))
    return Trail(pid, killed, frozenset(open_keys), frozenset(lost), frozenset(unsure))


def account(run: Run) -> Account:
    """Hold what the far side saw against the list of keys and against the ledger."""
    accepted = Counter(line.key for line in run.lines if line.word == "accepted")
    parked = [key for key in run.keys if (entry := run.entries.get(key)) and entry.state == "parked"]
    set_aside = set(parked)
    return Account(
        effect=run.effect,
        duplicated=tuple(key for key, times in sorted(accepted.items()) if times > 1),
        lost=tuple(key for key in run.keys if not accepted[key] and key not in set_aside),
        parked=tuple(parked),
        unexplained=(
            *run.complaints,
            *_strangers(run),
            *_unsettled(run),
            *_torn(run),
            *_parked_without_reason(run, parked),
            *_repeated_without_reason(run),
        ),
        repeats=_reasons_to_repeat(run),
    )


def _strangers(run: Run) -> list[str]:
    listed = set(run.keys)
    found = {*run.entries, *(line.key for line in run.lines)} - listed
    return [f"key {key} is not in the list, yet somebody worked on it" for key in sorted(found)]


def _unsettled(run: Run) -> list[str]:
    """Find keys that the ledger does not know to be over, although every worker came to rest."""
    states = {key: entry.state if (entry := run.entries.get(key)) else "absent" for key in run.keys}
    return [
        f"key {key} is {state} at the end" for key, state in states.items() if state not in ("done", "parked")
    ]


def _torn(run: Run) -> list[str]:
    """Find halves of a joined effect: a transaction has all of it or nothing."""
    if run.effect != "joined":
        return []
    halves = Counter((line.key, line.word) for line in run.lines)
    torn = [key for key in run.keys if halves[key, "arrived"] != halves[key, "accepted"]]
    return [f"key {key} has half an effect" for key in torn]


def _parked_without_reason(run: Run, parked: Sequence[int]) -> list[str]:
    if run.effect != "one-shot":
        return [f"key {key} is parked, and {run.effect} effects never are" for key in parked]
    left = {key for trail in run.trails if trail.killed for key in trail.open}
    left |= {key for trail in run.trails for key in trail.unsure}
    return [
        f"key {key} is parked ({run.entries[key].why}), but nobody died while at it"
        for key in parked
        if key not in left or run.entries[key].why != "in-doubt"
    ]


def _repeated_without_reason(run: Run) -> list[str]:
    """Find effects that were had again although the attempt before neither died nor lost its claim."""
    reasons = _reasons(run)
    settled = Counter(line.key for line in _passed(run) if (line.pid, line.key) not in reasons)
    return [
        f"key {key} was acted upon {times} times without a reason to repeat it"
        for key, times in sorted(settled.items())
        if times > 1
    ]


def _reasons_to_repeat(run: Run) -> Counter[str]:
    """Count the reasons, over all keys that were acted upon more than once."""
    reasons, passed = _reasons(run), _passed(run)
    times = Counter(line.key for line in passed)
    found = [reasons.get((line.pid, line.key)) for line in passed if times[line.key] > 1]
    return Counter(reason for reason in found if reason)


def _passed(run: Run) -> list[Line]:
    """Pick out the effects that were had; for one-shot effects having started is enough."""
    words = ("arrived",) if run.effect == "one-shot" else ("accepted", "repeated")
    return [line for line in run.lines if line.word in words]


def _reasons(run: Run) -> dict[tuple[int, int], str]:
    """Say after which attempts, by worker and key, an effect may be had again, and why."""
    if run.effect in ("joined", "one-shot"):
        return {}  # neither a death nor a lost claim is a reason to do these again
    killed = [trail for trail in run.trails if trail.killed]
    reasons = {(trail.pid, key): "a kill between effect and settle" for trail in killed for key in trail.open}
    outrun = {(trail.pid, key): "a lease that ran out" for trail in run.trails for key in trail.lost}
    unsure = {(trail.pid, key): "a kill of the server" for trail in run.trails for key in trail.unsure}
    return reasons | outrun | unsure
