"""Stores and ledgers on MariaDB in both colours behind one face, and words to look around them."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pymysql
import pytest

from onefold.core.errors import OnefoldError
from onefold.stores.mariadb import aconnect, connect
from onefold.stores.mariadb.plan import Statement
from onefold.stores.shells import Row
from tests.servers.fixtures import excuse
from tests.servers.mariadb import Mariadb
from tests.servers.server import Command, Launched, Missing, Program
from tests.stores import colours

PASSWORD = "only-for-tests"


class Blocking(colours.Blocking):
    def __init__(self, url: str, create: bool = True) -> None:
        super().__init__(connect(url, create))

    def ask(self, sql: str) -> list[Row]:
        [rows] = self.store.client.execute_many([Statement(sql)])
        return list(rows)


class Awaited(colours.Awaited):
    def __init__(self, url: str, create: bool = True) -> None:
        super().__init__(aconnect(url, create))

    def ask(self, sql: str) -> list[Row]:
        [rows] = self._runner.run(self.store.client.execute_many([Statement(sql)]))
        return list(rows)


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
