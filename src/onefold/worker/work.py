"""What a worker acts upon: tasks made from records, and the text in which an entry keeps a record.

It draws tokens and reads the monotonic clock; it asks no store. A text that is too large for an entry is cut
to what names the record; the source must then show it again.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import Any, NamedTuple

import msgspec

from onefold.core.claims import Answer, Bid, Hold
from onefold.core.entry import BODY_LIMIT, Effect, Entry
from onefold.core.key import Key
from onefold.core.pulse import Pulse
from onefold.core.record import Record
from onefold.core.terms import Seconds, Terms
from onefold.runtime import current

ERROR_LENGTH = 500

_ENCODER = msgspec.json.Encoder()


class Task(NamedTuple):
    """One effect that a record asks for."""

    key: Key
    record: Record
    name: str = ""
    request: Any = None
    error: str = ""
    """What went wrong at the last attempt."""
    note: Any = None
    """What the last attempt left to know, as plain JSON values."""
    later: bool = False
    """Whether the last attempt was told when to come again."""
    alone: bool = False
    """Whether nothing else is claimed with it."""


class Attempt:
    """A claim of the worker's, with the record it is about; sinks are given it as their claim."""

    __slots__ = ("entry", "finished", "key", "name", "pulse", "record", "request", "token")

    def __init__(self, bid: Bid, answer: Answer, task: Task) -> None:
        self.key = bid.key
        self.token = bid.token
        self.entry = answer.entry
        self.record = task.record
        self.name = task.name
        self.request = task.request
        self.pulse: Pulse | None = None
        self.finished = answer.state != "won"
        if answer.state == "won" and answer.entry:
            self.pulse = Pulse.of(Hold(bid.key, bid.token, answer.entry, answer.since), bid.terms)

    @property
    def fence(self) -> int:
        """Grows with every attempt; a far side that remembers the largest can refuse a stale writer."""
        return self.entry.fence if self.entry else 0

    @property
    def attempt(self) -> int:
        """Which attempt this is, from 1 on."""
        held = self.pulse.hold.entry if self.pulse else self.entry
        return max(held.attempt, 1) if held else 1

    @property
    def lost(self) -> bool:
        """Whether the lease can no longer be relied upon: another may be at work."""
        return self.pulse is not None and not self.finished and self.pulse.gone(current().monotonic())

    @property
    def hold(self) -> Hold:
        assert self.pulse is not None, "only what was won is held"
        return self.pulse.hold

    @property
    def task(self) -> Task:
        return Task(self.key, self.record, self.name, self.request)


def bid(
    task: Task,
    token: str,
    terms: Terms,
    effect: Effect,
    window: Seconds | None,
    age: Seconds,
    prepares: bool = False,
) -> Bid:
    """Bid for a task. An effect that is prepared begins by a write of its own, any other with its claim."""
    body = written(task)
    return Bid(
        task.key,
        token,
        terms,
        effect,
        window,
        not prepares,
        age,
        None,
        task.record.source,
        body,
        # What its entry cannot keep, recovery cannot try alone: then whoever is shown it must.
        task.alone or _is_cut(body),
    )


def written(task: Task) -> str:
    """Write a task as the text that its entry keeps while it is open."""
    record = task.record
    text: dict[str, Any] = {"record": _fields(record, record.body)}
    if task.name:
        text["for"] = task.name
    if task.request is not None:
        text["request"] = task.request
    if task.error:
        text["error"] = task.error[:ERROR_LENGTH]
    if task.note is not None:
        text["note"] = task.note
    if task.later:
        text["later"] = True
    encoded = _ENCODER.encode(text)
    if len(encoded) > BODY_LIMIT:
        text["record"], text["cut"] = _fields(record, None), True
        encoded = _ENCODER.encode(text)
    return encoded.decode()


def _fields(record: Record, body: Any) -> dict[str, Any]:
    fields = {"id": record.id, "at": record.at, "source": record.source, "body": body}
    if record.retracts is not None:
        fields["retracts"] = record.retracts
    return fields


def read(key: Key, entry: Entry) -> Task | None:
    """Read a task back from its entry; None if the entry does not keep the whole of it."""
    try:
        text = msgspec.json.decode(entry.body or "null")
        record = text["record"]
        if text.get("cut"):
            return None
        kept = Record(record["id"], record["body"], record["at"], record["source"], record.get("retracts"))
        named, error = text.get("for", ""), text.get("error", "")
        return Task(key, kept, named, text.get("request"), error, text.get("note"), bool(text.get("later")))
    except (msgspec.DecodeError, KeyError, TypeError, AttributeError):
        return None


def is_kept(entry: Entry | None) -> bool:
    """Say whether an open entry carries its record, so that any worker can act on it."""
    return entry is not None and entry.body is not None and not _is_cut(entry.body)


def _is_cut(body: str) -> bool:
    return '"cut":true' in body[-16:]


def named_for(key: Key, name: str) -> Key:
    """Return the key of one effect among several of a record."""
    return Key(key.scope, *key.parts, name)


def broken_key(pipeline: str, source: str, raw: str) -> Key:
    """Name a record that could not be read, by its own text."""
    digest = blake2b(raw.encode("utf-8", "replace"), digest_size=16).hexdigest()
    return Key(f"{pipeline}.broken", source, digest)
