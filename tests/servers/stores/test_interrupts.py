"""An exception of a signal, at any line: the next call works, and what is stored is what happened.

The stores on servers, from our own lines down into their drivers. The file's own tests are SQLite's.
"""

import gc
import importlib.util
import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, suppress
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

import psycopg
import pytest

import onefold.stores
from onefold import Key, Ledger
from onefold.core.entry import Change
from onefold.tables.mariadb import DRIVER as MARIADB
from onefold.testing.contract.words import entry, in_order
from tests.databases import Place
from tests.interrupts import Strike
from tests.servers.stores.words import claims, keys, stored, tokens
from tests.waiting import wait_for

slow = pytest.mark.slow
many_seconds = pytest.mark.timeout(900)

# Objects of a driver that were struck while they were made complain when they are thrown away.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")

OURS = Path(onefold.stores.__file__).parent


@pytest.fixture(autouse=True)
def collected() -> Iterator[None]:
    """Throw struck objects away here, so that they do not complain in the test that comes next."""
    yield
    gc.collect()


class Store(NamedTuple):
    """A store on a server."""

    name: str
    drivers: Sequence[str]
    """Packages whose lines are struck, too."""
    steps: tuple[int, int, int]
    """Of so many lines one is struck: of our own, of our own while connecting, of the driver's too.

    A line costs a few calls and a new connection. With --slow, every line of our own is struck."""


# MongoDB, DynamoDB and Cassandra are not among them: their drivers run in a thread that no signal strikes.
STORES = [
    Store("postgresql", ["psycopg"], (1, 7, 11)),
    Store("mariadb", ["pymysql"], (1, 7, 11)),
    Store("redis", ["redis"], (1, 7, 11)),
]


@pytest.fixture(
    params=[pytest.param(store, marks=pytest.mark.store(store.name), id=store.name) for store in STORES]
)
def store(request: pytest.FixtureRequest) -> Store:
    return request.param  # type: ignore[no-any-return]


@pytest.fixture
def ledger(store: Store, request: pytest.FixtureRequest) -> Iterator[Ledger]:
    with closing(Ledger(request.getfixturevalue(f"{store.name}_url"))) as opened:
        yield opened


def folders(packages: Sequence[str]) -> list[Path]:
    found = [importlib.util.find_spec(package) for package in packages]
    return [Path(spec.origin).parent for spec in found if spec and spec.origin]


class Orders:
    """Calls that are interrupted one line later each time, and what came of them."""

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger
        self.ran: list[str] = []

    def call(self, name: str) -> str:
        return self.ledger.call(Key("orders", name), lambda: self.ran.append(name)).state

    def strike_all(
        self, where: Sequence[Path], step: int, before: Callable[[], object], again: int = 0
    ) -> int:
        """Strike a new call at every line, until one finishes; return how often that was."""
        for at in count(1, step):
            name = f"{at} and {again}"
            self.call(f"before {name}")
            before()
            strike = Strike(where, at, again)
            try:
                strike.on(lambda name=name: self.call(name))  # type: ignore[misc]
            except KeyboardInterrupt:
                pass
            except BaseException as error:
                raise AssertionError(f"the interrupt of line {at} surfaced as {error!r}") from error
            if not strike.struck:
                return at
            self.must_be_whole(name)
        raise AssertionError("the lines never end")

    def must_be_whole(self, name: str) -> None:
        """The next call works, no effect ran twice, and nothing is done that did not run."""
        assert self.call(f"after {name}") == "ran"
        found = self.ledger.look(Key("orders", name))
        if found is not None and found.state == "done":
            assert self.ran.count(name) == 1
        self.call(name)
        assert self.ran.count(name) <= 1


# ----- at every line


@pytest.mark.parametrize(
    ("again", "every"),
    [(0, False), *(pytest.param(again, True, marks=[slow, many_seconds]) for again in range(4))],
)
def test_a_call_that_is_interrupted_at_any_line_of_a_store_leaves_it_usable(
    store: Store, ledger: Ledger, again: int, every: bool
):
    struck = Orders(ledger).strike_all([OURS], 1 if every else store.steps[0], lambda: None, again)

    assert struck > 20


