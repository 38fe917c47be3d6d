"""Entries as MongoDB documents, and the commands that write, remove and find them. Nothing is sent here.

A single change is a pipeline: the server compares the version, reads its clock and replaces the whole
document in one step. `now` is that clock as an expression, and every text of a caller is in a `$literal`,
so that the server never evaluates it. A batch is made of plain documents with a time that the server told
before (decision 15): texts of callers are only ever values in them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from bson.datetime_ms import DatetimeMS
from msgspec.structs import asdict

from onefold.core.entry import BODY_LIMIT, FIELDS, NOTHING, Change, Entry, Seen, State, due, stamped
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
"""Bytes of changes in one command: the server takes a command of 16 MiB."""

ROOM = 4096
"""Bytes for all of a change but its body. A command therefore has fewer than 4,000 changes; the server takes
100,000."""

_ASSIGNED = {"version", "fence", "begun", "written", "not_before", "expires"}
_SHOWN = dict.fromkeys((*FIELDS, "scope", "due"), 1)


# ----- writing one


def write_one(change: Change, now: Any) -> Command:
    """Try one change, and tell what is stored afterwards."""
    return {
        "findAndModify": ENTRIES,
        "query": {"_id": change.key.id},
        "update": [_replacement(change, now)],
        "upsert": change.expected is None,
        "new": True,
        "fields": {**_SHOWN, "now": now},
    }


def _replacement(change: Change, now: Any) -> Document:
    unchanged: Document = {"$eq": [{"$ifNull": ["$version", None]}, change.expected]}
    if change.settles and change.entry:
        unchanged = {"$and": [unchanged, {"$eq": ["$token", {"$literal": change.entry.token}]}]}
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


# ----- writing many


class Write(NamedTuple):
    """One command of a batch."""

    command: Command
    places: Sequence[int]
    """Where the changes that it tries stand in the batch."""
    written: Sequence[Seen]
    """What is stored under their keys if they win, in the same order."""

    def lost(self, told: Mapping[str, Any]) -> Sequence[int]:
        """Return the places of the changes that the server's reply does not show as written.

        Inserts that found their key taken are named by the server. Of updates and removals it only counts
        how many found their document: if that is not all of them, any of them may have lost.
        """
        places, errors = self.places, told.get("writeErrors", ())
        if told["n"] == len(places):
            return ()
        if "insert" in self.command and told["n"] + len(errors) == len(places):
            return [places[error["index"]] for error in errors]
        return places


def write_many(changes: Sequence[Change], clock: float, now: Any) -> Iterator[Write]:
    """Try changes, each by itself: a command for each kind of them, more of them for large bodies.

    `clock` is the time that new documents carry. Only removals compare `now`, the clock as an expression.
    """
    inserts, updates, removals = [], [], []
    for place, change in enumerate(changes):
        if change.entry is None:
            removals.append(place)
        elif change.expected is None:
            inserts.append(place)
        else:
            updates.append(place)
    for places in _chunks(inserts, changes):
        yield _inserted(places, changes, clock)
    for places in _chunks(updates, changes):
        yield _updated(places, changes, clock)
    for places in _chunks(removals, changes):
        deletes = [_removal(changes[place], now) for place in places]
        command = {"delete": ENTRIES, "deletes": deletes, "ordered": False}
        yield Write(command, places, [NOTHING] * len(places))


def _chunks(places: Sequence[int], changes: Sequence[Change]) -> Iterator[Sequence[int]]:
    """Divide changes among commands that the driver can send."""
    start = size = 0
    for at, place in enumerate(places):
        entry = changes[place].entry
        # A character takes at most four bytes, and no body is larger than its limit.
        more = ROOM + (min(4 * len(entry.body), BODY_LIMIT) if entry and entry.body else 0)
        if size + more > MESSAGE:
            yield places[start:at]
            start, size = at, 0
        size += more
    if places:
        yield places[start:]


def _inserted(places: Sequence[int], changes: Sequence[Change], clock: float) -> Write:
    version = int(clock * 1_000_000)
    written, new = [], []
    for place in places:
        change = changes[place]
        entry = stamped(change, version, clock)
        written.append(Seen(entry))
        new.append(_plain(change, entry))
    return Write({"insert": ENTRIES, "documents": new, "ordered": False}, places, written)


def _updated(places: Sequence[int], changes: Sequence[Change], clock: float) -> Write:
    written, updates = [], []
    for place in places:
        change = changes[place]
        assert change.expected is not None, "an insert updates nothing"
        entry = stamped(change, change.expected + 1, clock)
        written.append(Seen(entry))
        test = {"_id": change.key.id, "version": change.expected}
        if change.settles:
            # A settle keeps the stored token, so the token can be compared as well. It has to be: a new entry
            # may get a version that a removed one had, because its clock is read earlier (decision 15).
            test["token"] = entry.token
            updates.append({"q": test, "u": _settlement(change, entry)})
        else:
            updates.append({"q": test, "u": _plain(change, entry)})
    return Write({"update": ENTRIES, "updates": updates, "ordered": False}, places, written)


_OPTIONAL = ("why", "begun", "not_before", "expires", "fingerprint", "body")
"""The fields of an entry that a document lacks where they are None."""

_SETTLED = ("why", "begun", "not_before", "expires", "body")
"""The ones among them that a settle may change."""


def _plain(change: Change, entry: Entry) -> Document:
    """Write down the document that stores an entry."""
    key = change.key
    document: Document = {
        "_id": key.id, "scope": key.scope, "state": entry.state, "token": entry.token,
        "version": entry.version, "fence": entry.fence, "effect": entry.effect, "lease": entry.lease,
        "written": entry.written, "attempt": entry.attempt, "label": entry.label, "source": entry.source,
    }  # fmt: skip
    for name in _OPTIONAL:
        value = getattr(entry, name)
        if value is not None:
            document[name] = value
    document.update(_indexed(change, entry))
    return document


def _settlement(change: Change, entry: Entry) -> Document:
    """Say what a settle changes, and leave every other field as it is stored."""
    changed: Document = {"state": entry.state, "version": entry.version, "written": entry.written}
    # One of both always goes: an open entry has no `ttl`, a done one is not due.
    gone: Document = {"due": "", "ttl": ""}
    for name in _SETTLED:
        value = getattr(entry, name)
        if value is None:
            gone[name] = ""
        else:
            changed[name] = value
    for name, value in _indexed(change, entry).items():
        changed[name] = value
        del gone[name]
    return {"$set": changed, "$unset": gone}


def _indexed(change: Change, entry: Entry) -> Document:
    """Add what indexes look at: `due` while it is open, `ttl` when it is done and may be forgotten."""
    late = due(entry)
    if late is not None:
        return {"due": late}
    if change.keep is None:
        return {}
    gone = entry.written + min(change.keep + max(change.keep, LINGER), FAR)
    return {"ttl": DatetimeMS(int(gone * 1000))}


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
    # The driver's own kind of integer would travel on with the entry.
    document["version"], document["fence"] = int(document["version"]), int(document["fence"])
    fields: Any = map(document.get, FIELDS)
    entry = Entry(*fields)
    return Seen(entry, max(document["now"] - entry.written, 0.0))


def found(document: Document) -> Found:
    """Read whose entry it is, too."""
    return Key.stored(document["scope"], bytes(document["_id"]), document["label"]), seen(document)
