"""Entries as MongoDB documents, and the commands that write, remove and find them. Nothing is sent here.

Every write is a pipeline that compares the version and replaces the whole document in one step, or leaves it
as it is. `now` is the server's clock as an expression, one reading for all of a command; what callers give
stands in a `$literal`, so that no text of theirs is ever read as one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from msgspec.structs import asdict

from onefold.core.entry import BODY_LIMIT, FIELDS, NOTHING, Change, Entry, Seen, State
from onefold.core.errors import OnefoldError
from onefold.core.flow import Found
from onefold.core.key import Key

Document = dict[str, Any]
Command = dict[str, Any]
"""A command as the server takes it; its concerns are the client's to add."""


class Taken(OnefoldError):
    """Another's insert came between: nothing was written, and something is stored by now."""


ENTRIES = "onefold_entries"
OPEN_INDEX = "onefold_open"

NOW: Document = {"$divide": [{"$toLong": "$$NOW"}, 1000]}
"""The server's clock, in seconds since 1970. It counts whole milliseconds."""

LINGER = 86_400.0
"""Seconds that the server's own expiry waits at least beyond ours: it is hygiene, and decides nothing."""

FAR = 1e11
"""Seconds beyond which the server's own expiry does not look: its dates have an end."""

MESSAGE = 15_000_000
"""Bytes of changes in one command: the driver sends 16 MiB."""

_ASSIGNED = {"version", "fence", "begun", "written", "not_before", "expires"}
_SHOWN = dict.fromkeys((*FIELDS, "scope", "due"), 1)


# ----- writing


def write_one(change: Change, now: Any) -> Command:
    """Try one change, and tell what is stored afterwards."""
    [update] = _updates([change], now)
    return {
        "findAndModify": ENTRIES,
        "query": update["q"],
        "update": update["u"],
        "upsert": update["upsert"],
        "new": True,
        "fields": {**_SHOWN, "now": now},
    }


def write_many(changes: Sequence[Change], now: Any) -> list[Command]:
    """Try changes, each by itself: one command, and more where there are removals or many large bodies."""
    kept = [change for change in changes if change.entry is not None]
    gone = [change for change in changes if change.entry is None]
    commands: list[Command] = [
        {"update": ENTRIES, "updates": _updates(some, now), "ordered": False} for some in _chunks(kept)
    ]
    if gone:
        removals = [_removal(change, now) for change in gone]
        commands.append({"delete": ENTRIES, "deletes": removals, "ordered": False})
    return commands


def _chunks(changes: Sequence[Change]) -> Iterator[Sequence[Change]]:
    start = size = 0
    for at, change in enumerate(changes):
        body = change.entry.body if change.entry else None
        more = 4096 + min(4 * len(body or ""), BODY_LIMIT)
        if size + more > MESSAGE:
            yield changes[start:at]
            start, size = at, 0
        size += more
    if changes:
        yield changes[start:]


def _updates(changes: Sequence[Change], now: Any) -> list[Document]:
    return [
        {"q": {"_id": change.key.id}, "u": [_replacement(change, now)], "upsert": change.expected is None}
        for change in changes
    ]


def _replacement(change: Change, now: Any) -> Document:
    unchanged = {"$eq": [{"$ifNull": ["$version", None]}, change.expected]}
    wanted = {"$let": {"vars": {"now": now}, "in": _document(change)}}
    return {"$replaceWith": {"$cond": [unchanged, wanted, "$$ROOT"]}}


