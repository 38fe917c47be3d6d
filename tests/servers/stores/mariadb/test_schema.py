"""The tables of the MariaDB store: finished where they are half made, and read by their index."""

from __future__ import annotations

from contextlib import closing

import pytest

from onefold import Key
from onefold.core.entry import Seen
from onefold.stores.mariadb import connect
from tests.servers.stores.mariadb.ledgers import Blocking, dialled
from tests.servers.stores.relational.calls import each_call
from tests.servers.stores.words import inserts, token

pytestmark = pytest.mark.store("mariadb")


@pytest.mark.parametrize("left", ["onefold_meta", "onefold_entries"])
def test_tables_that_somebody_left_half_made_are_finished(mariadb_url, sql, left):
    with closing(connect(mariadb_url)) as store:
        store.get([])
    sql("DROP VIEW onefold_readable")
    sql("DELETE FROM onefold_meta")
    sql(f"DROP TABLE {'onefold_meta' if left == 'onefold_entries' else 'onefold_entries'}")

    with closing(connect(mariadb_url)) as store:
        store.get([])

    assert sql("SHOW TABLES") == [("onefold_entries",), ("onefold_meta",), ("onefold_readable",)]
    assert sql("SELECT value FROM onefold_meta") == [("1",)]


def test_the_zone_of_a_session_changes_no_time(mariadb_url):
    with closing(Blocking(mariadb_url)) as store:
        store.ask("SET SESSION time_zone = '-07:00'")
        [seen] = store.swap(inserts([Key("schema", "far west")]))
        store.ask("SET SESSION time_zone = '+09:00'")
        [again] = store.get([Key("schema", "far west")])

    assert isinstance(seen, Seen)
    assert seen.entry == again.entry
    assert 0 <= again.idle < 60


# ----- what is read


@pytest.fixture
def full(mariadb_url: str, sql) -> Blocking:
    """A ledger with many done entries of one scope, and few open ones; the planner knows nothing of it."""
    with closing(connect(mariadb_url)) as store:
        store.get([])
    sql("ALTER TABLE onefold_entries STATS_AUTO_RECALC = 0")
    sql(
        "INSERT INTO onefold_entries SELECT UNHEX(SHA2(seq, 256)), 'many', 'done', NULL, 't', seq, seq, "
        "'keyed', NULL, 60, seq, 1, NULL, NULL, NULL, seq, '', NULL, NULL FROM seq_1_to_5000"
    )
    with closing(connect(mariadb_url)) as store:
        store.swap(inserts(Key("few", n) for n in range(3)))
    return Blocking(mariadb_url)


@each_call
def test_nothing_but_the_rows_in_question_is_read(full, call):
    [(name, args)] = call.items()
    with closing(full) as store:
        store.ask("FLUSH STATUS")
        getattr(store.store, name)(*args)
        read = store.ask("SHOW SESSION STATUS LIKE 'Handler_read%'")

    assert sum(int(number) for _, number in read) < 250, read


def test_a_look_waits_for_nobody(mariadb_url):
    with closing(connect(mariadb_url)) as store, closing(dialled(mariadb_url)) as other:
        store.swap(inserts([Key("schema", 1)]))
        other.query("UPDATE onefold_entries SET token = 'eve'")
        [told] = store.get([Key("schema", 1)])
        other.rollback()

    assert token(told) == "ann"
