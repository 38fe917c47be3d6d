"""The tables: made once, brought up to date without loss, readable for people, read through their index."""

from __future__ import annotations

import re
import sqlite3
from pathlib import Path

import apsw
import pytest

from onefold.core.entry import Change, Entry
from onefold.core.key import Key
from onefold.stores import ddl
from onefold.stores.sql import migrations, scripts, statements
from onefold.stores.sqlite import SqliteStore, plan
from onefold.stores.sqlite.file import Apsw
from onefold.stores.sqlite.plan import Row
from onefold.testing.clock import FakeClock
from onefold.testing.contract.words import in_order
from tests.fast.stores.sqlite.ledgers import KEYS, inserts, is_whole, made, tokens

pytestmark = pytest.mark.store("sqlite")


def objects(path: Path) -> list[Row]:
    """List what a schema consists of."""
    connection = apsw.Connection(str(path))
    found = connection.execute("SELECT type, name, sql FROM sqlite_schema ORDER BY type, name").fetchall()
    connection.close()
    return found


def made_by_the_first_migration(path: Path) -> Path:
    """Make a ledger as the first version made it, with entries in it."""
    connection = apsw.Connection(str(path))
    connection.execute("BEGIN")
    for statement in migrations("sqlite")[0]:
        connection.execute(statement)
    connection.execute("INSERT INTO onefold_meta VALUES ('schema', '1')")
    plan.swap(Apsw(connection), inserts(KEYS), 1_700_000_000.0)
    connection.execute("COMMIT")
    connection.close()
    return path


# ----- migrations


def test_a_ledger_of_the_first_schema_keeps_its_entries_when_it_is_brought_up_to_date(tmp_path):
    path = made_by_the_first_migration(tmp_path / "old.db")
    store = SqliteStore(path)

    assert tokens(store) == {"ann"}
    assert store.query("SELECT value FROM onefold_meta WHERE name = 'schema'") == [
        (str(len(scripts("sqlite"))),)
    ]
    assert store.query("SELECT count(*) FROM onefold_readable") == [(300,)]
    store.close()
    assert is_whole(path)
    assert objects(path) == objects(made(tmp_path / "new.db"))


def test_a_ledger_is_brought_up_to_date_even_where_none_may_be_created(tmp_path):
    store = SqliteStore(made_by_the_first_migration(tmp_path / "old.db"), create=False)

    assert tokens(store) == {"ann"}


def test_opening_a_second_time_changes_no_table(tmp_path):
    store = SqliteStore(made(tmp_path / "ledger.db"))
    before = store.query("PRAGMA schema_version")
    store.close()

    assert store.query("PRAGMA schema_version") == before
    assert SqliteStore(store.path, create=False).query("PRAGMA schema_version") == before


def test_a_migration_that_fails_changes_nothing(tmp_path):
    path = made_by_the_first_migration(tmp_path / "old.db")
    connection = apsw.Connection(str(path))
    connection.execute("CREATE TABLE onefold_readable (in_the_way)")
    connection.close()
    before = objects(path)

    with pytest.raises(Exception, match="onefold_readable already exists"):
        SqliteStore(path).get(KEYS)

    assert objects(path) == before


def test_the_printed_schema_is_the_one_that_is_used(tmp_path):
    by_hand, by_itself = tmp_path / "hand.db", made(tmp_path / "itself.db")
    connection = sqlite3.connect(by_hand)
    connection.executescript(ddl("sqlite:///any.db"))
    connection.close()

    assert objects(by_hand) == objects(by_itself)
    assert SqliteStore(by_hand, create=False).get(KEYS[:1])[0].entry is None


# ----- statements


def explained(store: SqliteStore, how: str, statement: str) -> list[Row]:
    """Let SQLite prepare a statement and say how it goes about it, whatever its parameters will be."""
    store.close()
    connection = apsw.Connection(str(store.path))
    names = re.findall(r"\?(\d*)", statement)
    count = max((int(name) for name in names if name), default=len(names))
    rows = connection.execute(f"{how} {statement}", (None,) * count).fetchall()
    connection.close()
    return rows


def test_every_statement_of_the_files_can_be_prepared(tmp_path):
    store = SqliteStore(made(tmp_path / "ledger.db"))

    for statement in statements("sqlite").values():
        assert explained(store, "EXPLAIN", statement)


