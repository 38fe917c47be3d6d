"""Every test of this folder is about PostgreSQL and MariaDB alike; without a client its part is skipped."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from typing import Any

import pytest

from tests.servers.stores.callers import Caller, Site, Sql
from tests.servers.stores.relational.databases import DATABASES, Database, ledgers


@pytest.fixture(params=[pytest.param(name, marks=pytest.mark.store(name)) for name in DATABASES])
def database(request: pytest.FixtureRequest) -> Database:
    found = DATABASES[request.param]
    pytest.importorskip(
        found.library, reason=f"{found.library} is not installed: it comes with the test servers"
    )
    return found


@pytest.fixture
def url(database: Database, request: pytest.FixtureRequest) -> str:
    return database.watched(request.getfixturevalue(f"{database.name}_url"))


@pytest.fixture
def site(database: Database, request: pytest.FixtureRequest) -> Site:
    """The same place, for those who look at it from outside."""
    return Site(database.library, request.getfixturevalue(f"{database.name}_url"))


@pytest.fixture
def sql(site: Site) -> Iterator[Sql]:
    """Ask the database around the store; every statement commits by itself."""
    with site.sql() as ask:
        yield ask


@pytest.fixture
def other(site: Site) -> Iterator[Caller]:
    """Somebody else's connection, which commits when it is told to."""
    with site.caller(patient=True) as caller:
        yield caller


@pytest.fixture(params=["blocking", "awaited"])
def opened(request: pytest.FixtureRequest, database: Database) -> Iterator[Callable[..., Any]]:
    """Open stores in either colour; they are closed at the end."""
    colour = getattr(ledgers(database), request.param.capitalize())
    with ExitStack() as stack:
        yield lambda url, **how: stack.enter_context(closing(colour(url, **how)))
