"""What holds for every fast test: virtual time, a network in memory, and nothing outside of this process."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import suppress

import pytest

from tests.fast.outside import guarded, reporting
from tests.fast.virtual import TestLoop, virtual
from tests.launchers.recipes import RECIPES

with suppress(ImportError):
    # On its first import, the library of hashes starts the program `file`. No test may do that.
    import Crypto.Hash.keccak  # noqa: F401
with suppress(ImportError):
    # On its first import, the HTTP library of boto3 binds a socket.
    import urllib3  # noqa: F401

SERVERS = {
    "own_server",
    "guarded_cassandra",
    *(f"{name}_{what}" for name in RECIPES for what in ("server", "url")),
}
"""The fixtures that start a server."""


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item: pytest.Item) -> Generator[None, object, object]:
    """Fail a test that asks for a server, before the server starts."""
    if asked := sorted(SERVERS.intersection(getattr(item, "fixturenames", ()))):
        pytest.fail(f"tests/fast: this test asks for {asked[0]}; it belongs to tests/servers", pytrace=False)
    with reporting():
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call() -> Generator[None, object, object]:
    """Fail a test that left the tier, even if it caught the error."""
    with reporting():
        return (yield)


@pytest.fixture(autouse=True)
def loop() -> Iterator[TestLoop]:
    """The one event loop of this test."""
    with guarded(), virtual() as loop:
        yield loop
