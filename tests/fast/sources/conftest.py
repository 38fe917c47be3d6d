"""Stand-ins of sites for the tests of sources."""

from collections.abc import Iterator

import pytest

from onefold.stores.memory import MemoryStore
from onefold.worlds.site import Site


@pytest.fixture
def site() -> Iterator[Site]:
    """A site without routes; a test adds its own."""
    with Site({}) as site:
        yield site


@pytest.fixture
def memory() -> MemoryStore:
    return MemoryStore()
