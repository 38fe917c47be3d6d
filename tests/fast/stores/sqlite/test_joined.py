"""The store inside a caller's transaction, on connections of several kinds: it ends as their work ends."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apsw
import pytest
import sqlalchemy
import sqlalchemy.orm

from onefold.core.entry import Change, Entry
from onefold.core.errors import Locked, Misconfigured
from onefold.core.key import Key
from onefold.stores import join
from onefold.stores.sql import migrations
from onefold.stores.sqlite import JoinedStore
from tests.fast.stores.sqlite.ledgers import inserts, token, tokens

pytestmark = pytest.mark.store("sqlite")

ONE, TWO = Key("orders", 1), Key("orders", 2)


class Sqlite3:
    """A caller with a connection of the standard library."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.connection: Any = self.connect()

    def connect(self) -> Any:
        return sqlite3.connect(self.path, timeout=0.05, isolation_level=None)

    def do(self, sql: str) -> Any:
        return self.connection.execute(sql).fetchall()

    def commit(self) -> None:
        if self.in_transaction:  # without, every change has committed itself
            self.do("COMMIT")

    def rollback(self) -> None:
        self.do("ROLLBACK")

    def close(self) -> None:
        self.connection.close()

    @property
    def in_transaction(self) -> bool:
        return bool(self.connection.in_transaction)


class Sqlite3ThatBegins(Sqlite3):
    """The same as most people have it: Python begins a transaction before the first change."""

    def connect(self) -> Any:
        return sqlite3.connect(self.path, timeout=0.05)

    def commit(self) -> None:
        self.connection.commit()

    def rollback(self) -> None:
        self.connection.rollback()


class Apsw(Sqlite3):
    """A caller with a connection of apsw."""

    def connect(self) -> Any:
        connection = apsw.Connection(str(self.path))
        connection.set_busy_timeout(50)
        return connection


class Sqlalchemy(Sqlite3):
    """A caller with a connection of SQLAlchemy."""

    def connect(self) -> Any:
        self.engine = sqlalchemy.create_engine(f"sqlite:///{self.path}", connect_args={"timeout": 0.05})
        return self.engine.connect()

    def do(self, sql: str) -> Any:
        result = self.connection.exec_driver_sql(sql)
        return [tuple(row) for row in result] if result.returns_rows else []

    def commit(self) -> None:
        self.connection.commit()

    def rollback(self) -> None:
        self.connection.rollback()

    def close(self) -> None:
        self.connection.close()
        self.engine.dispose()

    @property
    def in_transaction(self) -> bool:
        return bool(self.connection.connection.dbapi_connection.in_transaction)


Caller = Sqlite3
KINDS = [Sqlite3, Sqlite3ThatBegins, Apsw, Sqlalchemy]


@pytest.fixture(params=KINDS)
def callers(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[Caller, Caller]]:
    """Two callers on one database, which has a table of their own and is in WAL mode, as servers have it."""
    mine, yours = request.param(tmp_path / "own.db"), request.param(tmp_path / "own.db")
    mine.do("PRAGMA journal_mode = WAL")
    mine.do("CREATE TABLE flats (name TEXT)")
    mine.commit()
    yield mine, yours
    mine.close()
    yours.close()


@pytest.fixture
def caller(callers: tuple[Caller, Caller]) -> Caller:
    return callers[0]


@pytest.fixture
def other(callers: tuple[Caller, Caller]) -> Caller:
    return callers[1]


def flats(caller: Caller) -> list[str]:
    return [name for (name,) in caller.do("SELECT name FROM flats ORDER BY name")]


def marked(caller: Caller) -> set[str | None]:
    """Say who wrote the two keys, as this caller sees it; and end what the look has begun."""
    found = tokens(join(caller.connection), [ONE, TWO])
    caller.rollback()
    return found


# ----- ending together


def test_nothing_is_seen_before_the_caller_commits_and_everything_after(caller, other):
    store = join(caller.connection)
    store.swap(inserts([ONE]))
    caller.do("INSERT INTO flats VALUES ('attic')")
    assert flats(other) == []
    assert caller.in_transaction

    caller.commit()

    assert flats(other) == ["attic"]
    assert marked(other) == {"ann", None}


