"""A queue on a user's table: in order, each row once, and people see in the row how it stands."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import anyio
import pytest

from onefold import Ledger
from onefold.core.errors import Misconfigured, Refused, Rejected
from onefold.sinks.table import Table as Rows
from onefold.sources.table import Table, plain
from onefold.tables import Database
from onefold.tables.migration import Applied, Columns, migration
from tests.databases import SQLITE, Place, opened
from tests.fast.sinks.stage import run_together, run_until
from tests.fast.sources.tables import QUICK, Acts, add, key, listings, queue, row, served, waiting


@pytest.fixture(params=[SQLITE])
def place(request: pytest.FixtureRequest, tmp_path) -> Iterator[Place]:
    yield from opened(request, tmp_path)


def made(place: Place, count: int = 0, **more: Any) -> Table:
    """Make a queue of a table with so many rows that wait."""
    listings(place, count)
    source = queue(place, **more)
    migrate(place, source)
    return source


def migrate(place: Place, source: Table, applied: Applied | None = None) -> None:
    """Run the migration, by hand where it has to be."""
    if place.kind != "mariadb":
        return source.migrate(applied)
    for statement in source.migration(applied):
        place.run(statement)
    return None


def test_rows_are_acted_upon_once_in_their_order_and_marked(place):
    source, acts = made(place, 150, page=40), Acts()
    run_until(served(place, acts.act, source, at_once=1), lambda: waiting(place) == 0)

    assert Counter(acts.happened) == Counter(f"flat {n}" for n in range(150))
    assert acts.happened == [f"flat {n}" for n in range(150)]
    processed, attempts, error = row(place, 7, "processed_at", "attempts", "last_error")
    assert (processed is not None, attempts, error) == (True, 1, None)


def test_rows_with_the_same_time_are_told_apart_and_late_rows_with_an_earlier_time_are_seen(place):
    source, acts = made(place, page=3), Acts()
    for n in range(10):
        add(place, n, fetched="2026-02-22 10:00:00")
    one, late = served(place, acts.act, source), [10]

    def condition() -> bool:
        if len(acts.happened) == 10 and late:
            add(place, late.pop(), title="late", fetched="2020-01-01 00:00:00")
        return waiting(place) == 0 and "late" in acts.happened

    run_until(one, condition)

    assert set(Counter(acts.happened).values()) == {1}


def test_fifty_poison_rows_at_the_head_do_not_stop_the_queue_and_show_why(place):
    source, acts = made(place, 60, page=20), Acts()
    acts.trouble = {f"flat {n}": [Refused("no such city")] for n in range(50)}

    def condition() -> bool:
        [[parked]] = place.run("SELECT COUNT(*) FROM listings WHERE parked IS NOT NULL")
        return len(acts.happened) == 10 and parked == 50 and waiting(place) == 50

    run_until(served(place, acts.act, source), condition)

    assert row(place, 3, "parked", "attempts", "last_error", "processed_at") == (
        "failed",
        QUICK.attempts,
        "Refused: no such city",
        None,
    )
    [due] = row(place, 3, "next_attempt_at")
    assert due is not None, "a parked row is looked at again only after a while"


def test_a_row_that_fails_shows_its_attempts_and_is_marked_once_it_went_through(place):
    source, acts = made(place, 3), Acts()
    acts.trouble = {"flat 1": [Refused("not now"), Refused("not now")]}
    seen: set[Any] = set()

    def condition() -> bool:
        seen.add(row(place, 2, "attempts", "last_error"))
        if len(acts.trouble["flat 1"]) == 1:
            acts.trouble["flat 1"].clear()
        return waiting(place) == 0

    run_until(served(place, acts.act, source), condition)

    assert Counter(acts.happened) == Counter({"flat 0": 1, "flat 1": 1, "flat 2": 1})
    assert any(error == "Refused: not now" for _, error in seen)
    assert row(place, 2, "attempts", "last_error", "parked") == (2, None, None)


def test_a_row_that_a_person_decided_about_is_marked_when_it_is_shown_again(place):
    source, acts = made(place, 2, due=None), Acts()
    acts.trouble = {"flat 0": [Rejected("bad address")]}
    undecided = [key(1)]

    def condition() -> bool:
        if row(place, 1, "parked") == ("failed",) and undecided:
            ledger = Ledger(place.url)
            ledger.resolve(undecided.pop(), happened=True, by="ann")
            ledger.close()
        return waiting(place) == 0

    run_until(served(place, acts.act, source), condition)

    assert acts.happened == ["flat 1"]
    assert row(place, 1, "parked") == (None,)


def test_several_workers_share_a_table_and_every_row_is_acted_upon_once(place):
    anyio.run(made(place, 120).aclose)
    acts = Acts()
    workers = [served(place, acts.act, queue(place, page=30)) for _ in range(3)]
    run_together(workers, lambda: waiting(place) == 0)

    assert Counter(acts.happened) == Counter(f"flat {n}" for n in range(120))


def test_a_mark_that_was_not_written_is_written_later_and_nothing_is_done_again(place):
    source, acts = made(place, 5), Acts()
    run_until(served(place, acts.act, source), lambda: waiting(place) == 0)
    place.run("UPDATE listings SET processed_at = NULL")  # as if the worker had died before it marked them
    run_until(served(place, acts.act, queue(place)), lambda: waiting(place) == 0)

    assert len(acts.happened) == 5


def test_from_a_queue_into_a_table_each_row_arrives_once(place):
    source = made(place, 80)
    place.run("CREATE TABLE flats (id INT, title VARCHAR(80) NOT NULL)")
    sink = Rows(place.url, "flats", lambda r: {"id": int(r.id), "title": r.body["title"]})
    run_until(served(place, None, source, sink=sink), lambda: waiting(place) == 0)

    assert place.run("SELECT COUNT(*), COUNT(DISTINCT id) FROM flats") == [(80, 80)]


def test_one_row_for_several_names_is_marked_when_the_last_of_them_is_done(place):
    source, acts, away = made(place, 1), Acts(), [True]

    async def act(record: Any, claim: Any) -> None:
        if claim.name == "bob" and away[0]:
            raise Refused("bob is away")
        acts.happened.append(claim.name)

    def condition() -> bool:
        if row(place, 1, "last_error") == ("Refused: bob is away",):
            away[0] = False
        return waiting(place) == 0

    run_until(served(place, act, source, each=lambda r: ["ann", "bob"]), condition)

    assert Counter(acts.happened) == Counter(["ann", "bob"])


def test_a_row_without_a_place_in_the_order_is_set_aside_and_said(place):
    source, acts = made(place, 2), Acts()
    place.run("INSERT INTO listings (title) VALUES ('nowhere')")
    one = served(place, acts.act, source)
    run_until(one, lambda: len(acts.happened) == 2 and one.tallies["stage"].total("broken") > 0)

    found, _ = place.store.scan("stage.broken", ("parked",), False, None, 10)
    [(_, seen)] = found
    assert seen.entry is not None
    assert "no fetched_at" in str(seen.entry.body)


def test_an_operator_is_told_which_column_is_missing_and_what_to_do(place):
    listings(place, 1)
    one = served(place, Acts().act, queue(place))
    run_until(one, lambda: bool(one.tallies["stage"].errors))

    assert "has no column processed_at: run what migration()" in one.tallies["stage"].errors["table"]


def test_only_the_mark_is_needed(place):
    source = made(place, 3, attempts=None, due=None, error=None, parked=None)
    acts = Acts()
    run_until(served(place, acts.act, source), lambda: waiting(place) == 0)

    assert len(acts.happened) == 3


# ----- the migration


def test_a_migration_is_shown_runs_whole_and_can_run_again(place):
    listings(place, 2)
    source, shown = queue(place), list[str]()
    if place.kind == "mariadb":
        with pytest.raises(Misconfigured, match="by hand"):
            source.migrate(show=shown.append)
        anyio.run(source.aclose)
        return
    source.migrate(show=shown.append)
    again = source.migration()

    assert shown[0].startswith('ALTER TABLE "listings" ADD COLUMN "processed_at"')
    assert shown[-1].endswith('("fetched_at", "id") WHERE "processed_at" IS NULL;')
    assert len(again) == 1
    source.migrate()
    anyio.run(source.aclose)


def keyed_by_code(place: Place) -> None:
    """Make a table whose key is not called id."""
    shape = "code VARCHAR(20) PRIMARY KEY, title VARCHAR(80), fetched_at " + (
        "DATETIME(6)" if place.kind == "mariadb" else "TEXT" if place.kind == "sqlite" else "timestamptz"
    )
    place.run(f"CREATE TABLE listings ({shape})")
    place.run("INSERT INTO listings VALUES ('A-1', 'flat 0', '2026-02-22 10:00:00')")


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({}, "has no column id, which id= names: pass id= with one of its columns, code, title, fetched_at"),
        ({"id": "code", "order": "at"}, "has no column at, which order= names: pass order= with one of"),
    ],
)
def test_a_queue_on_a_column_that_is_not_there_is_refused_and_the_setting_named(
    place: Place, settings: dict[str, str], said: str
):
    keyed_by_code(place)
    source = queue(place, **settings)
    with pytest.raises(Misconfigured, match=said):
        source.migration()
    anyio.run(source.aclose)
    one = served(place, Acts().act, queue(place, **settings))
    run_until(one, lambda: bool(one.tallies["stage"].errors))

    assert said in one.tallies["stage"].errors["table"]


def test_a_table_whose_key_is_not_called_id_is_a_queue(place: Place):
    keyed_by_code(place)
    source, acts = queue(place, id="code"), Acts()
    migrate(place, source)
    run_until(served(place, acts.act, source), lambda: waiting(place) == 0)

    assert acts.happened == ["flat 0"]


def indexed(place: Place) -> list[str | None]:
    database = Database(place.url)
    with database.transaction(write=False) as connection:
        found = database.index(connection, "listings", "onefold_listings_waiting")
    database.close()
    return found


def test_an_index_of_other_columns_is_replaced_by_the_migration(
    place: Place, caplog: pytest.LogCaptureFixture
):
    keyed_by_code(place)
    # SQLite takes "id" for a text where there is no such column: every row is indexed by the same constant.
    wrong = '"fetched_at", "id"' if place.kind == "sqlite" else "title"
    place.run(f"CREATE INDEX onefold_listings_waiting ON listings ({wrong})")
    before = indexed(place)
    source, acts = queue(place, id="code"), Acts()
    migrate(place, source)

    right = ["fetched_at", "code"]
    assert before == (["fetched_at", None] if place.kind == "sqlite" else ["title"])
    assert indexed(place) == (["processed_at", *right] if place.kind == "mariadb" else right)
    assert not any("DROP" in statement for statement in source.migration())
    run_until(served(place, acts.act, source), lambda: waiting(place) == 0)
    assert "does not serve the queue" not in caplog.text


def test_a_worker_warns_of_an_index_that_serves_other_columns(place: Place, caplog: pytest.LogCaptureFixture):
    keyed_by_code(place)
    source = queue(place, id="code")
    migrate(place, source)
    anyio.run(source.aclose)
    on = " ON listings" if place.kind == "mariadb" else ""
    place.run(f"DROP INDEX onefold_listings_waiting{on}")
    place.run("CREATE INDEX onefold_listings_waiting ON listings (title)")
    run_until(served(place, Acts().act, queue(place, id="code")), lambda: waiting(place) == 0)

    assert "the index onefold_listings_waiting does not serve the queue on listings" in caplog.text


def test_the_index_serves_the_head_of_the_queue(place):
    source = made(place, 300)
    place.run("UPDATE listings SET processed_at = fetched_at WHERE id <= 290")
    explain = "EXPLAIN QUERY PLAN" if place.kind == "sqlite" else "EXPLAIN"
    if place.kind == "postgresql":
        place.run("ANALYZE listings")
        for way in ("seqscan", "bitmapscan", "sort"):  # so few rows would be read in any way
            place.run(f"SET enable_{way} = off")
    asked = "SELECT * FROM listings WHERE processed_at IS NULL ORDER BY fetched_at, id LIMIT 10"
    plan = " ".join(str(line) for line in place.run(f"{explain} {asked}"))
    anyio.run(source.aclose)

    assert "onefold_listings_waiting" in plan
    assert "Sort" not in plan
    assert "filesort" not in plan
    assert "TEMP B-TREE" not in plan


def test_a_backfill_marks_what_was_applied_and_nothing_newer(place):
    listings(place, 3)
    place.run("CREATE TABLE applied (id INT, title VARCHAR(80))")
    place.run("INSERT INTO applied VALUES (1, 'flat 0'), (2, 'an older title')")
    source = queue(place)
    migrate(place, source, Applied("applied", on=["id"], same=["title"]))
    anyio.run(source.aclose)

    assert [
        name for (name,) in place.run("SELECT id FROM listings WHERE processed_at IS NULL ORDER BY id")
    ] == [
        2,
        3,
    ]


def test_a_backfill_that_would_mark_too_much_is_refused(place):
    listings(place)
    source = queue(place)
    with pytest.raises(Misconfigured, match="same="):
        source.migration(Applied("applied", on=["id"], same=[]))
    anyio.run(source.aclose)


# ----- times


@pytest.mark.store("sqlite")
def test_times_of_two_forms_are_refused_with_the_statement_that_mends_them(tmp_path):
    place = Place(f"sqlite:///{tmp_path}/shop.db")
    source, acts = made(place), Acts()
    add(place, 0, fetched="2026-02-22 10:00:00")
    add(place, 1, fetched="2026-02-22T09:00:00.123Z")
    one = served(place, acts.act, source)
    run_until(one, lambda: bool(one.tallies["stage"].errors))
    said = one.tallies["stage"].errors["table"]
    assert "'2026-02-22 10:00:00' and '2026-02-22T09:00:00.123Z'" in said
    place.run(said[said.index("UPDATE") :])
    run_until(served(place, acts.act, queue(place), at_once=1), lambda: waiting(place) == 0)
    place.close()

    assert acts.happened == ["flat 1", "flat 0"]


@pytest.mark.store("sqlite")
def test_marks_are_written_in_the_form_that_stands_in_their_column(tmp_path):
    place = Place(f"sqlite:///{tmp_path}/shop.db")
    source, acts = made(place, 2), Acts()
    place.run("UPDATE listings SET processed_at = '2026-02-22 10:00:07' WHERE id = 1")
    run_until(served(place, acts.act, source), lambda: waiting(place) == 0)
    [old], [new] = row(place, 1, "processed_at"), row(place, 2, "processed_at")
    place.close()

    assert len(old) == len(new) == 19
    assert old < new


@pytest.mark.store("sqlite")
def test_a_queue_may_be_ordered_by_a_number_and_keep_times_as_numbers(tmp_path):
    place = Place(f"sqlite:///{tmp_path}/shop.db")
    columns = "id INTEGER PRIMARY KEY, title TEXT, processed_at REAL, next_attempt_at INTEGER"
    place.run(f"CREATE TABLE listings ({columns}, attempts INTEGER, last_error TEXT, parked TEXT)")
    place.run("INSERT INTO listings (title) VALUES ('a'), ('b')")
    acts = Acts()
    run_until(served(place, acts.act, queue(place, order="id"), at_once=1), lambda: waiting(place) == 0)
    [processed] = row(place, 1, "processed_at")
    place.close()

    assert acts.happened == ["a", "b"]
    assert processed > 1_700_000_000


@pytest.mark.parametrize("name", ['id"; DROP TABLE x; --', "", "a b"])
@pytest.mark.parametrize("what", ["id", "order", "mark", "attempts", "due", "error", "parked"])
def test_a_name_that_is_not_plain_is_refused(what, name):
    with pytest.raises(Misconfigured):
        Table("sqlite:///x.db", "listings", **{what: name})


def test_mariadb_is_given_statements_to_run_by_hand():
    columns = Columns("id", "fetched_at", "processed_at", "attempts", None, None, None)
    statements = migration("mariadb", "listings", columns, {"id": "int", "fetched_at": "datetime"})

    assert statements[0] == "ALTER TABLE `listings` ADD COLUMN `processed_at` DATETIME(6)"
    assert statements[-1].endswith("ON `listings` (`processed_at`, `fetched_at`, `id`)")


def test_values_of_every_kind_become_plain_ones():
    assert plain(datetime(2026, 2, 22, 10, tzinfo=UTC)) == "2026-02-22T10:00:00+00:00"
    assert plain(date(2026, 2, 22)) == "2026-02-22"
    assert plain(Decimal("1.50")) == "1.50"
    assert plain(b"\x01\xff") == "01ff"
