"""Ledgers on a MongoDB: stores by the clock of a test, changes, and a look at what lies in the server itself.

The server's clock cannot be set, but every command binds it in one place: with the clock of a test bound
there instead, the store's own commands and clients do all the rest.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any
from urllib.parse import urlsplit

import pymongo

from onefold.core.entry import Change, Entry, Reply, Seen
from onefold.core.key import Key
from onefold.stores.mongodb.client import AsyncClient, Client
from onefold.stores.mongodb.plan import MongoPlan
from onefold.stores.shells import Awaited, Blocking
from onefold.testing.clock import FakeClock
from onefold.testing.contract.words import entry, in_order

NEW = Key("orders", "new")


def by_hand(clock: FakeClock) -> MongoPlan:
    return MongoPlan(lambda: {"$literal": clock()})


def timed(url: str, clock: FakeClock) -> Blocking:
    """Open a store by the clock of a test."""
    return Blocking(by_hand(clock), Client(url))


def timed_awaited(url: str, clock: FakeClock) -> Awaited:
    return Awaited(by_hand(clock), AsyncClient(url))


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
    """The server itself, past the store: the database that a URL names."""

    def __init__(self, url: str) -> None:
        self._client: Any = pymongo.MongoClient(url)
        self._database = self._client[urlsplit(url).path.strip("/")]

    def __enter__(self) -> Any:
        return self._database

    def __exit__(self, *raised: object) -> None:
        self._client.close()
