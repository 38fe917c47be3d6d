"""The tables of the MariaDB store: made once, however many come; readable; and read by their index."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import timedelta

import pytest

from onefold import Key, Ledger, Refused, Terms
from onefold.core.entry import Change, Entry, Seen, State
from onefold.stores.mariadb import connect
from tests.stores.mariadb.ledgers import Blocking, dialled
from tests.stores.words import inserts, token

pytestmark = pytest.mark.store("mariadb")


def test_of_many_who_make_the_tables_at_once_nobody_fails(mariadb_url, sql):
    def first_use(number: int) -> str:
        with closing(Ledger(mariadb_url)) as ledger:
            return ledger.call(Key("schema", number), lambda: None).state

    with ThreadPoolExecutor(8) as pool:
        states = list(pool.map(first_use, range(8)))

    assert states == ["ran"] * 8
    assert sql("SELECT value FROM onefold_meta") == [("1",)]


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


def test_who_waited_for_a_newer_onefold_to_make_the_tables_leaves_them_alone(mariadb_url, sql):
    """The version is read again behind the lock: what another noted meanwhile is not noted back."""
    with closing(connect(mariadb_url)) as store:
        store.get([])
    sql("UPDATE onefold_meta SET value = '0' WHERE name = 'schema'")
    with ThreadPoolExecutor(1) as pool:
        sql("SELECT GET_LOCK(CONCAT('onefold ', MD5(DATABASE())), 0)")
        waiting = pool.submit(_use, mariadb_url)
        while sql(_WAITING) != [(1,)]:
            pass
        sql("UPDATE onefold_meta SET value = '7' WHERE name = 'schema'")
        sql("SELECT RELEASE_LOCK(CONCAT('onefold ', MD5(DATABASE())))")
        told = waiting.result()

    assert "written by a newer Onefold (schema 7, this one knows 1)" in told
    assert sql("SELECT value FROM onefold_meta") == [("7",)]


_WAITING = "SELECT COUNT(*) FROM information_schema.processlist WHERE db = DATABASE() AND state = 'User lock'"


def _use(url: str) -> str:
    try:
        with closing(connect(url)) as store:
            store.get([])
    except Exception as error:
        return str(error)
    return "fine"


def test_the_tables_are_readable_to_people(mariadb_url, sql):
    with closing(Ledger(mariadb_url)) as ledger:
        ledger.call(Key("charges", "A-17"), lambda: {"paid": 49}, terms=Terms(keep="8d"))
        with pytest.raises(Refused):
            ledger.call(Key("charges", "A-18"), _refuses)
        ledger.claim(Key("charges", "A-19"), terms=Terms(lease=90))
    [done] = sql(
        "SELECT scope, label, body, TIMEDIFF(forgotten_at, written_at) FROM onefold_readable "
        "WHERE state = 'done'"
    )
    [free] = sql(
        "SELECT label, attempt, next_attempt_at > written_at FROM onefold_readable WHERE state = 'free'"
    )
    [held] = sql(
        "SELECT label, TIMEDIFF(lease_ends_at, written_at), "
        "ABS(TIMESTAMPDIFF(SECOND, written_at, NOW())) < 60 FROM onefold_readable WHERE state = 'held'"
    )

    assert done == ("charges", "A-17", '{"paid":49}', timedelta(days=8))
    assert free == ("A-18", 1, 1)
    assert held == ("A-19", timedelta(seconds=90), 1)


def _refuses() -> None:
    raise Refused("nothing happened")


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


WANTED = Entry("done", token="bob")
KEYS = sorted((Key("few", n) for n in range(3)), key=lambda key: key.id)
OPEN: list[State] = ["parked", "held", "free"]


@pytest.mark.parametrize(
    "call",
    [
        {"get": (KEYS,)},
        {"swap": ([Change(key, None, WANTED) for key in KEYS],)},
        {"swap": ([Change(key, 7, WANTED) for key in KEYS],)},
        {"swap": ([Change(key, 7, None) for key in KEYS],)},
        {"scan": (None, OPEN, False, None, 100)},
        {"scan": (None, OPEN, True, None, 100)},
        {"scan": ("few", OPEN, False, None, 100)},
        {"scan": ("few", OPEN, True, None, 100)},
        {"scan": (None, ["done"], False, None, 100)},
    ],
    ids=lambda call: f"{next(iter(call))} {next(iter(call.values()))!r:.40}",
)
def test_nothing_but_the_rows_in_question_is_read(full, call):
    [(name, args)] = call.items()
    with closing(full) as store:
        store.ask("FLUSH STATUS")
        getattr(store.store, name)(*args)
        read = store.ask("SHOW SESSION STATUS LIKE 'Handler_read%'")

    assert sum(int(number) for _, number in read) < 250, read


def test_rows_are_found_in_a_scope_whatever_its_name(mariadb_url):
    scopes = ["a", "A", "a ", "ä", "a/b", "'"]
    with closing(connect(mariadb_url)) as store:
        store.swap(inserts(Key(scope, 1) for scope in scopes))
        found = {
            scope: [key.scope for key, _ in store.scan(scope, ["held"], False, None, 10)[0]]
            for scope in scopes
        }

    assert found == {scope: [scope] for scope in scopes}


def test_a_look_waits_for_nobody(mariadb_url):
    with closing(connect(mariadb_url)) as store, closing(dialled(mariadb_url)) as other:
        store.swap(inserts([Key("schema", 1)]))
        other.query("UPDATE onefold_entries SET token = 'eve'")
        [told] = store.get([Key("schema", 1)])
        other.rollback()

    assert token(told) == "ann"
