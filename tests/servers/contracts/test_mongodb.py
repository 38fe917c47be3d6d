"""MongoDB keeps the contract of stores, on a real engine, in both colours, by a clock that tests set."""

from pathlib import Path

import pytest

from onefold.core.ports import AsyncStore, Store
from onefold.testing.contract import FakeClock, StoreContract
from onefold.testing.model import compare

pytest.importorskip("pymongo", reason="pymongo is not installed: it comes with the test servers")

from tests.servers.stores.mongodb.ledgers import Server, timed, timed_awaited

pytestmark = pytest.mark.store("mongodb")


class OnMongodb(StoreContract):
    url: str

    @pytest.fixture(autouse=True)
    def somewhere(self, mongodb_url: str) -> None:
        self.url = mongodb_url


class TestMongodb(OnMongodb):
    name = "mongodb"

    def open(self, folder: Path, clock: FakeClock) -> Store:
        return timed(self.url, clock)

    reopen = open


@pytest.mark.slow  # every day by the server's own clock, with the others
class TestMongodbAwaited(OnMongodb):
    name = "mongodb"

    def open(self, folder: Path, clock: FakeClock) -> AsyncStore:
        return timed_awaited(self.url, clock)

    reopen = open


def emptied(url: str) -> str:
    """Remove all entries: quicker than a new database for every history."""
    with Server(url) as database:
        database.onefold_entries.delete_many({})
    return url


def test_mongodb_replies_as_memory_does(mongodb_url: str):
    compare(lambda folder, clock: timed(emptied(mongodb_url), clock))


@pytest.mark.slow
def test_mongodb_replies_as_memory_does_awaited(mongodb_url: str):
    compare(lambda folder, clock: timed_awaited(emptied(mongodb_url), clock))
