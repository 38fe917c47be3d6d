"""Stores and ledgers on MariaDB in both colours behind one face, and words to look around them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pymysql

from onefold.stores.mariadb import aconnect, connect
from onefold.stores.mariadb.plan import Statement
from tests.launchers.fixtures import excuse
from tests.launchers.mariadb import Mariadb
from tests.launchers.server import Command, Launched, Missing, Program
from tests.servers.stores import colours


class Blocking(colours.Blocking):
    statement = Statement

    def __init__(self, url: str, create: bool = True) -> None:
        super().__init__(connect(url, create))


class Awaited(colours.Awaited):
    statement = Statement

    def __init__(self, url: str, create: bool = True) -> None:
        super().__init__(aconnect(url, create))


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
