"""Every test of this folder is about PostgreSQL; where psycopg is missing none can run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from typing import Any

import pytest

pytest.importorskip("psycopg", reason="psycopg is not installed: it comes with the test servers")

import psycopg
import sqlalchemy

from tests.servers.server import Server
from tests.stores.postgresql.ledgers import Awaited, Blocking, Caller, option

Sql = Callable[..., list[tuple[Any, ...]]]


@pytest.fixture
def sql(postgresql_url: str) -> Iterator[Sql]:
    """Ask the database around the store; every statement commits by itself."""
    with closing(psycopg.connect(postgresql_url, autocommit=True)) as connection:
        yield lambda text, *args: _rows(connection.execute(text, args or None))


def _rows(cursor: Any) -> list[tuple[Any, ...]]:
    return cursor.fetchall() if cursor.description else []


@pytest.fixture(params=[Blocking, Awaited], ids=["blocking", "awaited"])
def opened(request: pytest.FixtureRequest) -> Iterator[Callable[..., Any]]:
    """Open stores in either colour; they are closed at the end."""
    with ExitStack() as stack:
        yield lambda url, **how: stack.enter_context(closing(request.param(url, **how)))


@pytest.fixture
def guest(postgresql_server: Server, postgresql_url: str, sql: Sql) -> Iterator[str]:
    """The URL of a user who may look into the schema, and nothing else."""
    schema, user = sql("SELECT current_schema()")[0][0], "guest_of_onefold"
    sql(f"DROP ROLE IF EXISTS {user}")
    sql(f"CREATE ROLE {user} LOGIN PASSWORD 'only-for-guests'")
    sql(f"GRANT USAGE ON SCHEMA {schema} TO {user}")
    yield postgresql_url.replace("postgres:only-for-tests@", f"{user}:only-for-guests@")
    sql(f"DROP OWNED BY {user}")
    sql(f"DROP ROLE {user}")


# ----- callers who join


@pytest.fixture(params=["psycopg", "sqlalchemy"])
def caller(request: pytest.FixtureRequest, postgresql_url: str, sql) -> Iterator[Caller]:
    """Lend a connection that waits for locks only for a moment."""
    sql("CREATE TABLE flats (n int)")
    url = option(postgresql_url, lock_timeout="60ms")
    with ExitStack() as stack:
        if request.param == "psycopg":
            connection: Any = stack.enter_context(closing(psycopg.connect(url)))
            yield Caller(connection, connection.execute)
        else:
            engine = sqlalchemy.create_engine(url.replace("postgresql:", "postgresql+psycopg:"))
            stack.callback(engine.dispose)
            connection = stack.enter_context(engine.connect())
            yield Caller(connection, connection.exec_driver_sql)


@pytest.fixture
def flats(sql) -> Callable[[], list[int]]:
    """Read what was committed, from outside."""
    return lambda: [n for (n,) in sql("SELECT n FROM flats ORDER BY n")]


@pytest.fixture
def other(postgresql_url: str) -> Iterator[psycopg.Connection]:
    """Another worker's connection."""
    with closing(psycopg.connect(option(postgresql_url, lock_timeout="60ms"))) as connection:
        yield connection
