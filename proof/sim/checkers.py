"""What must hold at the end of a history, when everything has healed and nobody moves any more.

Each checker names the promise it holds. They read what was written, asked and done, and the far side's
journal; what has to be judged at the moment it happens is in `rules`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from onefold.core.entry import OPEN, STATES
from proof.sim import register
from proof.sim.subject import Attempt, Subject, Write

if TYPE_CHECKING:
    from proof.sim.world import World

PROMISES = {
    "effects": "no effect happens more often than its class allows",
    "fences": "versions and fences grow, also across expiry and purge, and stay within an attempt",
    "sink": "a fenced far side never accepts an earlier claim after a later one",
    "register": "claims and endings are in an order in which every answer is right",
    "lost": "every record is done or parked in the end, and what is done has happened or was told so",
    "explained": "every repeated effect follows a claim that was lost, given back or forgotten",
    "conserved": "every claim has one fate, and lists show what is stored",
    "stuck": "everything comes to an end in bounded time",
    "attempts": "no effect is tried more often than its terms allow",
    "ready": "no effect is let start after its lease may have run out",
    "losers": "who did not win holds nothing",
    "leases": "nobody takes or prolongs the lease of another",
    "tokens": "a token names one attempt on one key",
    "settled": "what was reported as written is written",
    "doubt": "what may have happened waits for a word of its holder, a person or a probe",
    "memory": "only done entries are forgotten, and only after their time",
    "owners": "only its holder says how an attempt ended, and nobody after a decision",
    "answers": "an answer says what is stored",
    "starts": "an effect starts under a claim, once, and a one-shot one after begun was written",
    "contract": "every call on the store has distinct and sorted keys",
    "cancelled": "a cancelled caller hears that it was cancelled",
    "errors": "nothing fails but by what the store did",
}
"""Every checker, and what it promises."""


def check(world: World) -> None:
    """Hold all promises that show at the end."""
    for subject in world.subjects:
        for checker in PER_KEY:
            checker(world, subject)
    conserved(world)


def effects(world: World, subject: Subject) -> None:
    """Count what happened against what the class allows; a person's word allows one more."""
    allowed = 1 + subject.words
    if subject.effect == "idempotent":
        return
    counted = [attempt for attempt in subject.accepted if not _is_excused(world, subject, attempt)]
    if len(counted) > allowed:
        world.fail("effects", subject, f"its {subject.effect} effect happened {len(subject.accepted)} times")


def _is_excused(world: World, subject: Subject, attempt: Attempt) -> bool:
    """Leave out what no ledger can prevent: a memory that a clock cut short, here or at the far side."""
    keep = subject.terms.keep
    if keep is not None and (world.jumped_ahead > 0 or _aged(world, subject, keep)):
        return True
    late = attempt.arrived > attempt.ready + subject.terms.margin
    return subject.window is not None and (late or world.jumped_back > 0)


def _aged(world: World, subject: Subject, keep: float) -> bool:
    """Say whether the record was young enough when it was asked about, and too old when it was claimed."""
    claims = [write for write in subject.writes if _is_claim(write) and write.new is not None]
    old = subject.born + keep
    return any(write.new and world.made[write.new.token][1] < old <= write.at for write in claims)


def sink(world: World, subject: Subject) -> None:
    """Compare the order in which a fenced far side accepted with the order in which was claimed."""
    if not subject.fenced:
        return
    order = {token: at for at, token in enumerate(_claims(subject))}
    latest = -1
    for attempt in subject.accepted:
        at = order.get(attempt.token, latest)
        if at < latest:
            world.fail("sink", subject, f"the far side accepted {attempt.token} after a later claim")
        latest = max(at, latest)


def _claims(subject: Subject) -> list[str]:
    """List the tokens that held the key, in the order of their claims; the last place counts."""
    tokens = [write.new.token for write in subject.writes if _is_claim(write) and write.new is not None]
    return list(dict.fromkeys(reversed(tokens)))[::-1]


def _is_claim(write: Write) -> bool:
    old, new, op = write.old, write.new, write.op
    if new is None or op is None or op.kind != "claim" or new.token != op.token:
        return False
    if new.state == "done":
        return old is None or old.token != new.token
    return new.state == "held" and (old is None or old.state != "held" or old.token != new.token)


def in_order(world: World, subject: Subject) -> None:
    if not register.is_in_order(subject.ops, subject.terms.keep is not None):
        world.fail("register", subject, "no order of what was asked explains the answers")


def lost(world: World, subject: Subject) -> None:
    """Hold that nothing is open in the end, and that done means done."""
    entry = subject.current
    ended = entry is not None and entry.state in ("done", "parked")
    # What was done and forgotten is not lost.
    if not ended and not any(write.new is not None and write.new.state == "done" for write in subject.writes):
        world.fail("lost", subject, f"it is {entry.state if entry else 'unknown'} in the end")
    happened = {attempt.token for attempt in subject.attempts if attempt.verdict in ("accepted", "repeat")}
    for write in subject.writes:
        if write.new is None or write.new.state != "done" or write.op is None:
            continue
        if write.op.kind == "end" and write.new.token not in happened:
            world.fail("lost", subject, f"{write.new.token} is done, but nothing happened")


def explained(world: World, subject: Subject) -> None:
    """Find for every effect after the first why its claim was allowed."""
    seen: set[str] = set()
    for attempt in sorted(subject.attempts, key=lambda one: one.started):
        if attempt.token in seen or (seen and not _is_allowed(subject, attempt)):
            world.fail("explained", subject, f"nothing explains the effect under {attempt.token}")
        seen.add(attempt.token)


def _is_allowed(subject: Subject, attempt: Attempt) -> bool:
    """Say whether the write that gave the key to an attempt found it free, forgotten or out of its lease."""
    for write in subject.writes:
        if _is_claim(write) and write.new is not None and write.new.token == attempt.token:
            old = write.old
            return old is None or old.state in ("free", "held") or old.expires is not None
    return False


def conserved(world: World) -> None:
    """Compare what lists show with what was written, and count the fates of all claims."""
    shown = {}
    for states in (OPEN, STATES):
        found, _ = world.store.scan("sim", states, False, None, 1000)
        shown[states] = {key.id: seen.entry for key, seen in found}
    stored = {subject.key.id: subject.current for subject in world.subjects if subject.current is not None}
    still = {id: entry for id, entry in stored.items() if entry.state != "done"}
    if shown[STATES] != stored or shown[OPEN] != still:
        world.fail("conserved", None, "lists show something else than what is stored")
    for subject in world.subjects:
        _count_fates(world, subject)


def _count_fates(world: World, subject: Subject) -> None:
    claims = sum(_is_claim(write) for write in subject.writes)
    ends = sum(_ends_claim(write) for write in subject.writes)
    entry = subject.current
    live = 1 if entry is not None and entry.state == "held" else 0
    if claims != ends + live:
        world.fail("conserved", subject, f"{claims} claims have {ends} ends, and {live} are held")


def _ends_claim(write: Write) -> bool:
    """Say whether a write ended a claim: settled, freed, parked, taken over; joined ones end at once."""
    old, new = write.old, write.new
    if _is_claim(write) and new is not None and new.state == "done":
        return True
    if old is None or old.state != "held":
        return False
    return new is None or new.state != "held" or new.token != old.token


PER_KEY: tuple[Callable[[World, Subject], None], ...] = (effects, sink, in_order, lost, explained)
