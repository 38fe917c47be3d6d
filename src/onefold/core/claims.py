"""Every decision about a key, as pure functions over what the store said.

Each takes what was seen and answers with a `Change` to try or an `Answer` to give. Nothing here asks
a store, reads a clock or makes a token; tables of tests go through all of it. A lease that ran out
says nothing about the effect: its holder may have died before it, died after it, or be slow.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from onefold.core.entry import Change, Effect, Entry, Seen, Why, expired
from onefold.core.key import Key
from onefold.core.terms import Seconds, Terms

_STRICTNESS: dict[Effect, int] = {"idempotent": 0, "joined": 0, "keyed": 1, "one-shot": 2}


class Bid(Struct, frozen=True, gc=False):
    """What a claimant wants: one attempt, named by its token, on one key."""

    key: Key
    token: str
    terms: Terms
    effect: Effect = "one-shot"
    window: Seconds | None = None
    """How long the far side of a keyed effect remembers the key; None for ever."""
    begin: bool = True
    """The effect starts as soon as the claim is won, so the claim itself says *begun*."""
    age: Seconds = 0.0
    """How old the record is: older than `keep`, an absent entry proves nothing."""
    fingerprint: str | None = None
    source: str = ""
    body: str | None = None
    takes_suspects: bool = True
    """Take over also what may have killed its holders; who can try it alone elsewhere leaves it to that."""


class Hold(Struct, frozen=True, gc=False):
    """A claim that was won, as last heard from the store."""

    key: Key
    token: str
    entry: Entry
    since: float = 0.0
    """Monotonic time before the write that the present lease counts from was first sent."""
    unsure: bool = False
    """A write of ours went unanswered: the stored version may be ahead of `entry`."""


class Answer(Struct, gc=False):
    """What a claimant or holder is told. Losing is an answer, not an error."""

    state: Literal["won", "done", "busy", "parked", "mismatch", "lost", "settled", "unknown"]
    entry: Entry | None = None
    wait: Seconds = 0.0
    since: float = 0.0
    skew: Seconds = 0.0


class Happened(NamedTuple):
    """A probe's answer: the effect happened; this is its receipt."""

    receipt: object = None


class CannotHappen(NamedTuple):
    """A probe's answer: it did not happen, and the outside can no longer accept the old attempt.

    "I do not find it" is not enough: a request may still be on its way. Then answer None, unknown.
    """


class Ending(NamedTuple):
    """How an attempt ended, as its holder saw it."""

    kind: Literal["returned", "refused", "rejected", "raised", "parked"]
    body: str | None = None
    """The receipt of what returned; for the others the record, if it is to be kept anew."""
    at_once: bool = False
    """Free without a back-off: the holder gives the key back, nothing went wrong."""
    delay: Seconds | None = None
    """If given back: not before this long, because the outside said when to come again."""


# ----- claim


def claim(bid: Bid, seen: Seen) -> Change | Answer:
    """Say what a claimant may do about what it saw."""
    entry = seen.entry
    if entry is None:
        return first(bid)
    if entry.token == bid.token and entry.state == ("done" if bid.effect == "joined" else "held"):
        return Answer("won", entry)
    now = entry.written + seen.idle
    if expired(entry, now - seen.skew) and not _still_proves(bid, seen.idle):
        return first(bid, expected=entry.version)
    if bid.fingerprint and entry.fingerprint and bid.fingerprint != entry.fingerprint:
        return Answer("mismatch", entry)
    match entry.state:
        case "done":
            return Answer("done", entry)
        case "parked":
            return Answer("parked", entry)
        case "held" if seen.stood < entry.lease:
            return Answer("busy", entry, wait=entry.lease - seen.stood)
        case "free" if entry.not_before is not None and now < entry.not_before:
            return Answer("busy", entry, wait=entry.not_before - now)
        case _:
            return _again(bid, entry, now + seen.skew)


def first(bid: Bid, expected: int | None = None) -> Change:
    """Claim what nobody did, as far as the ledger remembers: what is sent before anything was seen."""
    if bid.age > 0 and _beyond_memory(bid) and bid.effect != "idempotent":
        return _park(bid.key, _held(bid, attempt=0), "beyond-memory", expected)
    return _take(bid, expected, attempt=0)


def set_aside(bid: Bid, why: Why) -> Change:
    """Park what nobody may try: it cannot be read, or nobody knows how to act on it."""
    return _park(bid.key, _held(bid, attempt=0), why, None)


def _beyond_memory(bid: Bid) -> bool:
    # With a margin: the record grows older while the store is asked about it.
    keep = bid.terms.keep
    return keep is not None and bid.age >= keep - bid.terms.margin


