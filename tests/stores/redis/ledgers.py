"""Ledgers on a Redis: keys, changes, and a look at what lies in the server itself."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, cast

import redis

from onefold.core.entry import Change, Entry, Reply, Seen
from onefold.core.key import Key
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


class Server:
    """The server itself, past the store: what lies in it, in plain text."""

    def __init__(self, url: str) -> None:
        self.redis: Any = redis.Redis.from_url(url, decode_responses=True)

    def __enter__(self) -> Any:
        return self.redis

    def __exit__(self, *raised: object) -> None:
        self.redis.close()


def names(client: Any) -> list[str]:
    """Name the keys of a ledger, without the mark of whoever lent the database."""
    return sorted(name for name in cast("list[str]", client.keys("*")) if name.startswith("{"))
