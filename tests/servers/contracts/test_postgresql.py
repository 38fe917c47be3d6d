"""PostgreSQL keeps the contract of stores, on a real server, in both colours, by a clock that tests set.

The server's clock cannot be set, but a function of the same name can stand before it on the search path; the
store then reads the clock of the test, so that no time need pass and the model can be compared.
"""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from onefold.core.entry import Change, Reply, Seen, State
from onefold.core.flow import Found
from onefold.core.key import Key
from onefold.core.ports import AsyncStore, Store
from onefold.stores import aconnect, connect, join
from onefold.testing.contract import FakeClock, StoreContract
from onefold.testing.model import compare
from tests.launchers.server import Server

psycopg = pytest.importorskip("psycopg", reason="psycopg is not installed: it comes with the test servers")

pytestmark = pytest.mark.store("postgresql")

HANDS = """
CREATE TABLE hands (now float8);
INSERT INTO hands VALUES (0);
CREATE FUNCTION clock_timestamp() RETURNS timestamptz LANGUAGE sql VOLATILE
    AS 'SELECT to_timestamp(now) FROM hands';
"""


class Place:
    """A schema with a clock that can be set; the ledger in it is emptied for every test."""

    def __init__(self, url: str) -> None:
        self.url = f"{url}%2Cpg_catalog%20-csynchronous_commit%3Doff"
        self._connection = psycopg.connect(self.url, autocommit=True)
        self._connection.execute(HANDS)
        with closing(connect(self.url)) as ledger:
            ledger.get([])

    def begin(self, clock: FakeClock) -> None:
        self._connection.execute("DELETE FROM onefold_entries")
        self._clock = clock

    def set(self) -> None:
        self._connection.execute("UPDATE hands SET now = %s", [self._clock()])

    def close(self) -> None:
        self._connection.close()


class Timed:
    """A blocking store by the clock of a test."""

    def __init__(self, place: Place, store: Store) -> None:
        self._place = place
        self._store = store

    def get(self, keys: Sequence[Key]) -> Sequence[Seen]:
        self._place.set()
        return self._store.get(keys)

    def swap(self, changes: Sequence[Change]) -> Sequence[Reply]:
        self._place.set()
        return self._store.swap(changes)

    def scan(
        self, scope: str | None, states: Sequence[State], due: bool, after: str | None, limit: int
    ) -> tuple[Sequence[Found], str | None]:
        self._place.set()
        return self._store.scan(scope, states, due, after, limit)

    def close(self) -> None:
        self._store.close()


class TimedAwaited:
    """The same, awaited."""

    def __init__(self, place: Place, store: AsyncStore) -> None:
        self._place = place
        self._store = store

    async def get(self, keys: Sequence[Key]) -> Sequence[Seen]:
        self._place.set()
        return await self._store.get(keys)

    async def swap(self, changes: Sequence[Change]) -> Sequence[Reply]:
        self._place.set()
        return await self._store.swap(changes)

    async def scan(
        self, scope: str | None, states: Sequence[State], due: bool, after: str | None, limit: int
    ) -> tuple[Sequence[Found], str | None]:
        self._place.set()
        return await self._store.scan(scope, states, due, after, limit)

    async def close(self) -> None:
        await self._store.close()


# ----- the contract


@pytest.fixture(scope="module")
def place(postgresql_server: Server) -> Iterator[Place]:
    with postgresql_server.place() as url, closing(Place(url)) as place:
        yield place


class OnPostgresql(StoreContract):
    place: Place
    closing: ExitStack

    @pytest.fixture(autouse=True)
    def somewhere(self, place: Place) -> Iterator[None]:
        self.place = place
        with ExitStack() as self.closing:
            yield


class TestPostgresql(OnPostgresql):
    name = "postgresql"

    def open(self, folder: Path, clock: FakeClock) -> Store:
        self.place.begin(clock)
        return self.reopen(folder, clock)

    def reopen(self, folder: Path, clock: FakeClock) -> Store:
        return Timed(self.place, connect(self.place.url))


@pytest.mark.slow  # every day by the server's own clock, with the others
class TestPostgresqlAwaited(OnPostgresql):
    name = "postgresql"

    def open(self, folder: Path, clock: FakeClock) -> AsyncStore:
        self.place.begin(clock)
        return self.reopen(folder, clock)

    def reopen(self, folder: Path, clock: FakeClock) -> AsyncStore:
        return TimedAwaited(self.place, aconnect(self.place.url))


class TestJoinedToPsycopg(OnPostgresql):
    """Inside a caller's transaction, which belongs to one thread and ends with its connection."""

    name = "postgresql"
    shared = False

    def open(self, folder: Path, clock: FakeClock) -> Store:
        self.place.begin(clock)
        connection = psycopg.connect(self.place.url)
        self.closing.callback(connection.close)
        return Timed(self.place, join(connection))


# ----- the model


def test_postgresql_replies_as_memory_does(place):
    def open_(folder: Path, clock: FakeClock) -> Store:
        place.begin(clock)
        return Timed(place, connect(place.url))

    compare(open_)


@pytest.mark.slow
def test_postgresql_replies_as_memory_does_awaited(place):
    def open_(folder: Path, clock: FakeClock) -> AsyncStore:
        place.begin(clock)
        return TimedAwaited(place, aconnect(place.url))

    compare(open_)
