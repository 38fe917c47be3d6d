"""Every test of this folder is about MariaDB; where PyMySQL is missing none can run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from typing import Any

import pytest

pytest.importorskip("pymysql", reason="PyMySQL is not installed: it comes with the test servers")

from tests.servers.mariadb import connected
from tests.stores.mariadb.ledgers import Awaited, Blocking, at

Sql = Callable[..., list[tuple[Any, ...]]]


@pytest.fixture
def sql(mariadb_url: str) -> Iterator[Sql]:
    """Ask the database around the store; every statement commits by itself."""
    with connected(mariadb_url) as cursor:

        def ask(text: str, *args: object) -> list[tuple[Any, ...]]:
            cursor.execute(text, args or None)
            return list(cursor.fetchall())

        yield ask


@pytest.fixture(params=[Blocking, Awaited], ids=["blocking", "awaited"])
def opened(request: pytest.FixtureRequest) -> Iterator[Callable[..., Any]]:
    """Open stores in either colour; they are closed at the end."""
    with ExitStack() as stack:
        yield lambda url, **how: stack.enter_context(closing(request.param(url, **how)))


@pytest.fixture
def guest(mariadb_url: str, sql: Sql) -> Iterator[str]:
    """The URL of a user who may look into the database, and nothing else."""
    [[database]] = sql("SELECT DATABASE()")
    sql("CREATE OR REPLACE USER guest@'%' IDENTIFIED BY 'only-for-guests'")
    sql(f"GRANT SHOW VIEW ON {database}.* TO guest@'%'")
    yield at(mariadb_url, user="guest", password="only-for-guests")
    sql("DROP USER guest@'%'")