def test_a_rollback_takes_both(caller, other):
    store = join(caller.connection)
    store.get([ONE])
    caller.commit()
    store.swap(inserts([ONE]))
    caller.do("INSERT INTO flats VALUES ('attic')")

    caller.rollback()

    assert flats(other) == []
    assert marked(other) == {None}


def test_what_the_caller_began_is_joined_and_not_begun_again(caller, other):
    caller.do("BEGIN")
    caller.do("INSERT INTO flats VALUES ('attic')")
    join(caller.connection).swap(inserts([ONE]))

    caller.rollback()

    assert flats(other) == []
    assert marked(other) == {None}


def test_the_store_never_commits_by_itself(caller):
    store = join(caller.connection)
    store.swap(inserts([ONE]))
    store.get([ONE])
    store.scan(None, ("done",), False, None, 10)
    store.close()

    assert caller.in_transaction


def test_tables_that_went_with_a_rollback_are_made_again(caller, other):
    store = join(caller.connection)
    store.swap(inserts([ONE]))
    caller.rollback()
    assert caller.do("SELECT name FROM sqlite_schema WHERE name LIKE 'onefold%'") == []

    store.swap(inserts([ONE, TWO], token="bob"))
    caller.commit()

    assert marked(other) == {"bob"}


# ----- points to go back to


def test_going_back_to_a_point_undoes_the_mark_and_the_effect(caller, other):
    store = join(caller.connection)
    store.swap(inserts([ONE]))
    store.mark("attempt")
    store.swap(inserts([TWO]))
    caller.do("INSERT INTO flats VALUES ('attic')")

    store.go_back("attempt")
    caller.commit()

    assert flats(other) == []
    assert marked(other) == {"ann", None}


def test_a_point_that_is_dropped_keeps_what_was_done_since(caller, other):
    store = join(caller.connection)
    store.mark("attempt")
    store.swap(inserts([ONE, TWO]))
    store.keep("attempt")

    caller.commit()

    assert marked(other) == {"ann"}


def test_points_may_stand_inside_each_other(caller, other):
    store = join(caller.connection)
    store.mark("outer")
    store.swap(inserts([ONE]))
    store.mark("inner")
    store.swap(inserts([TWO]))
    store.go_back("inner")
    assert tokens(store, [ONE, TWO]) == {"ann", None}
    store.mark("inner")
    store.swap(inserts([TWO], token="bob"))
    store.keep("inner")
    store.keep("outer")

    caller.commit()

    assert marked(other) == {"ann", "bob"}


def test_a_savepoint_of_the_caller_takes_the_mark_with_it(caller, other):
    store = join(caller.connection)
    store.swap(inserts([ONE]))
    caller.do("SAVEPOINT own")
    store.swap(inserts([TWO]))
    caller.do("ROLLBACK TO own")
    caller.do("RELEASE own")

    caller.commit()

    assert marked(other) == {"ann", None}


def test_a_point_as_the_very_first_act_does_not_commit_when_it_is_dropped(caller, other):
    # A savepoint outside of a transaction is one itself, and dropping it would commit.
    store = join(caller.connection)
    store.mark("attempt")
    store.swap(inserts([ONE]))
    store.keep("attempt")

    caller.rollback()

    assert marked(other) == {None}


# ----- competing


def prepared(caller: Caller) -> JoinedStore:
    """Have the tables made and committed, so that only the entries are competed for."""
    store = join(caller.connection)
    store.get([ONE])
    caller.commit()
    assert isinstance(store, JoinedStore)
    return store


def test_a_second_writer_hears_that_it_is_locked_and_writes_nothing(caller, other):
    store = prepared(caller)
    store.swap(inserts([ONE]))

    with pytest.raises(
        Locked, match="another connection is writing to the joined database; nothing was written"
    ):
        join(other.connection).swap(inserts([ONE], token="bob"))

    caller.commit()
    [reply] = join(other.connection).swap(inserts([ONE], token="bob"))
    assert token(reply) == "ann", "afterwards it hears who was first"


