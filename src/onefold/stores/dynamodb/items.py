"""Entries as DynamoDB items, and back: every field an attribute of its own, numbers as exact decimal text.

An item carries `open` and `due` only while it is open, so that the index over them holds nothing else, and
`ttl` only when done and not kept for ever. It asks nobody and decides nothing.
"""

from __future__ import annotations

from math import ceil
from typing import Any

from msgspec.structs import astuple

from onefold.core.entry import FIELDS, Entry, State, due
from onefold.core.errors import Misconfigured
from onefold.core.key import Key

Item = dict[str, dict[str, Any]]

SHARDS = 8
"""Parts of each state in the index: one alone takes no more than about 1,000 writes a second."""

LINGER = 86_400
"""Seconds that DynamoDB's own expiry waits beyond ours: it goes by another clock, and is hygiene only."""

_TEXTS = ("state", "why", "token", "effect", "fingerprint", "label", "source", "body")
_COUNTS = ("version", "fence", "attempt")
_KINDS = ["S" if name in _TEXTS else "N" for name in FIELDS]
_READ = [str if name in _TEXTS else int if name in _COUNTS else float for name in FIELDS]


def item(key: Key, entry: Entry) -> Item:
    """Write an entry as the item that is stored."""
    written: Item = {"id": {"B": key.id}, "scope": {"S": key.scope}}
    for name, kind, value in zip(FIELDS, _KINDS, astuple(entry), strict=True):
        if value is not None:
            written[name] = {kind: _text(name, value) if kind == "S" else repr(value)}
    at = due(entry)
    if at is not None:
        written["open"] = {"S": place(entry.state, shard(key.id))}
        written["due"] = number(at)
    elif entry.expires is not None:
        written["ttl"] = {"N": str(ceil(entry.expires) + LINGER)}
    return written


def _text(name: str, value: object) -> str:
    text = str(value)
    try:
        text.encode()
    except UnicodeEncodeError:
        # It would be sent all the same, and stored as something else.
        raise Misconfigured(f"{name} of an entry is not valid Unicode: {text!r:.80}") from None
    return text


def entry(stored: Item) -> Entry:
    """Read an item as the entry that was stored."""
    attributes = map(stored.get, FIELDS)
    fields: list[Any] = [
        None if attribute is None else read(attribute[kind])
        for attribute, kind, read in zip(attributes, _KINDS, _READ, strict=True)
    ]
    return Entry(*fields)


def key(stored: Item) -> Key:
    """Read whose item it is."""
    return Key.stored(stored["scope"]["S"], id_of(stored), stored["label"]["S"])


def id_of(stored: Item) -> bytes:
    """Read the digest that an item or a row of the index is stored under."""
    return bytes(stored["id"]["B"])


def number(value: float) -> dict[str, str]:
    """Write a number so that it comes back as the same one: `repr` is the shortest text that does."""
    return {"N": repr(value)}


def place(state: State, shard: int) -> str:
    """Name a part of the index."""
    return f"{state}/{shard}"


def shard(id: bytes) -> int:
    """Say in which part of the index an entry is listed."""
    return id[0] % SHARDS
