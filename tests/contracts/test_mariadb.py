"""MariaDB keeps the contract of stores, on a real server, in both colours and by two clocks."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from onefold.core.ports import AsyncStore, Store
from onefold.testing.contract import FakeClock, StoreContract
from onefold.testing.model import compare
from tests.servers.server import Server

pytest.importorskip("pymysql", reason="PyMySQL is not installed: it comes with the test servers")

from onefold.stores import aconnect, connect
from tests.stores.mariadb.hands import Place, TimedJoined, timed, timed_awaited

pytestmark = pytest.mark.store("mariadb")


@pytest.fixture(scope="module")
def place(mariadb_server: Server) -> Iterator[Place]:
    with mariadb_server.place() as url:
        yield Place(url)


class OnMariadb(StoreContract):
    place: Place
    closing: ExitStack

    @pytest.fixture(autouse=True)
    def somewhere(self, place: Place) -> Iterator[None]:
        self.place = place
        with ExitStack() as self.closing:
            yield


class TestMariadb(OnMariadb):
    name = "mariadb"

    def open(self, folder: Path, clock: FakeClock) -> Store:
        return timed(self.place.empty(), clock)

    def reopen(self, folder: Path, clock: FakeClock) -> Store:
        return timed(self.place.url, clock)


class TestMariadbAwaited(OnMariadb):
    name = "mariadb"

    def open(self, folder: Path, clock: FakeClock) -> AsyncStore:
        return timed_awaited(self.place.empty(), clock)

    def reopen(self, folder: Path, clock: FakeClock) -> AsyncStore:
        return timed_awaited(self.place.url, clock)


class TestJoinedToPymysql(OnMariadb):
    """Inside a caller's transaction, which belongs to one thread and ends with its connection."""

    name = "mariadb"
    shared = False

    def open(self, folder: Path, clock: FakeClock) -> Store:
        self.place.empty()
        connection = self.place.connection()
        self.closing.callback(connection.close)
        return TimedJoined(connection, clock)


class ByItsOwnClock(StoreContract):
    """As it is used: with the server's clock, in a place that is made by the store itself."""

    own_clock = True
    url: str

    @pytest.fixture(autouse=True)
    def somewhere(self, mariadb_url: str) -> None:
        self.url = mariadb_url


class TestMariadbByItsOwnClock(ByItsOwnClock):
    name = "mariadb"

    def open(self, folder: Path, clock: FakeClock) -> Store:
        return connect(self.url)

    reopen = open


@pytest.mark.slow
class TestMariadbByItsOwnClockAwaited(ByItsOwnClock):
    name = "mariadb"

    def open(self, folder: Path, clock: FakeClock) -> AsyncStore:
        return aconnect(self.url)

    reopen = open


def test_mariadb_replies_as_memory_does(place: Place):
    compare(lambda folder, clock: timed(place.empty(), clock))


def test_mariadb_replies_as_memory_does_awaited(place: Place):
    compare(lambda folder, clock: timed_awaited(place.empty(), clock))
