"""Databases for the sinks that write tables."""

from collections.abc import Iterator

import pytest

from tests.databases import KINDS, Place, opened
from tests.sinks.tables import FLATS, LOG


@pytest.fixture(params=KINDS)
def place(request: pytest.FixtureRequest, tmp_path) -> Iterator[Place]:
    """A user's database with two tables in it, and a ledger."""
    for one in opened(request.param, request, tmp_path):
        one.run(FLATS)
        one.run(LOG)
        yield one
