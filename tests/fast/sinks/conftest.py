"""Databases for the sinks that write tables."""

from collections.abc import Iterator

import pytest

from tests.databases import SQLITE, Place, opened
from tests.fast.sinks.tables import make_tables


@pytest.fixture(params=[SQLITE])
def place(request: pytest.FixtureRequest, tmp_path) -> Iterator[Place]:
    """A user's database with two tables in it, and a ledger."""
    for one in opened(request, tmp_path):
        make_tables(one)
        yield one
