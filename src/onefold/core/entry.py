"""What a store knows of a key, and the one atomic write that changes it.

States say what is known: *free* (it did not happen), *held* (it may be happening), *done* (it
happened), *parked* (waits for a decision). Only a store assigns `version`, `fence` and the times; a
decision leaves them to `stamped`. A batch makes thousands of these values, so they are structs that
the garbage collector does not track: no field may hold anything that can refer back to its value.
"""

from __future__ import annotations

from enum import Enum
from typing import Literal, get_args

from msgspec import Struct

from onefold.core.key import Key

State = Literal["free", "held", "done", "parked"]
Why = Literal["in-doubt", "failed", "by-hand", "beyond-memory"]
Effect = Literal["joined", "keyed", "idempotent", "one-shot"]

STATES: tuple[State, ...] = get_args(State)
OPEN: tuple[State, ...] = ("free", "held", "parked")
EFFECTS: tuple[Effect, ...] = get_args(Effect)

BODY_LIMIT = 64 * 1024
"""The most that an entry carries as record, prepared request or receipt, in bytes of UTF-8."""


class Entry(Struct, frozen=True, gc=False):
    """All that is stored under one key. Times are seconds since 1970 by the store's clock."""

    state: State
    why: Why | None = None
    token: str = ""
    """Names the attempt that wrote last; made before sending, never a worker's name."""
    version: int = 0
    fence: int = 0
    """The version at which the present attempt was claimed; 0 in a change means "this write's version"."""
    effect: Effect = "one-shot"
    begun: float | None = None
    """When the effect may first have started; None while it certainly has not."""
    lease: float = 0.0
    written: float = 0.0
    attempt: int = 0
    not_before: float | None = None
    expires: float | None = None
    fingerprint: str | None = None
    label: str = ""
    source: str = ""
    body: str | None = None
    """While open: the record or prepared request, and how the last attempt ended (see `reasons`).

    When done: the receipt. JSON text, or None.
    """


class Seen(Struct, frozen=True, gc=False):
    """What a store said about a key: its entry, and how long ago that version was written."""

    entry: Entry | None
    idle: float = 0.0
    """Seconds since it was written, by the store's clock or the one that stands in for it; never below 0."""
    skew: float = 0.0
    """How far apart the clocks of writers and readers may be; 0 where the store has a clock of its own."""

    @property
    def stood(self) -> float:
        """For how long this version has certainly stood."""
        return self.idle - self.skew


NOTHING = Seen(None)

FIELDS: tuple[str, ...] = Entry.__struct_fields__
"""The names of an entry's fields, in the order in which stores write them."""


class Unknown(Enum):
    """The third answer: the write may or may not have happened."""

    UNKNOWN = "unknown"


UNKNOWN = Unknown.UNKNOWN
Reply = Seen | Unknown


class Change(Struct, frozen=True, gc=False):
    """Write `entry` under `key` if the stored version is still `expected` (None: if nothing is stored).

    `begin`, `delay` and `keep` ask the store to set begun, not_before and expires from its own
    clock. An `entry` of None removes a done and expired entry, and nothing else.
    """

    key: Key
    expected: int | None
    entry: Entry | None
    begin: bool = False
    delay: float | None = None
    keep: float | None = None
    settles: bool = False
    """Everything but state, why, body, version and times (not `begun`) is as in the expected version.

    A store may then write just those. It never has to: the entry is complete.
    """


def stamped(change: Change, version: int, now: float) -> Entry:
    """Return the entry a store writes for a change: what was wanted, with the store's version and times."""
    wanted, delay, keep = change.entry, change.delay, change.keep
    assert wanted is not None, "a removal writes no entry"
    return Entry(
        wanted.state, wanted.why, wanted.token, version, wanted.fence or version, wanted.effect,
        now if change.begin else wanted.begun, wanted.lease, now, wanted.attempt,
        None if delay is None else now + delay, None if keep is None else now + keep,
        wanted.fingerprint, wanted.label, wanted.source, wanted.body,
    )  # fmt: skip


def due(entry: Entry) -> float | None:
    """Say from when on an open entry may be acted upon; done entries are never due."""
    state = entry.state
    if state == "done":
        return None
    if state == "held":
        return entry.written + entry.lease
    if state == "free" and entry.not_before is not None:
        return entry.not_before
    return entry.written


def expired(entry: Entry, now: float) -> bool:
    """Say whether a done entry's memory has run out."""
    return entry.state == "done" and entry.expires is not None and entry.expires <= now
