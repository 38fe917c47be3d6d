"""A joined ledger among the caller's own ways: rows, settings, savepoints, failures, lost connections."""

from __future__ import annotations

import asyncio
from contextlib import closing
from typing import Any

import psycopg
import pytest
import sqlalchemy
from psycopg.rows import dict_row

from onefold import AsyncLedger, Key, Ledger
from onefold.core.errors import Misconfigured
from tests.servers.stores.postgresql.ledgers import Caller

pytestmark = pytest.mark.store("postgresql")

KEY = Key("joined", 1)


def test_the_callers_rows_keep_their_shape_and_the_ledger_its_own(postgresql_url):
    with closing(psycopg.connect(postgresql_url, row_factory=dict_row)) as connection:
        ledger = Ledger.on(connection)
        states = [ledger.call(KEY, lambda: "kept").state, ledger.call(KEY, lambda: "kept").receipt]
        found = [key.label for key, _ in ledger.entries("joined", "done")]
        row = connection.execute("SELECT 1 AS one").fetchone()
        connection.commit()

    assert (states, found, row) == (["ran", "kept"], ["1"], {"one": 1})


def test_the_callers_lock_timeout_is_its_own_again_afterwards(postgresql_url, sql):
    sql("CREATE TABLE flats (n int)")
    with closing(psycopg.connect(postgresql_url)) as connection:
        caller = Caller(connection, connection.execute)
        ledger = Ledger.on(connection)
        seen: list[str] = []

        def effect() -> None:
            seen.append(caller.setting("lock_timeout"))

        before = caller.setting("lock_timeout")
        ledger.call(KEY, effect)
        with pytest.raises(ZeroDivisionError):
            ledger.call(Key("joined", 2), lambda: 1 // 0)
        seen.append(caller.setting("lock_timeout"))
        connection.rollback()

    assert (before, seen) == ("0", ["0", "0"])


def test_a_connection_in_autocommit_mode_is_refused_outside_of_a_transaction(postgresql_url, sql):
    with closing(psycopg.connect(postgresql_url, autocommit=True)) as connection:
        ledger = Ledger.on(connection)
        with pytest.raises(
            Misconfigured, match="autocommit mode outside of one: turn it off, or call inside"
        ):
            ledger.call(KEY, lambda: None)
        with connection.transaction():
            inside = ledger.call(KEY, lambda: "kept").state

    assert inside == "ran"
    assert sql("SELECT state FROM onefold_entries") == [("done",)]


def test_a_transaction_that_failed_before_is_refused_with_what_to_do(caller):
    ledger = Ledger.on(caller.connection)
    with pytest.raises(Exception, match="no_such_table"):
        caller.do("SELECT * FROM no_such_table")

    with pytest.raises(Misconfigured, match="has failed before: roll it back, then ask again"):
        ledger.call(KEY, lambda: None)

    caller.rollback()
    assert ledger.call(KEY, lambda: None).state == "ran"


def test_a_ledger_joins_inside_the_callers_own_savepoints(postgresql_url, sql):
    sql("CREATE TABLE flats (n int)")
    with closing(psycopg.connect(postgresql_url)) as connection:
        ledger = Ledger.on(connection)
        with connection.transaction():
            ledger.call(Key("joined", 1), lambda: None)
            with connection.transaction(force_rollback=True):
                ledger.call(Key("joined", 2), lambda: None)
            ledger.call(Key("joined", 3), lambda: None)

    assert sql("SELECT label FROM onefold_entries ORDER BY label") == [("1",), ("3",)]


@pytest.mark.parametrize("driver", ["psycopg2", "asyncpg"])
def test_other_drivers_of_sqlalchemy_are_refused_with_what_would_do(driver):
    class Dialect:
        name = "postgresql"

    Dialect.driver = driver  # type: ignore[attr-defined]

    class Connection(sqlalchemy.engine.Connection):
        def __init__(self) -> None:
            self.dialect = Dialect()  # type: ignore[assignment]

    with pytest.raises(Misconfigured, match=rf"uses {driver}: write postgresql\+psycopg://"):
        Ledger.on(Connection())


def test_an_awaited_connection_is_refused_with_what_would_do(postgresql_url):
    async def main() -> None:
        async with await psycopg.AsyncConnection.connect(postgresql_url) as connection:
            with pytest.raises(Misconfigured, match=r"give a psycopg.Connection, also to an AsyncLedger"):
                AsyncLedger.on(connection)

    asyncio.run(main())


def test_a_connection_of_the_callers_own_class_is_joined(postgresql_url):
    class Own(psycopg.Connection[Any]):
        """A connection of somebody's framework."""

    with closing(Own.connect(postgresql_url)) as connection:
        assert Ledger.on(connection).call(KEY, lambda: None).state == "ran"
        connection.rollback()