def _still_proves(bid: Bid, idle: Seconds) -> bool:
    """Say whether an expired entry counts after all: to a record as old as it, it proves what was done."""
    return bid.age > 0 and bid.age >= idle - bid.terms.margin


def is_suspect(entry: Entry, terms: Terms) -> bool:
    """Say whether a key's holders died so often that its effect may be what kills them.

    Attempts of repeatable effects count at the claim, so whatever was claimed beside it is charged with each
    death. Half of its attempts are therefore kept for trying it alone, which clears whoever is innocent.
    """
    return entry.state == "held" and 2 * entry.attempt >= terms.attempts


def _again(bid: Bid, entry: Entry, now: float) -> Change | Answer:
    """Decide about a holder whose lease ran out, or about what was given back."""
    if _may_double(bid, entry, now):
        return _park(bid.key, entry, "in-doubt", entry.version)
    if entry.attempt >= bid.terms.attempts:
        return _park(bid.key, entry, "failed", entry.version)
    if not bid.takes_suspects and is_suspect(entry, bid.terms):
        return Answer("busy", entry)
    return _take(bid, entry.version, entry.attempt, entry)


def _may_double(bid: Bid, entry: Entry, now: float) -> bool:
    """Say whether running the effect again could make it happen twice. The stricter class decides."""
    if entry.begun is None:
        return False
    strictest = max(bid.effect, entry.effect, key=_STRICTNESS.__getitem__)
    if strictest == "keyed":
        return bid.window is not None and now - entry.begun >= bid.window - bid.terms.margin
    return strictest == "one-shot"


def _take(bid: Bid, expected: int | None, attempt: int, prior: Entry | None = None) -> Change:
    """Write a claim of our own. Attempts count at *begun*; for effects that may repeat, at the claim."""
    counted = attempt + 1 if bid.begin or bid.effect != "one-shot" else attempt
    begun = prior.begun if prior and bid.effect == "keyed" else None
    keep = bid.terms.keep if bid.effect == "joined" else None
    held = _held(bid, counted, begun, prior)
    return Change(bid.key, expected, held, bid.begin and begun is None, None, keep)


def _held(bid: Bid, attempt: int, begun: float | None = None, prior: Entry | None = None) -> Entry:
    effect, fingerprint, source, body = bid.effect, bid.fingerprint, bid.source, bid.body
    state: Literal["done", "held"] = "done" if effect == "joined" else "held"
    if prior is not None:
        fingerprint = fingerprint or prior.fingerprint
        source = source or prior.source
        body = prior.body if body is None else body
    return Entry(
        state, None, bid.token, 0, 0, effect, begun, bid.terms.lease, 0.0, attempt,
        None, None, fingerprint, bid.key.label, source, body,
    )  # fmt: skip


def _park(key: Key, entry: Entry, why: Why, expected: int | None) -> Change:
    # The holder's token stays: it may be alive and still say how it ended.
    return Change(key, expected, replace(entry, state="parked", why=why, not_before=None, expires=None))


# ----- what a holder does


def renew(hold: Hold, entry: Entry | None) -> Change | Answer:
    """Keep a claim alive. A parked or taken one is not brought back to life."""
    if entry is None or entry.token != hold.token:
        return Answer("lost", entry)
    if entry.state != "held":
        return Answer("parked" if entry.state == "parked" else "lost", entry)
    return Change(hold.key, entry.version, entry)


def begin(hold: Hold, entry: Entry | None, body: str | None) -> Change | Answer:
    """Write that the effect may start from now on, with the prepared request."""
    change = renew(hold, entry)
    if isinstance(change, Answer) or change.entry is None:
        return change
    mine = change.entry
    counted = mine.attempt + 1 if mine.effect == "one-shot" and mine.begun is None else mine.attempt
    body = mine.body if body is None else body
    return replace(change, entry=replace(mine, attempt=counted, body=body), begin=mine.begun is None)


def end(hold: Hold, entry: Entry | None, ending: Ending, terms: Terms) -> Change | Answer:
    """Write how an attempt ended, as long as the entry still carries its token."""
    if entry is None or entry.token != hold.token or entry.state == "free":
        return Answer("lost", entry)
    if entry.state == "done" and entry.effect != "joined":
        return Answer("lost", entry)
    match ending.kind:
        case "returned":
            done = _done(entry, ending.body)
            return Change(hold.key, entry.version, done, keep=terms.keep, settles=True)
        case "parked":
            return _park(hold.key, _with_body(entry, ending), "by-hand", entry.version)
        case "rejected":
            freed = _freed(_with_body(entry, ending), entry.attempt)
            return _park(hold.key, freed, "failed", entry.version)
        case "raised" if entry.effect == "one-shot" and entry.begun is not None:
            return _park(hold.key, _with_body(entry, ending), "in-doubt", entry.version)
        case _:
            return _free(hold.key, _with_body(entry, ending), ending, terms)