def _document(change: Change) -> Document:
    """Write down the document that a change wants: what the caller gives, and what the server assigns."""
    wanted = change.entry
    assert wanted is not None, "a removal writes no document"
    given = {
        name: value for name, value in asdict(wanted).items() if name not in _ASSIGNED and value is not None
    }
    given |= {"_id": change.key.id, "scope": change.key.scope}
    version: Any = {"$toLong": {"$multiply": ["$$now", 1_000_000]}}
    if change.expected is not None:
        version = change.expected + 1
    begun = "$$now" if change.begin else wanted.begun
    assigned = {
        "version": version,
        "fence": wanted.fence or version,
        "written": "$$now",
        **({} if begun is None else {"begun": begun}),
        **({} if change.delay is None else {"not_before": _later(change.delay)}),
        **({} if change.keep is None else {"expires": _later(change.keep)}),
        **_native(wanted.state, wanted.lease, change),
    }
    return {"$mergeObjects": [{"$literal": given}, assigned]}


def _native(state: State, lease: float, change: Change) -> Document:
    """Add what indexes look at: `due` while it is open, `ttl` when it is done and may be forgotten."""
    if state != "done":
        waits = {"held": lease, "free": change.delay or 0.0}
        return {"due": _later(waits.get(state, 0.0))}
    if change.keep is None:
        return {}
    gone = _later(min(change.keep + max(change.keep, LINGER), FAR))
    return {"ttl": {"$toDate": {"$toLong": {"$multiply": [gone, 1000]}}}}


def _later(seconds: float) -> Document:
    return {"$add": ["$$now", seconds]}


def _removal(change: Change, now: Any) -> Document:
    """Remove only what is done and expired, and only on the version that was seen."""
    over = {"$expr": {"$lte": ["$expires", now]}}
    seen = {"_id": change.key.id, "version": change.expected, "state": "done", "expires": {"$exists": True}}
    return {"q": seen | over, "limit": 1}


# ----- finding


def look(keys: Sequence[Key], now: Any) -> Command:
    """Ask for what is stored under these keys, in one answer as far as it can hold them."""
    return _find({"_id": {"$in": [key.id for key in keys]}}, len(keys), now)


def list_open(
    state: State, scope: str | None, due: bool, place: tuple[str, float, bytes] | None, limit: int, now: Any
) -> Command:
    """Ask for a page of open entries, in the order of their index."""
    test: Document = {"state": state, "due": {"$gte": 0.0}}
    if scope is not None:
        test["scope"] = scope
    if due:
        test["$expr"] = {"$lte": ["$due", now]}
    if place is not None:
        test["$or"] = _behind(*place)
    return {**_find(test, limit, now), "sort": {"scope": 1, "due": 1, "_id": 1}, "hint": OPEN_INDEX}


def _behind(scope: str, due: float, id: bytes) -> list[Document]:
    return [
        {"scope": {"$gt": scope}},
        {"scope": scope, "due": {"$gt": due}},
        {"scope": scope, "due": due, "_id": {"$gt": id}},
    ]


def walk_done(scope: str | None, after: bytes, limit: int, now: Any) -> Command:
    """Ask for a page of done entries: over everything, for purge and export only."""
    test: Document = {"_id": {"$gt": after}, "state": "done"}
    if scope is not None:
        test["scope"] = scope
    return {**_find(test, limit, now), "sort": {"_id": 1}, "hint": "_id_"}


def _find(test: Document, limit: int, now: Any) -> Command:
    # One more than can come: so the server knows at once that nothing is left, and keeps no cursor open.
    return {
        "find": ENTRIES,
        "filter": test,
        "projection": {**_SHOWN, "now": now},
        "limit": limit,
        "batchSize": limit + 1,
    }


# ----- reading


def seen(document: Document | None) -> Seen:
    """Read what is stored, and for how long it has stood by the server's clock."""
    if document is None:
        return NOTHING
    fields: dict[str, Any] = {name: document.get(name) for name in FIELDS}
    # The driver's own kind of integer would travel on with the entry.
    entry = Entry(**fields | {"version": int(document["version"]), "fence": int(document["fence"])})
    return Seen(entry, max(document["now"] - entry.written, 0.0))


def found(document: Document) -> Found:
    """Read whose entry it is, too."""
    return Key.stored(document["scope"], bytes(document["_id"]), document["label"]), seen(document)
