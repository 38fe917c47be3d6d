"""What can be wrong with a database or somebody's rights: each time a sentence, and nothing lost."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from onefold import Key
from onefold.core.entry import Change, Entry
from onefold.core.errors import Locked, Misconfigured
from onefold.stores import ddl
from onefold.testing.contract.words import in_order
from tests.servers.stores.callers import Site, Sql
from tests.servers.stores.relational.databases import Database, on_each
from tests.servers.stores.words import PASSWORD, at, inserts, refused, token, told

KEY = Key("errors", 1)
TABLES = ("onefold_entries", "onefold_meta")


@pytest.fixture
def guest(database: Database, site: Site, sql: Sql) -> Iterator[str]:
    """The URL of a user who may look into the database, and nothing else."""
    yield from database.guests(site.url, sql)


@on_each(
    "change, sentence",
    postgresql=[
        ({"password": "wrong-one"}, "password authentication failed .* check the user and password"),
        ({"user": "nobody_here"}, "authentication failed .* check the user and password"),
        ({"path": "/no_such_place"}, 'database "no_such_place" does not exist; create the database'),
    ],
    mariadb=[
        ({"password": "wrong-one"}, "Access denied for user .* check the user and password"),
        ({"user": "nobody_here"}, "Access denied for user .* check the user and password"),
        ({"path": "/no_such_place"}, "Unknown database 'no_such_place'; create the database"),
    ],
)
def test_who_is_not_let_in_hears_why(opened, url, change, sentence):
    store = opened(at(url, **change))

    with pytest.raises(Misconfigured, match=f"refuses the connection: .*{sentence}") as raised:
        store.call(KEY)

    assert "wrong-one" not in told(raised.value)
    assert PASSWORD not in told(raised.value)


@on_each("words", postgresql=["permission denied for schema"], mariadb=["CREATE command denied"])
def test_who_may_not_create_tables_hears_what_its_owner_can_do(opened, database, guest, sql, words):
    sentence = refused(lambda: opened(guest).call(KEY), Misconfigured)

    assert words in sentence
    assert f"`onefold store sql {database.name}:` prints" in sentence
    assert sql(database.tables) == []


def test_a_user_without_rights_to_create_works_on_tables_that_were_made_by_hand(opened, database, guest, sql):
    for statement in ddl(f"{database.name}:").split(";\n"):
        if statement.strip():
            sql(statement)
    for table in TABLES:
        sql(f"GRANT SELECT, INSERT, UPDATE, DELETE ON {table} TO {database.guest}")

    store = opened(guest)

    assert [store.call(KEY), store.call(KEY)] == ["ran", "done"]
    assert sql("SELECT value FROM onefold_meta WHERE name = 'schema'") == [("1",)]


@on_each(
    "words", postgresql=["permission denied for table onefold_entries"], mariadb=["command denied to user"]
)
def test_a_user_who_may_only_read_is_refused_and_nothing_is_written(opened, database, url, guest, sql, words):
    opened(url).call(KEY)
    for table in TABLES:
        sql(f"GRANT SELECT ON {table} TO {database.guest}")
    store = opened(guest)

    sentence = refused(lambda: store.call(Key("errors", 2)), Misconfigured)

    assert words in sentence
    assert [token(seen) is not None for seen in store.get([KEY])] == [True]
    assert sql("SELECT count(*) FROM onefold_entries") == [(1,)]


def test_a_schema_from_the_future_is_left_alone(opened, url, sql):
    opened(url).call(KEY)
    sql("UPDATE onefold_meta SET value = '99' WHERE name = 'schema'")

    sentence = refused(lambda: opened(url).call(KEY), Misconfigured)

    assert "written by a newer Onefold (schema 99, this one knows 1): upgrade with" in sentence
    assert sql("SELECT value FROM onefold_meta") == [("99",)]


def test_who_only_looks_creates_nothing(opened, database, url, sql):
    sentence = refused(lambda: opened(url, create=False).get([KEY]), Misconfigured)

    assert "has no ledger in it: a worker makes it when it first uses the store" in sentence
    assert sql(database.tables) == []


def test_a_ledger_that_is_dropped_under_a_worker_is_missed_and_not_made_anew(opened, database, url, sql):
    store = opened(url)
    store.call(KEY)
    sql("DROP TABLE onefold_entries CASCADE")

    assert "tables are missing" in refused(lambda: store.call(KEY), Misconfigured)
    assert ("onefold_meta",) in sql(database.tables)
    assert ("onefold_entries",) not in sql(database.tables)


def test_a_row_that_another_transaction_holds_is_waited_for_no_longer_than_the_lock_timeout(
    opened, database, url, sql, other
):
    store = opened(url)
    [seen] = store.swap(inserts([KEY]))
    store.ask(database.hurry)
    change = Change(KEY, seen.entry.version, Entry("done", token="ann"))
    other.do("UPDATE onefold_entries SET label = 'other'")
    # The first is new and would be written; it goes back with the one that has to wait.
    both = in_order([change, *inserts([Key("errors", 2)])])
    sentence = refused(lambda: store.swap(both), Locked)
    other.rollback()

    assert "another transaction holds what is asked for; nothing was written" in sentence
    assert sql("SELECT state FROM onefold_entries") == [("held",)]
    assert store.swap([change])[0].entry.state == "done"