def _done(entry: Entry, receipt: str | None) -> Entry:
    return Entry(
        "done", None, entry.token, 0, entry.fence, entry.effect, entry.begun, entry.lease, 0.0, entry.attempt,
        None, None, entry.fingerprint, entry.label, entry.source, receipt,
    )  # fmt: skip


def _free(key: Key, entry: Entry, ending: Ending, terms: Terms) -> Change:
    if ending.at_once:
        # Given back untried: this attempt does not count, if it was counted already.
        counted = entry.effect != "one-shot" or entry.begun is not None
        return Change(key, entry.version, _freed(entry, max(entry.attempt - counted, 0)), delay=ending.delay)
    freed = _freed(entry, entry.attempt)
    if entry.attempt >= terms.attempts:
        return _park(key, freed, "failed", entry.version)
    return Change(key, entry.version, freed, delay=terms.delay(entry.attempt))


def _freed(entry: Entry, attempt: int) -> Entry:
    # A keyed effect remembers when it first began: the far side's window runs from there.
    begun = entry.begun if entry.effect == "keyed" else None
    return replace(entry, state="free", why=None, begun=begun, attempt=attempt, lease=0.0, expires=None)


def _with_body(entry: Entry, ending: Ending) -> Entry:
    return entry if ending.body is None else replace(entry, body=ending.body)


def failed_join(bid: Bid, seen: Seen, how: Ending) -> Change | None:
    """Count an attempt whose transaction was rolled back; None if there is nothing to count on."""
    entry = seen.entry
    if entry is not None and entry.state != "free":
        return None
    attempt = (entry.attempt if entry else 0) + (not how.at_once)
    free = _with_body(replace(_held(bid, attempt, prior=entry), state="free", lease=0.0), how)
    expected = entry.version if entry else None
    if how.at_once:
        return Change(bid.key, expected, free, delay=how.delay)
    if how.kind == "rejected" or attempt >= bid.terms.attempts:
        return _park(bid.key, free, "failed", expected)
    return Change(bid.key, expected, free, delay=bid.terms.delay(attempt))


# ----- what a probe or a person decides


def probed(
    key: Key, entry: Entry, token: str, answer: Happened | CannotHappen | None, body: str | None
) -> Change | None:
    """Turn a probe's answer about a parked entry into a write; an unknown changes nothing."""
    if answer is None or entry.state != "parked":
        return None
    if isinstance(answer, Happened):
        return _happened(key, entry, token, body)
    return _did_not_happen(key, entry, token, entry.attempt)


def resolve(key: Key, entry: Entry | None, token: str, happened: bool, body: str | None) -> Change | None:
    """Write a person's decision about a parked entry; None if it is not parked."""
    if entry is None or entry.state != "parked":
        return None
    if happened:
        return _happened(key, entry, token, body)
    return _did_not_happen(key, entry, token, attempt=0)


# Both give the entry a new token: from here on the old holder's word no longer counts.


def _happened(key: Key, entry: Entry, token: str, body: str | None) -> Change:
    return Change(key, entry.version, replace(entry, state="done", why=None, token=token, body=body))


def _did_not_happen(key: Key, entry: Entry, token: str, attempt: int) -> Change:
    freed = replace(_freed(entry, attempt), token=token, begun=None, not_before=None)
    return Change(key, entry.version, freed)


def retry(key: Key, entry: Entry | None, token: str) -> Change | None:
    """Make an entry due now, if running it again is known to be safe; None if it is not."""
    if entry is None or not may_retry(entry):
        return None
    return Change(key, entry.version, replace(_freed(entry, attempt=0), token=token, not_before=None))


def may_retry(entry: Entry) -> bool:
    """Say whether an operator may run this again without deciding what happened before."""
    if entry.state == "free":
        return True
    if entry.state != "parked" or entry.why in ("in-doubt", "beyond-memory"):
        return False
    return entry.why == "failed" or entry.effect != "one-shot" or entry.begun is None


def forgotten(seen: Seen) -> bool:
    """Say whether a done entry may be removed: its memory has run out by every clock that reads it.

    Twice the skew, so that whoever comes next, by a clock that is behind, still starts from a higher version.
    """
    entry = seen.entry
    return entry is not None and expired(entry, entry.written + seen.idle - 2 * seen.skew)


def purge(key: Key, entry: Entry) -> Change:
    """Ask for the removal of a done entry; the store removes it only if it has expired by its own clock."""
    return Change(key, entry.version, None)
