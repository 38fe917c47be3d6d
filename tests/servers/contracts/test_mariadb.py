"""MariaDB keeps the contract of stores, on a real server, in both colours, by a clock that tests set."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from onefold.core.ports import AsyncStore, Store
from onefold.testing.contract import FakeClock, StoreContract
from onefold.testing.model import compare
from tests.launchers.server import Server

pytest.importorskip("pymysql", reason="PyMySQL is not installed: it comes with the test servers")

from tests.servers.stores.mariadb.hands import Place, TimedJoined, timed, timed_awaited

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


@pytest.mark.slow  # every day by the server's own clock, with the others
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


def test_mariadb_replies_as_memory_does(place: Place):
    compare(lambda folder, clock: timed(place.empty(), clock))


@pytest.mark.slow
def test_mariadb_replies_as_memory_does_awaited(place: Place):
    compare(lambda folder, clock: timed_awaited(place.empty(), clock))
