"""The tables of a ledger: made once, however many come; and readable."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import timedelta

import pytest

from onefold import Key, Ledger, Refused, Terms
from onefold.stores import connect
from tests.servers.stores.words import inserts
from tests.waiting import wait_for


def test_of_many_who_make_the_tables_at_once_nobody_fails(url, sql):
    def first_use(number: int) -> str:
        with closing(Ledger(url)) as ledger:
            return ledger.call(Key("schema", number), lambda: None).state

    with ThreadPoolExecutor(8) as pool:
        states = list(pool.map(first_use, range(8)))

    assert states == ["ran"] * 8
    assert sql("SELECT value FROM onefold_meta") == [("1",)]


def test_who_waited_for_a_newer_onefold_to_make_the_tables_leaves_them_alone(database, url, sql):
    """The version is read again behind the lock: what another noted meanwhile is not noted back."""
    with closing(connect(url)) as store:
        store.get([])
    sql("UPDATE onefold_meta SET value = '0' WHERE name = 'schema'")
    with ThreadPoolExecutor(1) as pool:
        sql(database.making)
        waiting = pool.submit(_use, url)
        wait_for(lambda: sql(database.waiting_to_make) == [(1,)])
        sql("UPDATE onefold_meta SET value = '7' WHERE name = 'schema'")
        sql(database.made)
        told = waiting.result()

    assert "written by a newer Onefold (schema 7, this one knows 1)" in told
    assert sql("SELECT value FROM onefold_meta") == [("7",)]


def _use(url: str) -> str:
    try:
        with closing(connect(url)) as store:
            store.get([])
    except Exception as error:
        return str(error)
    return "fine"


def test_the_tables_are_readable_to_people(url, sql):
    with closing(Ledger(url)) as ledger:
        ledger.call(Key("charges", "A-17"), lambda: {"paid": 49}, terms=Terms(keep="8d"))
        with pytest.raises(Refused):
            ledger.call(Key("charges", "A-18"), _refuses)
        ledger.claim(Key("charges", "A-19"), terms=Terms(lease=90))
    look = "SELECT {} FROM onefold_readable WHERE state = '{}'"
    [(*done, forgotten, settled)] = sql(
        look.format("scope, label, state, body, forgotten_at, written_at", "done")
    )
    [free] = sql(look.format("label, attempt, next_attempt_at > written_at", "free"))
    [(held, ends, written, now)] = sql(look.format("label, lease_ends_at, written_at, now()", "held"))

    assert (*done, forgotten - settled) == ("charges", "A-17", "done", '{"paid":49}', timedelta(days=8))
    assert free == ("A-18", 1, True)
    assert (held, ends - written) == ("A-19", timedelta(seconds=90))
    assert abs(now - written) < timedelta(minutes=1)


def _refuses() -> None:
    raise Refused("nothing happened")


def test_rows_are_found_in_a_scope_whatever_its_name(url):
    scopes = ["a", "A", "a ", "ä", "a/b", "'"]
    with closing(connect(url)) as store:
        store.swap(inserts(Key(scope, 1) for scope in scopes))
        found = {
            scope: [key.scope for key, _ in store.scan(scope, ["held"], False, None, 10)[0]]
            for scope in scopes
        }

    assert found == {scope: [scope] for scope in scopes}