def test_the_files_hold_the_statements_that_the_store_uses_and_no_others():
    used = {"get", "insert", "update", "settle", "remove", "scan_open", "scan_open_in_scope", "walk_done"}

    assert statements("sqlite").keys() == used


def test_a_statement_that_does_not_parse_would_be_found(tmp_path):
    store = SqliteStore(made(tmp_path / "ledger.db"))

    with pytest.raises(apsw.SQLError, match="syntax error"):
        explained(store, "EXPLAIN", "SELEC 1")


# ----- the index of open entries


def steps(store: SqliteStore, statement: str) -> list[str]:
    """Say how SQLite goes about a statement."""
    return [row[3] for row in explained(store, "EXPLAIN QUERY PLAN", statement)]


def reads_the_index(steps: list[str]) -> bool:
    return all("USING INDEX onefold_open (state=?" in step for step in steps)


@pytest.mark.parametrize("name", ["scan_open", "scan_open_in_scope"])
def test_open_entries_among_many_done_ones_are_found_through_the_index(tmp_path, name):
    store = SqliteStore(made(tmp_path / "ledger.db"))
    parked = [Key("orders", f"parked {number}") for number in range(3)]
    store.swap(in_order(Change(key, None, Entry("parked", "failed")) for key in parked))
    store.query("ANALYZE")

    assert len(store.scan("orders", ("parked",), False, None, 10)[0]) == 3
    assert len(store.scan(None, ("parked",), False, None, 10)[0]) == 3
    assert reads_the_index(steps(store, statements("sqlite")[name]))


def test_a_scan_that_reads_the_whole_table_would_be_found(tmp_path):
    store = SqliteStore(made(tmp_path / "ledger.db"))
    careless = statements("sqlite")["scan_open"].replace("AND state <> 'done'", "")

    assert "state <> 'done'" in statements("sqlite")["scan_open"]
    assert not reads_the_index(steps(store, careless))


def test_a_look_up_reads_one_row_by_its_id(tmp_path):
    store = SqliteStore(made(tmp_path / "ledger.db"))

    [step] = steps(store, statements("sqlite")["get"])
    assert step.startswith("SEARCH onefold_entries USING INDEX")
    assert step.endswith("(id=?)")


# ----- for people


def test_the_readable_view_shows_labels_and_times_that_people_can_read(tmp_path):
    store = SqliteStore(tmp_path / "ledger.db", clock=FakeClock(1_700_000_000.25))
    key = Key("orders", "A-17", 'say "hi"\n')
    wanted = Entry("held", token="ann", lease=60.0, label=key.label, source="shop", body='{"cents": 4900}')
    store.swap([Change(key, None, wanted, begin=True)])

    [row] = store.query(
        "SELECT scope, label, state, written_at, begun_at, lease_ends_at, source, body, id "
        "FROM onefold_readable"
    )

    assert row == (
        "orders",
        'A-17/say "hi"\\n',
        "held",
        "2023-11-14T22:13:20.250Z",
        "2023-11-14T22:13:20.250Z",
        "2023-11-14T22:14:20.250Z",
        "shop",
        '{"cents": 4900}',
        key.id.hex(),
    )


def test_the_readable_view_shows_when_an_entry_is_due_and_when_it_is_forgotten(tmp_path):
    store = SqliteStore(tmp_path / "ledger.db", clock=FakeClock(1_700_000_000.0))
    free, done = sorted((Key("orders", "free"), Key("orders", "done")), key=lambda key: key.id)
    store.swap(
        [Change(free, None, Entry("free"), delay=60.0), Change(done, None, Entry("done"), keep=86400.0)]
    )

    shown = store.query(
        "SELECT state, lease_ends_at, next_attempt_at, forgotten_at FROM onefold_readable ORDER BY 1"
    )

    assert shown == [
        ("done", None, None, "2023-11-15T22:13:20.000Z"),
        ("free", None, "2023-11-14T22:14:20.000Z", None),
    ]


def test_any_other_sqlite_can_read_the_file(tmp_path):
    # Two copies of SQLite may not have one file open at a time, so Onefold has closed it.
    other = sqlite3.connect(made(tmp_path / "ledger.db"))

    assert other.execute("SELECT count(*) FROM onefold_readable WHERE state = 'done'").fetchone() == (300,)
    other.close()
