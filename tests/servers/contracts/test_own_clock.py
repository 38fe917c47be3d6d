"""Stores whose server has a clock keep the contract as they are used: by that clock, in a place they made.

One table for all of them. Nobody can set the clock of a server, so real time passes here.
"""

from pathlib import Path

import pytest

from onefold.core.ports import AsyncStore, Store
from onefold.stores import aconnect, connect
from onefold.testing.contract import FakeClock, StoreContract

CLIENTS = {"postgresql": "psycopg", "mariadb": "pymysql", "redis": "redis", "mongodb": "pymongo"}


@pytest.fixture(params=[pytest.param(name, marks=pytest.mark.store(name)) for name in CLIENTS])
def url(request: pytest.FixtureRequest) -> str:
    client = CLIENTS[request.param]
    pytest.importorskip(client, reason=f"{client} is not installed: it comes with the test servers")
    return str(request.getfixturevalue(f"{request.param}_url"))


class ByItsOwnClock(StoreContract):
    own_clock = True
    url: str

    @pytest.fixture(autouse=True)
    def somewhere(self, url: str) -> None:
        self.url = url


@pytest.mark.slow
class TestBlocking(ByItsOwnClock):
    def open(self, folder: Path, clock: FakeClock) -> Store:
        return connect(self.url)

    reopen = open


class TestAwaited(ByItsOwnClock):
    def open(self, folder: Path, clock: FakeClock) -> AsyncStore:
        return aconnect(self.url)

    reopen = open
