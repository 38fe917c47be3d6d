"""Cassandra keeps the contract of stores, on a real node, in both colours.

Cassandra has no clock that conditions could read, so the worker's is the store's, and the tests give it
theirs. One pair of tables serves all of them, emptied in between, because making them takes longer than most
promises.
"""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from onefold.core.ports import AsyncStore, Store
from onefold.testing.contract import FakeClock, StoreContract
from onefold.testing.model import compare
from tests.launchers.cassandra import session
from tests.launchers.server import Server

pytest.importorskip("cassandra", reason="cassandra-driver is not installed: it comes with the test servers")

from onefold.core.key import Key
from onefold.stores.cassandra import aconnect, connect
from onefold.stores.cassandra.address import MAX_SKEW, address

pytestmark = pytest.mark.store("cassandra")


class Tables:
    """Tables of the tests' own."""

    def __init__(self, url: str, session: Any) -> None:
        self.url = url
        self._session = session
        with closing(connect(url)) as store:
            store.get([Key("made", "at first use")])

    def empty(self) -> str:
        """Remove everything, tombstones too: times start anew in every test. Return the URL."""
        for table in ("entries", "open"):
            name = address(self.url).table(table)
            if self._session.execute(f"SELECT * FROM {name} LIMIT 1").one() or table == "open":
                self._session.execute(f"TRUNCATE {name}")
        return self.url


@pytest.fixture(scope="module")
def tables(cassandra_server: Server) -> Iterator[Tables]:
    with cassandra_server.place() as url, session(url) as opened:
        yield Tables(f"{url}{'&' if '?' in url else '?'}timeout=60", opened)


class OnCassandra(StoreContract):
    tables: Tables
    max_skew = MAX_SKEW

    @pytest.fixture(autouse=True)
    def somewhere(self, tables: Tables) -> None:
        self.tables = tables


@pytest.mark.slow  # every day awaited, as workers use it
class TestCassandra(OnCassandra):
    name = "cassandra"

    def open(self, folder: Path, clock: FakeClock) -> Store:
        return connect(self.tables.empty(), clock=clock)

    def reopen(self, folder: Path, clock: FakeClock) -> Store:
        return connect(self.tables.url, clock=clock)


class TestCassandraAwaited(OnCassandra):
    name = "cassandra"

    def open(self, folder: Path, clock: FakeClock) -> AsyncStore:
        return aconnect(self.tables.empty(), clock=clock)

    def reopen(self, folder: Path, clock: FakeClock) -> AsyncStore:
        return aconnect(self.tables.url, clock=clock)


@pytest.mark.parametrize("open_", [connect, pytest.param(aconnect, marks=pytest.mark.slow)])
def test_cassandra_replies_as_memory_does(tables: Tables, open_: Any):
    def fresh(folder: Path, clock: FakeClock) -> Store | AsyncStore:
        opened: Store | AsyncStore = open_(f"{tables.empty()}&max_skew=0", clock=clock)
        return opened

    compare(fresh, examples=10, steps=15)
