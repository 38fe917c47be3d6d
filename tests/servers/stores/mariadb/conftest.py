"""Every test of this folder is about MariaDB; where PyMySQL is missing none can run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

pytest.importorskip("pymysql", reason="PyMySQL is not installed: it comes with the test servers")

from tests.launchers.mariadb import connected
from tests.servers.stores.colours import opened_in
from tests.servers.stores.mariadb.ledgers import Awaited, Blocking

Sql = Callable[..., list[tuple[Any, ...]]]


@pytest.fixture
def sql(mariadb_url: str) -> Iterator[Sql]:
    """Ask the database around the store; every statement commits by itself."""
    with connected(mariadb_url) as cursor:

        def ask(text: str, *args: object) -> list[tuple[Any, ...]]:
            cursor.execute(text, args or None)
            return list(cursor.fetchall())

        yield ask


opened = opened_in(Blocking, Awaited)
