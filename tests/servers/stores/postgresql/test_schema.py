"""The tables of the PostgreSQL store: read by their index, and locked for no loser."""

from __future__ import annotations

from contextlib import closing

import psycopg
import pytest
from msgspec.structs import replace

from onefold import Key
from onefold.core.entry import Change, Entry, Seen
from onefold.stores import shells
from onefold.stores.postgresql import connect
from onefold.stores.postgresql.plan import PostgresPlan, Statement
from onefold.testing.contract.words import in_order
from tests.servers.stores.postgresql.ledgers import Blocking
from tests.servers.stores.relational.calls import each_call
from tests.servers.stores.words import inserts, token

pytestmark = pytest.mark.store("postgresql")


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


@each_call
def test_nothing_but_the_rows_in_question_is_read(full, call):
    reads_by_index(full, asked_for(**call))


ENDING = Change(Key("few", 1), 7, Entry("done", token="bob"), settles=True)


@pytest.mark.parametrize(
    "changes",
    [
        [replace(ENDING, expected=None)],
        [replace(ENDING, settles=False)],
        [ENDING],
        [replace(ENDING, entry=None)],
        in_order([ENDING, replace(ENDING, key=Key("few", 2))]),
        in_order([ENDING, replace(ENDING, key=Key("few", 2), entry=None)]),
    ],
    ids=["a claim", "an update", "an ending", "a removal", "endings", "an ending and a removal"],
)
def test_single_changes_and_endings_read_their_own_rows_only(full, changes):
    reads_by_index(full, asked_for(swap=(changes,)))


def reads_by_index(store: Blocking, statements: list[Statement]) -> None:
    with closing(store):
        told = "\n".join(plans(store, statement) for statement in statements)

    assert "Index" in told or "Conflict Arbiter" in told
    assert "Seq Scan" not in told
    assert "Hash Join" not in told
    assert "Merge Join" not in told


@pytest.mark.parametrize("settles", [False, True], ids=["updates", "endings"])
def test_a_statement_that_is_prepared_still_reads_its_rows_only(full, settles):
    """After a few calls the server plans for arrays of any length; it must not compare each with each."""
    keys = sorted((Key("large", n) for n in range(1000)), key=lambda key: key.id)
    with closing(full) as store:
        versions: dict[Key, int] = {}
        for _ in range(12):
            replies = store.swap(
                [Change(key, versions.get(key), Entry("held", token="ann"), settles=settles) for key in keys]
            )
            versions = {
                key: seen.entry.version
                for key, seen in zip(keys, replies, strict=True)
                if isinstance(seen, Seen) and seen.entry
            }
        client = store.store.client
        [(name, count)] = client.execute_many([Statement(_PREPARED)])[0]
        generic = client.execute_many([Statement(f"EXPLAIN EXECUTE {name}({','.join(['NULL'] * count)})")])

    told = "\n".join(row[0] for row in generic[0])
    assert "Seq Scan" not in told
    assert "Join Filter" not in told
    assert told.count("Index Scan") == 2


_PREPARED = (
    "SELECT name, cardinality(parameter_types) FROM pg_prepared_statements "
    "WHERE statement LIKE 'WITH wanted%%'"
)


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
