"""An echo server, and a proxy before it."""

from collections.abc import Iterator

import pytest

from onefold.testing.proxy import Proxy
from tests.servers.proxy.echo import Echo


@pytest.fixture
def echo() -> Iterator[Echo]:
    with Echo() as server:
        yield server


@pytest.fixture
def proxy(echo: Echo) -> Iterator[Proxy]:
    with Proxy("127.0.0.1", echo.port) as opened:
        yield opened
