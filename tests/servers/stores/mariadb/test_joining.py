"""A joined ledger on MariaDB among the caller's own ways: tables, modes, deadlocks, lost connections."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import closing
from decimal import Decimal

import aiomysql
import pymysql
import pytest
import sqlalchemy
from pymysql.cursors import DictCursor

from onefold import AsyncLedger, Key, Ledger
from onefold.core.errors import Misconfigured, Unreachable
from onefold.stores import connect
from tests.servers.stores.callers import SERVERS, Caller, Site
from tests.servers.stores.mariadb.ledgers import dialled
from tests.servers.stores.mariadb.test_errors import Background, waiting

pytestmark = pytest.mark.store("mariadb")

KEY = Key("joined", 1)
LIBRARIES = [library for library, server in SERVERS.items() if server == "mariadb"]


@pytest.fixture(params=LIBRARIES)
def caller(request: pytest.FixtureRequest, mariadb_url: str, sql) -> Iterator[Caller]:
    sql("CREATE TABLE flats (n int) ENGINE = InnoDB")
    with Site(request.param, mariadb_url).caller() as caller:
        yield caller


@pytest.fixture
def flats(sql) -> Callable[[], list[int]]:
    return lambda: [n for (n,) in sql("SELECT n FROM flats ORDER BY n")]


@pytest.fixture
def made(mariadb_url: str) -> None:
    """The ledger's tables are there."""
    with closing(connect(mariadb_url)) as store:
        store.get([])


# ----- tables


def test_tables_are_made_where_no_transaction_is_under_way_and_stay(caller, sql):
    ledger = Ledger.on(caller.connection)
    ledger.call(KEY, lambda: None)
    caller.rollback()

    assert sql("SELECT value FROM onefold_meta") == [("1",)]
    assert ledger.call(KEY, lambda: None).state == "ran"


def test_tables_are_not_made_in_the_middle_of_a_transaction(caller, flats, sql):
    caller.insert(1)

    with pytest.raises(Misconfigured, match="making one would commit the transaction that is under way"):
        Ledger.on(caller.connection).call(KEY, lambda: caller.insert(2))
    caller.rollback()

    assert flats() == []
    assert sql("SHOW TABLES") == [("flats",)]


# ----- the caller's ways


def test_what_was_done_since_the_transaction_began_is_found_done(caller, made, mariadb_url):
    """MariaDB's transactions read as of their first look; a claim must not."""
    ledger = Ledger.on(caller.connection)
    before = ledger.look(KEY)
    with closing(Ledger(mariadb_url)) as other:
        other.call(KEY, lambda: "first")

    outcome = ledger.call(KEY, lambda: "second")

    assert (before, outcome.state, outcome.receipt) == (None, "done", "first")


def test_the_callers_rows_and_values_keep_their_shape_and_the_ledger_its_own(mariadb_url, made):
    conv = {**pymysql.converters.conversions, pymysql.constants.FIELD_TYPE.DOUBLE: Decimal}
    with closing(dialled(mariadb_url, cursorclass=DictCursor, conv=conv)) as connection:
        ledger = Ledger.on(connection)
        told = [ledger.call(KEY, lambda: "kept").state, ledger.call(KEY, lambda: "kept").receipt]
        found = [entry.written for _, entry in ledger.entries("joined", "done")]
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1e0 AS one")
            row = cursor.fetchone()
        connection.commit()

    assert (told, row) == (["ran", "kept"], {"one": Decimal(1)})
    assert [type(written) for written in found] == [float]


def test_the_callers_lock_timeout_is_its_own_afterwards(mariadb_url, made):
    with closing(dialled(mariadb_url)) as connection, connection.cursor() as cursor:
        seen: list[int] = []

        def effect() -> None:
            cursor.execute("SELECT @@innodb_lock_wait_timeout")
            seen.append(cursor.fetchone()[0])

        Ledger.on(connection).call(KEY, effect)
        effect()
        connection.rollback()

    assert seen == [50, 50]


def test_a_connection_in_autocommit_mode_is_refused_outside_of_a_transaction(mariadb_url, made, sql):
    with closing(dialled(mariadb_url, autocommit=True)) as connection:
        ledger = Ledger.on(connection)
        with pytest.raises(Misconfigured, match="autocommit mode outside of one: turn it off, or call"):
            ledger.call(KEY, lambda: None)
        connection.begin()
        inside = ledger.call(KEY, lambda: "kept").state
        connection.commit()

    assert inside == "ran"
    assert sql("SELECT state FROM onefold_entries") == [("done",)]


def test_a_connection_that_cannot_carry_every_letter_is_refused(mariadb_url, made):
    with (
        closing(dialled(mariadb_url, charset="latin1")) as connection,
        pytest.raises(Misconfigured, match="uses latin1: open it with charset='utf8mb4'"),
    ):
        Ledger.on(connection).call(KEY, lambda: None)


# ----- transactions that end too early


def test_a_deadlock_undoes_everything_and_is_told(mariadb_url, made, sql):
    """The server undoes the whole transaction; going on would commit its second half alone."""
    sql("CREATE TABLE flats (n int PRIMARY KEY, filling text) ENGINE = InnoDB")
    sql("INSERT INTO flats VALUES (1, '')")
    with closing(dialled(mariadb_url)) as mine, closing(dialled(mariadb_url)) as other:
        Ledger.on(other).call(KEY, lambda: other.query("INSERT INTO flats VALUES (3, REPEAT('x', 9999))"))
        mine.query("UPDATE flats SET filling = 'mine' WHERE n = 1")
        with Background(lambda: Ledger.on(mine).call(KEY, lambda: "second")) as calling:
            calling.until(lambda: waiting(mariadb_url) == 1)
            other.query("UPDATE flats SET filling = REPEAT('x', 9999) WHERE n = 1")
        other.commit()
        mine.rollback()

    assert isinstance(calling.error, Unreachable)
    assert "has ended before its time: the server has undone it" in str(calling.error)
    assert sql("SELECT n, LENGTH(filling) FROM flats ORDER BY n") == [(1, 9999), (3, 9999)]


def test_an_effect_that_commits_by_itself_is_told(caller, made, flats):
    ledger = Ledger.on(caller.connection)

    def effect() -> None:
        caller.insert(1)
        caller.do("CREATE TABLE houses (n int)")

    with pytest.raises(Unreachable, match="a statement like CREATE TABLE has committed it"):
        ledger.call(KEY, effect)

    assert flats() == [1]


# ----- who is joined


def test_other_drivers_of_sqlalchemy_are_refused_with_what_would_do():
    class Dialect:
        name = "mysql"
        driver = "mysqldb"

    class Connection(sqlalchemy.engine.Connection):
        def __init__(self) -> None:
            self.dialect = Dialect()  # type: ignore[assignment]

    with pytest.raises(Misconfigured, match=r"uses mysqldb: write mariadb\+pymysql://"):
        Ledger.on(Connection())


def test_an_awaited_connection_is_refused_with_what_would_do():
    async def main() -> None:
        connection = aiomysql.Connection()
        with pytest.raises(Misconfigured, match=r"give a pymysql.Connection, also to an AsyncLedger"):
            AsyncLedger.on(connection)

    asyncio.run(main())
