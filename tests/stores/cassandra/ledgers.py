"""Ledgers on a Cassandra: keys, changes, and a look at what lies in the tables themselves."""

from collections.abc import Iterable
from typing import Any

from onefold.core.entry import Change, Entry, Reply, Seen
from onefold.core.key import Key
from onefold.stores.shells import Blocking
from onefold.testing.contract.words import entry, in_order

NEW = Key("orders", "new")


def keys(count: int, scope: str = "orders") -> list[Key]:
    return sorted((Key(scope, number) for number in range(count)), key=lambda key: key.id)


def claims(names: Iterable[Key], token: str = "ann", **fields: Any) -> list[Change]:
    """Ask for claims under these keys."""
    return in_order(Change(name, None, entry("held", token, label=name.label, **fields)) for name in names)


def stored(reply: Reply) -> Entry:
    """Read what a reply shows, where something must be stored."""
    assert isinstance(reply, Seen), reply
    assert reply.entry is not None
    return reply.entry


def tokens(replies: Iterable[Reply]) -> list[str | None]:
    """Read who wrote what replies show."""
    return [reply.entry.token if isinstance(reply, Seen) and reply.entry else None for reply in replies]


def with_option(url: str, option: str) -> str:
    return f"{url}{'&' if '?' in url else '?'}{option}"


def lying(store: Blocking, table: str) -> list[dict[str, Any]]:
    """Read what lies in one of a ledger's tables."""
    rows: list[dict[str, Any]] = store.client.query(f"SELECT * FROM {store.client.address.table(table)}")
    return rows