@pytest.mark.parametrize(
    ("again", "every"),
    [(1, False), *(pytest.param(again, True, marks=[slow, many_seconds]) for again in range(3))],
)
def test_a_call_that_is_interrupted_at_any_line_while_it_connects_leaves_the_store_usable(
    store: Store, ledger: Ledger, again: int, every: bool
):
    struck = Orders(ledger).strike_all([OURS], 1 if every else store.steps[1], ledger.close, again)

    assert struck > 60


@pytest.mark.parametrize("again", [1, pytest.param(0, marks=[slow, many_seconds])])
def test_a_call_that_is_interrupted_inside_the_driver_leaves_the_store_usable(
    store: Store, ledger: Ledger, again: int
):
    where = [OURS, *folders(store.drivers)]
    struck = Orders(ledger).strike_all(where, store.steps[2], lambda: None, again)

    assert struck > 60


def test_a_look_and_a_list_that_are_interrupted_at_any_line_leave_the_store_usable(
    store: Store, ledger: Ledger
):
    orders = Orders(ledger)
    orders.call("first")

    for question in (
        lambda: ledger.look(Key("orders", "first")),
        lambda: list(ledger.entries("orders", "done")),
    ):
        right = question()
        for at in count(1, store.steps[0]):
            strike = Strike([OURS], at)
            with suppress(KeyboardInterrupt):
                strike.on(question)
            if not strike.struck:
                break
            assert question() == right


# ----- while it waits for the server


def mixed(place: Place, names: Sequence[Key]) -> list[Change]:
    """A batch that makes an entry and writes over another: several statements in one transaction."""
    [there] = place.store.get(names[:1])
    over = Change(names[0], stored(there).version, entry("held", token="bob"))
    return in_order([*claims(names[1:]), over])


@pytest.fixture(
    params=[pytest.param(name, marks=pytest.mark.store(name)) for name in ("postgresql", "mariadb")]
)
def place(request: pytest.FixtureRequest) -> Iterator[Place]:
    with closing(Place(request.getfixturevalue(f"{request.param}_url"))) as opened:
        yield opened


def waits_for_a_row(place: Place) -> bool:
    if place.kind == "postgresql":
        return bool(place.run("SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock'"))
    # A user sees the statements of its own connections; who waits for whom is shown to administrators.
    others = "SELECT 1 FROM information_schema.processlist WHERE command = 'Query' AND id != connection_id()"
    return bool(place.run(others))


def interrupted_while_it_waits(place: Place, names: Sequence[Key]) -> None:
    """Send a batch that waits for a locked row, and interrupt it by a signal once it does."""

    def interrupt() -> None:
        wait_for(lambda: waits_for_a_row(place))
        os.kill(os.getpid(), signal.SIGINT)

    batch = mixed(place, names)
    helper = threading.Thread(target=interrupt)
    helper.start()
    with pytest.raises(KeyboardInterrupt):
        place.store.swap(batch)
    helper.join()


def test_an_interrupt_while_a_batch_waits_for_a_row_is_raised_and_the_next_calls_get_their_own_answers(
    place: Place,
):
    names = keys(2)
    place.store.swap(claims(names[:1]))
    with closing(locker(place)) as other:
        lock(other, names[0])
        interrupted_while_it_waits(place, names)
        seen = place.store.get(names[:1])
        other.rollback()

    assert tokens(seen) == ["ann"]
    assert tokens(place.store.swap(claims(keys(3, "others"), "carl"))) == ["carl"] * 3


@pytest.mark.store("postgresql")
def test_an_interrupted_batch_holds_no_rows_on_postgresql_while_the_lock_it_waited_for_lasts(
    postgresql_url: str,
):
    names = keys(2)
    with closing(Place(postgresql_url)) as place:
        place.store.swap(claims(names[:1]))
        with closing(locker(place)) as other:
            lock(other, names[0])
            interrupted_while_it_waits(place, names)
            wait_for(lambda: not waits_for_a_row(place))

            assert tokens(place.store.swap(claims(names[1:], "carl"))) == ["carl"]
            other.rollback()
        assert tokens(place.store.get(names)) == ["ann", "carl"]


def locker(place: Place) -> Any:
    if place.kind == "postgresql":
        return psycopg.connect(place.url)
    return MARIADB.connect(place.url, 5.0)


def lock(other: Any, key: Key) -> None:
    with other.cursor() as cursor:
        cursor.execute("SELECT 1 FROM onefold_entries WHERE id = %s FOR UPDATE", [key.id])
