"""Databases for the sinks that write tables."""

from collections.abc import Iterator

import pytest

from tests.databases import KINDS, Place, opened


@pytest.fixture(params=KINDS)
def place(request: pytest.FixtureRequest, tmp_path) -> Iterator[Place]:
    yield from opened(request.param, request, tmp_path)
