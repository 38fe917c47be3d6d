"""MariaDB stores that go by the clock of a test.

A session of MariaDB can be told what time it is; everything else is the store's own.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from typing import Any

import pymysql

from onefold.core.entry import Change, Reply, Seen, State
from onefold.core.flow import Found
from onefold.core.key import Key
from onefold.stores.mariadb.address import address
from onefold.stores.mariadb.client import AsyncClient, Client
from onefold.stores.mariadb.joined import JoinedStore, adapt
from onefold.stores.mariadb.plan import MariaPlan, Statement
from onefold.stores.shells import Awaited, Blocking, Row
from onefold.testing.clock import FakeClock
from tests.launchers.mariadb import connected


def hands(clock: FakeClock) -> Statement:
    """Tell a session what time it is."""
    return Statement(f"SET timestamp = {clock():.6f}")


class TimedClient(Client):
    """A connection that sets the clock of its session before every call."""

    clock: FakeClock

    def execute_many(self, statements: Sequence[Statement]) -> list[list[Row]]:
        return super().execute_many([hands(self.clock), *statements])[1:]


class TimedAsyncClient(AsyncClient):
    """The same, awaited."""

    clock: FakeClock

    async def execute_many(self, statements: Sequence[Statement]) -> list[list[Row]]:
        return (await super().execute_many([hands(self.clock), *statements]))[1:]


def timed(url: str, clock: FakeClock) -> Blocking:
    """Open a store by the clock of a test."""
    client = TimedClient(url)
    client.clock = clock
    return Blocking(MariaPlan(), client)


def timed_awaited(url: str, clock: FakeClock) -> Awaited:
    client = TimedAsyncClient(url)
    client.clock = clock
    return Awaited(MariaPlan(), client)


class TimedJoined(JoinedStore):
    """A store on a caller's connection, whose session hears the time before every call."""

    def __init__(self, connection: Any, clock: FakeClock) -> None:
        super().__init__(adapt(connection))
        self._hands = lambda: connection.query(hands(clock).sql)

    def get(self, keys: Sequence[Key]) -> Sequence[Seen]:
        self._hands()
        return super().get(keys)

    def swap(self, changes: Sequence[Change]) -> Sequence[Reply]:
        self._hands()
        return super().swap(changes)

    def scan(
        self, scope: str | None, states: Sequence[State], due: bool, after: str | None, limit: int
    ) -> tuple[Sequence[Found], str | None]:
        self._hands()
        return super().scan(scope, states, due, after, limit)


class Place:
    """A database whose ledger is emptied for every test."""

    def __init__(self, url: str) -> None:
        self.url = url
        with closing(Client(url)) as client:
            client.execute_many([Statement("DO 0")])

    def empty(self) -> str:
        with connected(self.url) as cursor:
            cursor.execute("DELETE FROM onefold_entries")
        return self.url

    def connection(self) -> Any:
        """Open a caller's connection, as its library does by default."""
        at = address(self.url)
        return pymysql.connect(**at.settings, database=at.database)