def test_a_transaction_that_read_before_another_wrote_hears_that_it_is_locked(caller, other):
    store = prepared(caller)
    caller.do("BEGIN DEFERRED")
    assert flats(caller) == []
    join(other.connection).swap(inserts([ONE], token="bob"))
    other.commit()

    with pytest.raises(Locked):
        store.swap(inserts([ONE]))
    caller.rollback()

    [reply] = store.swap(inserts([ONE]))
    assert token(reply) == "bob"


# ----- what the caller made of its connection


def test_rows_and_texts_of_another_shape_do_not_matter(tmp_path):
    connection = sqlite3.connect(tmp_path / "own.db")
    connection.row_factory = lambda cursor, row: {"columns": len(row)}
    connection.text_factory = bytes
    store = join(connection)
    store.swap(inserts([ONE]))

    assert tokens(store, [ONE]) == {"ann"}
    assert [key.scope for key, _ in store.scan(None, ("done",), False, None, 9)[0]] == ["orders"]
    assert connection.execute("SELECT 1, 2").fetchone() == {"columns": 2}
    assert connection.text_factory is bytes
    connection.close()


def test_rows_of_another_shape_do_not_matter_with_apsw(tmp_path):
    connection = apsw.Connection(str(tmp_path / "own.db"))
    connection.row_trace = lambda cursor, row: {"columns": len(row)}
    store = join(connection)
    store.swap(inserts([ONE]))

    assert tokens(store, [ONE]) == {"ann"}
    assert connection.execute("SELECT 1, 2").fetchall() == [{"columns": 2}]  # type: ignore[comparison-overlap]
    connection.close()


def test_a_database_in_memory_can_be_joined():
    connection = sqlite3.connect(":memory:")
    store = join(connection)
    store.swap(inserts([ONE]))

    assert tokens(store, [ONE]) == {"ann"}
    connection.close()


# ----- the schema


def test_tables_of_a_newer_onefold_are_refused_and_left_alone(caller):
    store = prepared(caller)
    caller.do("UPDATE onefold_meta SET value = '999'")
    caller.commit()

    with pytest.raises(Misconfigured, match="newer Onefold \\(schema 999, this one knows 2\\)"):
        store.swap(inserts([ONE]))

    caller.rollback()
    assert caller.do("SELECT count(*) FROM onefold_entries") == [(0,)]


def test_tables_of_an_older_onefold_are_brought_up_to_date_with_the_callers_commit(caller, other):
    for statement in migrations("sqlite")[0]:
        caller.do(statement)
    caller.do("INSERT INTO onefold_meta VALUES ('schema', '1')")
    caller.commit()
    store = join(caller.connection)
    store.swap([Change(ONE, None, Entry("done", token="ann"))])

    caller.commit()

    assert other.do("SELECT value FROM onefold_meta") == [("2",)]
    assert other.do("SELECT state FROM onefold_readable") == [("done",)]


# ----- what cannot be joined


def foreign() -> Iterator[tuple[object, str]]:
    engine = sqlalchemy.create_engine("sqlite://")
    yield None, "cannot join a builtins.NoneType: give a connection of sqlite3, apsw or SQLAlchemy"
    yield "sqlite:///own.db", "cannot join a builtins.str"
    yield object(), "cannot join a builtins.object"
    yield sqlite3.Cursor, "cannot join a builtins.type"
    yield engine, r"not this Engine \(sqlite\): give engine.connect\(\)"
    yield sqlalchemy.orm.Session(engine), r"of a Session: session.connection\(\)"
    yield sqlalchemy.create_mock_engine("mysql://", print), r"not this MockConnection \(mysql\)"


@pytest.mark.parametrize(("connection", "sentence"), [*foreign()])
def test_what_is_no_connection_is_refused_with_a_sentence(connection, sentence):
    with pytest.raises(Misconfigured, match=sentence):
        join(connection)
