"""The tables of the PostgreSQL store: made once, however many come; readable; and read by their index."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import UTC, datetime, timedelta

import psycopg
import pytest

from onefold import Key, Ledger, Refused, Terms
from onefold.core.entry import Change, Entry, Seen, State
from onefold.stores import shells
from onefold.stores.postgresql import connect
from onefold.stores.postgresql.plan import PostgresPlan, Statement
from tests.stores.postgresql.ledgers import Blocking
from tests.stores.words import inserts, token

pytestmark = pytest.mark.store("postgresql")


def test_of_many_who_make_the_tables_at_once_nobody_fails(postgresql_url, sql):
    def first_use(number: int) -> str:
        with closing(Ledger(postgresql_url)) as ledger:
            return ledger.call(Key("schema", number), lambda: None).state

    with ThreadPoolExecutor(8) as pool:
        states = list(pool.map(first_use, range(8)))

    assert states == ["ran"] * 8
    assert sql("SELECT value FROM onefold_meta") == [("1",)]


def test_who_waited_for_a_newer_onefold_to_make_the_tables_leaves_them_alone(postgresql_url, sql):
    """The version is read again behind the lock: what another noted meanwhile is not noted back."""
    Blocking(postgresql_url).close()
    with closing(connect(postgresql_url)) as store:
        store.get([])
        sql("UPDATE onefold_meta SET value = '0' WHERE name = 'schema'")
        with closing(psycopg.connect(postgresql_url)) as other, ThreadPoolExecutor(1) as pool:
            other.execute("SELECT pg_advisory_xact_lock(%s)", [0x6F6E65666F6C64])
            waiting = pool.submit(_use, f"{postgresql_url}&application_name=waits")
            while sql(_WAITING) != [(1,)]:
                pass
            other.execute("UPDATE onefold_meta SET value = '7' WHERE name = 'schema'")
            other.commit()
            told = waiting.result()

    assert "written by a newer Onefold (schema 7, this one knows 1)" in told
    assert sql("SELECT value FROM onefold_meta") == [("7",)]


_WAITING = (
    "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'waits' AND wait_event = 'advisory'"
)


def _use(url: str) -> str:
    try:
        with closing(connect(url)) as store:
            store.get([])
    except Exception as error:
        return str(error)
    return "fine"


def test_the_tables_are_readable_to_people(postgresql_url, sql):
    with closing(Ledger(postgresql_url)) as ledger:
        ledger.call(Key("charges", "A-17"), lambda: {"paid": 49}, terms=Terms(keep="8d"))
        with pytest.raises(Refused):
            ledger.call(Key("charges", "A-18"), _refuses)
        ledger.claim(Key("charges", "A-19"), terms=Terms(lease=90))
    [done] = sql(
        "SELECT label, state, body, forgotten_at - written_at FROM onefold_readable WHERE state = 'done'"
    )
    [free] = sql(
        "SELECT label, attempt, next_attempt_at > written_at FROM onefold_readable WHERE state = 'free'"
    )
    [held] = sql(
        "SELECT label, lease_ends_at - written_at, written_at FROM onefold_readable WHERE state = 'held'"
    )

    assert done == ("A-17", "done", '{"paid":49}', timedelta(days=8))
    assert free == ("A-18", 1, True)
    assert held[:2] == ("A-19", timedelta(seconds=90))
    assert abs(held[2] - datetime.now(UTC)) < timedelta(minutes=1)


def _refuses() -> None:
    raise Refused("nothing happened")


# ----- what is read


@pytest.fixture
def full(postgresql_url: str, sql) -> Blocking:
    """A ledger with many done entries of two scopes, and few open ones; the planner knows nothing of it."""
    with closing(connect(postgresql_url)) as store:
        store.get([])
    sql("ALTER TABLE onefold_entries SET (autovacuum_enabled = off)")
    sql(
        "INSERT INTO onefold_entries SELECT sha256(n::text::bytea), 'many', 'done', NULL, 't', n, n, 'keyed',"
        " NULL, 60, n, 1, NULL, NULL, NULL, n::text, '', NULL, NULL FROM generate_series(1, 20000) AS n"
    )
    with closing(connect(postgresql_url)) as store:
        store.swap(inserts(Key("few", n) for n in range(3)))
    return Blocking(postgresql_url)


def plans(store: Blocking, statement: Statement) -> str:
    told = store.store.client.execute_many([Statement(f"EXPLAIN (ANALYZE) {statement.sql}", statement.args)])
    return "\n".join(row[0] for row in told[0])


class Asked:
    """A client that notes what a plan asks, and has nothing."""

    def __init__(self) -> None:
        self.statements: list[Statement] = []

    def execute_many(self, asked: list[Statement]) -> list[list[tuple[object, ...]]]:
        self.statements += asked
        return [[] for _ in asked]


def asked_for(**call: object) -> list[Statement]:
    """Return the statements that a call on the store sends."""
    client = Asked()
    store = shells.Blocking(PostgresPlan(), client)
    [(name, args)] = call.items()
    getattr(store, name)(*args)  # type: ignore[misc]
    return client.statements


WANTED = Entry("done", token="bob")
KEYS = [Key("few", n) for n in range(3)]
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
    with closing(full) as store:
        told = "\n".join(plans(store, statement) for statement in asked_for(**call))

    assert "Index" in told or "Conflict Arbiter" in told
    assert "Seq Scan" not in told
    assert "Hash Join" not in told
    assert "Merge Join" not in told


def test_a_statement_that_is_prepared_still_reads_its_rows_only(full):
    """After a few calls the server plans for arrays of any length; it must not compare each with each."""
    keys = sorted((Key("large", n) for n in range(1000)), key=lambda key: key.id)
    with closing(full) as store:
        versions: dict[Key, int] = {}
        for _ in range(12):
            replies = store.swap([Change(key, versions.get(key), Entry("held", token="ann")) for key in keys])
            versions = {
                key: seen.entry.version
                for key, seen in zip(keys, replies, strict=True)
                if isinstance(seen, Seen) and seen.entry
            }
        client = store.store.client
        update = [
            name for name, sql in client.execute_many([Statement(_PREPARED)])[0] if sql.startswith("WITH")
        ]
        generic = client.execute_many([Statement(f"EXPLAIN EXECUTE {update[0]}({','.join(['NULL'] * 18)})")])

    told = "\n".join(row[0] for row in generic[0])
    assert "Seq Scan" not in told
    assert "Join Filter" not in told
    assert told.count("Index Scan") == 2


_PREPARED = "SELECT name, statement FROM pg_prepared_statements"


def test_rows_are_found_in_a_scope_whatever_its_name(postgresql_url):
    scopes = ["a", "A", "a ", "ä", "a/b", "'"]
    with closing(connect(postgresql_url)) as store:
        store.swap(inserts(Key(scope, 1) for scope in scopes))
        found = {
            scope: [key.scope for key, _ in store.scan(scope, ["held"], False, None, 10)[0]]
            for scope in scopes
        }

    assert found == {scope: [scope] for scope in scopes}


def test_a_claim_that_lost_takes_no_lock(postgresql_url):
    with closing(connect(postgresql_url)) as store, closing(psycopg.connect(postgresql_url)) as other:
        [first] = store.swap(inserts([Key("schema", 1)]))
        assert isinstance(first, Seen)
        assert first.entry is not None
        other.execute("UPDATE onefold_entries SET label = label")
        stale = Change(Key("schema", 1), first.entry.version - 1, Entry("done", token="bob"))
        [told] = store.swap([stale])
        other.rollback()

    assert token(told) == "ann"
