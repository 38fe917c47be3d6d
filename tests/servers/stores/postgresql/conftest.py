"""Every test of this folder is about PostgreSQL; where psycopg is missing none can run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import pytest

pytest.importorskip("psycopg", reason="psycopg is not installed: it comes with the test servers")

import psycopg

from tests.servers.stores.callers import SERVERS, Site
from tests.servers.stores.colours import opened_in
from tests.servers.stores.postgresql.ledgers import Awaited, Blocking, Caller, option

Sql = Callable[..., list[tuple[Any, ...]]]


@pytest.fixture
def sql(postgresql_url: str) -> Iterator[Sql]:
    """Ask the database around the store; every statement commits by itself."""
    with closing(psycopg.connect(postgresql_url, autocommit=True)) as connection:
        yield lambda text, *args: _rows(connection.execute(text, args or None))


def _rows(cursor: Any) -> list[tuple[Any, ...]]:
    return cursor.fetchall() if cursor.description else []


opened = opened_in(Blocking, Awaited)


# ----- callers who join


@pytest.fixture(params=[library for library, server in SERVERS.items() if server == "postgresql"])
def caller(request: pytest.FixtureRequest, postgresql_url: str, sql) -> Iterator[Caller]:
    """Lend a connection that waits for locks only for a moment."""
    sql("CREATE TABLE flats (n int)")
    with Site(request.param, postgresql_url).caller() as caller:
        yield caller


@pytest.fixture
def flats(sql) -> Callable[[], list[int]]:
    """Read what was committed, from outside."""
    return lambda: [n for (n,) in sql("SELECT n FROM flats ORDER BY n")]


@pytest.fixture
def other(postgresql_url: str) -> Iterator[psycopg.Connection]:
    """Another worker's connection."""
    with closing(psycopg.connect(option(postgresql_url, lock_timeout="60ms"))) as connection:
        yield connection
