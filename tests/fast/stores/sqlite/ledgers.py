"""Ledgers to spoil: a file with entries in it, and what must still be there afterwards."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from msgspec.structs import replace

from onefold.core.entry import Change, Entry, Reply, Seen
from onefold.core.key import Key
from onefold.core.ports import Store
from onefold.stores.sqlite import SqliteStore

KEYS = sorted((Key("orders", number) for number in range(300)), key=lambda key: key.id)
NEW = Key("orders", "new")


def inserts(keys: Iterable[Key], token: str = "ann", body: str = "") -> list[Change]:
    """Ask for done entries under these keys."""
    wanted = Entry("done", token=token, body=body or '"a receipt"')
    return [
        Change(key, None, replace(wanted, label=key.label)) for key in sorted(keys, key=lambda key: key.id)
    ]


def made(path: Path) -> Path:
    """Make a ledger with three hundred entries, and leave the file closed."""
    store = SqliteStore(path)
    store.swap(inserts(KEYS))
    store.close()
    return path


def tokens(store: Store, keys: Iterable[Key] = KEYS) -> set[str | None]:
    """Read who wrote these keys."""
    return {seen.entry.token if seen.entry else None for seen in store.get([*keys])}


def token(reply: Reply) -> str | None:
    """Read who wrote what a reply shows."""
    assert isinstance(reply, Seen)
    return reply.entry.token if reply.entry else None


def is_whole(path: Path) -> bool:
    """Say whether a file holds all three hundred entries, and SQLite finds nothing wrong with it."""
    store = SqliteStore(path, create=False)
    whole = store.query("PRAGMA integrity_check") == [("ok",)] and tokens(store) == {"ann"}
    store.close()
    return whole
