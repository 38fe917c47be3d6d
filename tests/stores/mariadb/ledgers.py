"""Stores and ledgers on MariaDB in both colours behind one face, and words to look around them."""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pymysql
import pytest

from onefold import AsyncLedger, Key, Ledger
from onefold.core.entry import Change, Entry, Reply, Seen
from onefold.core.errors import OnefoldError
from onefold.stores.mariadb import aconnect, connect
from onefold.stores.mariadb.plan import Statement
from onefold.stores.shells import Row
from tests.servers.fixtures import OwnServer, excuse
from tests.servers.mariadb import Mariadb
from tests.servers.server import Command, Launched, Missing, Program

PASSWORD = "only-for-tests"


class Blocking:
    """The blocking store and door."""

    def __init__(self, url: str, create: bool = True) -> None:
        self.store = connect(url, create)
        self.ledger = Ledger(self.store)

    def swap(self, changes: Sequence[Change]) -> Sequence[Reply]:
        return self.store.swap(changes)

    def get(self, keys: Sequence[Key]) -> Sequence[Seen]:
        return self.store.get(keys)

    def call(self, key: Key, value: object = None, **how: Any) -> str:
        return self.ledger.call(key, lambda: value, **how).state

    def ask(self, sql: str) -> list[Row]:
        [rows] = self.store.client.execute_many([Statement(sql)])
        return list(rows)

    def close(self) -> None:
        self.store.close()


class Awaited:
    """The awaited ones, on an event loop of their own."""

    def __init__(self, url: str, create: bool = True) -> None:
        self._runner = asyncio.Runner()
        self.store = aconnect(url, create)
        self.ledger = AsyncLedger(self.store)

    def swap(self, changes: Sequence[Change]) -> Sequence[Reply]:
        return self._runner.run(self._await(self.store.swap(changes)))

    def get(self, keys: Sequence[Key]) -> Sequence[Seen]:
        return self._runner.run(self._await(self.store.get(keys)))

    def call(self, key: Key, value: object = None, **how: Any) -> str:
        async def effect() -> object:
            return value

        return self._runner.run(self.ledger.call(key, effect, **how)).state

    def ask(self, sql: str) -> list[Row]:
        [rows] = self._runner.run(self._await(self.store.client.execute_many([Statement(sql)])))
        return list(rows)

    async def _await(self, what: Any) -> Any:
        return await what

    def close(self) -> None:
        self._runner.run(self._await(self.store.close()))
        self._runner.close()


def dialled(url: str, **how: Any) -> Any:
    """Open a connection of one's own, as its library does by default."""
    whole = urlsplit(url)
    return pymysql.connect(
        host=whole.hostname,
        port=whole.port or 3306,
        user=whole.username,
        password=whole.password or "",
        database=whole.path.strip("/"),
        **how,
    )


def at(url: str, **parts: str) -> str:
    """Change a URL: another port, user, password or database."""
    whole = urlsplit(url)
    user, password = parts.get("user", whole.username), parts.get("password", whole.password)
    where = f"{user}:{password}@{whole.hostname}:{parts.get('port', whole.port)}"
    return whole._replace(netloc=where, path=parts.get("path", whole.path)).geturl()


def inserts(keys: Iterable[Key], **fields: Any) -> list[Change]:
    """Claim keys, in the order that a store wants."""
    wanted = Entry("held", token="ann", lease=60.0, **fields)
    return [Change(key, None, wanted) for key in sorted(keys, key=lambda key: key.id)]


def token(reply: Reply) -> str | None:
    """Say whose write stands."""
    assert isinstance(reply, Seen)
    return reply.entry.token if reply.entry else None


def launched(own_server: OwnServer) -> Launched:
    """Return a server that only this test has, and may do anything to."""
    server = own_server("mariadb")
    if not isinstance(server, Launched):
        pytest.skip("only a server of our own is stopped, changed or filled")
    return server


def told(error: BaseException) -> str:
    """Return all that a traceback of an error shows."""
    return "".join(traceback.format_exception(error))


def refused(attempt: Callable[[], object], kind: type[OnefoldError]) -> str:
    """Return the sentence with which something was refused; it keeps the secrets, also in a traceback."""
    with pytest.raises(kind) as raised:
        attempt()
    assert raised.value.ran == "no"
    assert PASSWORD not in told(raised.value)
    assert "only-for-guests" not in told(raised.value)
    return str(raised.value)


class _Tuned:
    """A server's parts, started with settings of a test's own."""

    def __init__(self, parts: Program, settings: Sequence[str]) -> None:
        self.origin, self.prepare = parts.origin, parts.prepare
        self._parts, self._settings = parts, settings

    def command(self, folder: Path, port: int) -> Command:
        plain = self._parts.command(folder, port)
        return replace(plain, args=[*plain.args, *self._settings])


@contextmanager
def tuned(*settings: str) -> Iterator[Launched]:
    """Start a server that only this test has, with these settings."""
    recipe = Mariadb()
    try:
        server = Launched(recipe, _Tuned(recipe.locate(), settings))
    except Missing as missing:
        excuse(f"mariadb: {missing}")
    try:
        server.start()
        yield server
    finally:
        server.close()
