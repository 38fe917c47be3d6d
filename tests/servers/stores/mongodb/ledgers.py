"""Stores on a MongoDB by the clock of a test, and a look at what lies in the server itself.

The server's clock cannot be set, but every command binds it in one place: with the clock of a test bound
there instead, the store's own commands and clients do all the rest.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

import pymongo

from onefold.stores.mongodb.client import AsyncClient, Client
from onefold.stores.mongodb.plan import MongoPlan
from onefold.stores.shells import Awaited, Blocking
from onefold.testing.clock import FakeClock


def by_hand(clock: FakeClock) -> MongoPlan:
    return MongoPlan(lambda: {"$literal": clock()})


def timed(url: str, clock: FakeClock) -> Blocking:
    """Open a store by the clock of a test."""
    return Blocking(by_hand(clock), Client(url))


def timed_awaited(url: str, clock: FakeClock) -> Awaited:
    return Awaited(by_hand(clock), AsyncClient(url))


class Server:
    """The server itself, past the store: the database that a URL names."""

    def __init__(self, url: str) -> None:
        self._client: Any = pymongo.MongoClient(url)
        self._database = self._client[urlsplit(url).path.strip("/")]

    def __enter__(self) -> Any:
        return self._database

    def __exit__(self, *raised: object) -> None:
        self._client.close()
