"""The tables of listings: the seed's migration corrected, and the queue from raw rows to listings."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from onefold import Ledger
from onefold.apps.listings.__main__ import main
from onefold.apps.listings.cleaning import Cleaning, Hours
from onefold.apps.listings.schema import fresh
from onefold.apps.listings.writing import Tables
from onefold.core.cursor import Cursor
from onefold.core.errors import Misconfigured
from onefold.core.key import Key
from onefold.core.record import Record
from onefold.tables.times import at
from onefold.worker import Worker
from tests.databases import SQLITE, Place, opened
from tests.fast.apps.letting import add_raw, make_tables, place, raw_row, settings, waiting, worker
from tests.fast.sinks.stage import run_together, run_until

__all__ = ["place"]

SEED = """
    CREATE TABLE sources (id {id}, name TEXT NOT NULL UNIQUE, enabled INTEGER DEFAULT 1);
    CREATE TABLE listings_raw (id {id}, source_id INTEGER NOT NULL, source_item_id TEXT NOT NULL, url TEXT,
        raw_json TEXT NOT NULL, fetched_at TEXT NOT NULL{now}, note TEXT,
        UNIQUE (source_id, source_item_id){ignore});
    CREATE TABLE listings (id {id}, source_id INTEGER NOT NULL, source_item_id TEXT NOT NULL,
        title TEXT NOT NULL, description TEXT, price REAL, currency TEXT, price_period TEXT, bedrooms REAL,
        city TEXT, neighborhood TEXT, area_text TEXT, url TEXT, posted_at TEXT, tags_json TEXT,
        ingested_at TEXT NOT NULL{now}, UNIQUE (source_id, source_item_id));
    CREATE TABLE users (id {id}, telegram_chat_id TEXT NOT NULL UNIQUE, display_name TEXT);
    CREATE INDEX idx_listings_raw_processed ON listings_raw (fetched_at);
    CREATE INDEX idx_listings_raw_source ON listings_raw (source_id, source_item_id)
"""
WRITING = {
    "sqlite": {
        "id": "INTEGER PRIMARY KEY",
        "now": " DEFAULT (datetime('now'))",
        "ignore": " ON CONFLICT IGNORE",
    },
    "postgresql": {"id": "BIGSERIAL PRIMARY KEY", "now": "", "ignore": ""},
}


@pytest.fixture(params=[SQLITE])
def seeded(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    """A database as the seed left it: applied rows, a row that waits, a newer one, times of two forms."""
    for one in opened(request, tmp_path):
        seed(one)
        yield one


def seed(place: Place) -> None:
    """Make the tables of the seed, with rows as it left them."""
    for sql in SEED.format(**WRITING[place.kind]).split(";"):
        place.run(sql)
    for item, fetched, ingested in (
        ("applied", "2026-02-22 10:00:00", "2026-02-22 10:00:07"),
        ("iso", "2026-02-22T10:00:00.123Z", "2026-02-22T10:05:00.456Z"),
        ("newer", "2026-02-22T12:00:00Z", "2026-02-22 10:00:00"),
        ("same-second", "2026-02-22 10:00:00", "2026-02-22 10:00:00"),
        ("waits", "2026-02-22 09:00:00", None),
    ):
        add_raw(place, item, raw_row(item), fetched)
        if ingested:
            place.run(
                "INSERT INTO listings (source_id, source_item_id, title, price, ingested_at) "
                "VALUES (1, ?, ?, 5000, ?)",
                *(item, f"flat {item}", ingested),
            )
    place.run("UPDATE listings_raw SET note = 'mine' WHERE source_item_id = 'waits'")


def unprocessed(place: Place) -> list[str]:
    sql = "SELECT source_item_id FROM listings_raw WHERE processed_at IS NULL ORDER BY fetched_at, id"
    return [item for [item] in place.run(sql)]


def outcome(place: Place, raw_id: int) -> Any:
    """Ask the ledger what became of a raw row."""
    [[fetched]] = place.run("SELECT fetched_at FROM listings_raw WHERE id = ?", raw_id)
    said = fetched.astimezone(UTC).isoformat() if isinstance(fetched, datetime) else fetched
    [seen] = place.store.get([Key("listings.processor", str(raw_id), said)])
    return seen.entry


def processor(place: Place, **more: Any) -> Worker:
    return worker(settings(place, None, None, **more), place, "processor")


def price(place: Place, item: str) -> Any:
    [found] = place.run("SELECT price, price_before FROM listings WHERE source_item_id = ?", item)
    return found


# ----- the migration


def test_a_backfill_marks_only_what_was_applied_and_not_every_row_whose_item_exists(seeded):
    make_tables(seeded)

    assert unprocessed(seeded) == ["waits", "same-second", "newer"]


def test_a_migration_keeps_ids_rows_and_columns_of_the_users_own(seeded):
    before = seeded.run("SELECT id, source_item_id, raw_json, note FROM listings_raw ORDER BY id")
    make_tables(seeded)

    assert seeded.run("SELECT id, source_item_id, raw_json, note FROM listings_raw ORDER BY id") == before


def test_times_of_two_forms_are_brought_into_one_that_sorts_by_time(seeded):
    make_tables(seeded)
    raw = [one for [one] in seeded.run("SELECT fetched_at FROM listings_raw ORDER BY fetched_at")]
    ingested = [one for [one] in seeded.run("SELECT ingested_at FROM listings ORDER BY ingested_at")]

    assert raw == sorted(raw, key=lambda one: at(one) or 0)
    assert {len(one) for one in raw + ingested} == {len("2026-02-22T10:00:00.000000Z")}
    assert "2026-02-22T10:00:00.123000Z" in raw


def test_a_migration_is_done_once_and_what_is_as_it_must_be_needs_nothing(seeded):
    assert make_tables(seeded)
    assert make_tables(seeded) == []


def test_a_migration_that_fails_in_the_middle_leaves_everything_as_it_was(seeded):
    seeded.run("UPDATE listings_raw SET fetched_at = 'on a Monday' WHERE source_item_id = 'waits'")

    with pytest.raises(Misconfigured, match="nothing was changed"):
        make_tables(seeded)

    assert len(seeded.run("SELECT * FROM listings_raw")[0]) == 7


def test_a_new_price_is_a_new_version_after_the_migration_and_no_longer_ignored(seeded):
    make_tables(seeded)
    add_raw(seeded, "applied", raw_row("applied", 4000), "2026-02-23T10:00:00.000000Z")
    run_until(processor(seeded), lambda: waiting(seeded) == 0)

    assert price(seeded, "applied") == (4000, 5000)


def test_rows_that_old_code_left_unmarked_are_found_unchanged_after_a_roll_forward(seeded):
    make_tables(seeded)
    seeded.run("UPDATE listings_raw SET processed_at = NULL")  # the old code does not know the column
    noticed = seeded.run("SELECT source_item_id, noticed_at, price FROM listings ORDER BY id")
    run_until(processor(seeded), lambda: waiting(seeded) == 0)

    assert seeded.run("SELECT source_item_id, noticed_at, price FROM listings ORDER BY id")[:4] == noticed
    [[first]] = seeded.run("SELECT id FROM listings_raw WHERE source_item_id = 'applied'")
    assert "unchanged" in outcome(seeded, first).body


def test_the_index_serves_the_head_of_the_queue_in_its_order_and_the_wrong_one_is_gone(seeded):
    make_tables(seeded)
    sql = "SELECT * FROM listings_raw WHERE processed_at IS NULL ORDER BY fetched_at, id LIMIT 50"
    catalogue, name = {"sqlite": ("sqlite_master", "name"), "postgresql": ("pg_indexes", "indexname")}[
        seeded.kind
    ]
    if seeded.kind == "postgresql":
        seeded.run("SET enable_seqscan = off")
    plan = str(seeded.run(f"EXPLAIN {'QUERY PLAN ' if seeded.kind == 'sqlite' else ''}{sql}"))

    assert "onefold_listings_raw_waiting" in plan
    assert "TEMP B-TREE" not in plan
    assert "Sort" not in plan
    assert not seeded.run(f"SELECT 1 FROM {catalogue} WHERE {name} = 'idx_listings_raw_processed'")
    assert seeded.run(f"SELECT 1 FROM {catalogue} WHERE {name} = 'idx_listings_raw_source'")


def test_the_command_shows_the_statements_before_it_runs_them(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    url = "sqlite:///flats.db"

    assert main([url]) == 0
    shown = capsys.readouterr().out
    assert not (tmp_path / "flats.db").exists()
    assert main([url, "--apply"]) == 0
    assert capsys.readouterr().out == shown == "".join(f"{one};\n" for one in fresh("sqlite"))
    assert main([url]) == 0
    assert "as they must be" in capsys.readouterr().err


def test_the_command_reads_the_database_from_the_configuration(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)

    assert main([]) == 1
    assert "[apps.listings]" in capsys.readouterr().err
    monkeypatch.setenv("FLATS", "sqlite:///flats.db")
    (tmp_path / "onefold.toml").write_text('[apps.listings]\ndatabase = "env:FLATS"\n')
    assert main(["--apply"]) == 0
    assert main(["--force"]) == 2
    assert main(["a", "b"]) == 2
    assert main(["mariadb://host/db"]) == 1
    assert "SQLite or PostgreSQL" in capsys.readouterr().err


# ----- the processor


def test_each_outcome_of_a_raw_row_is_told_and_only_listings_are_written(place):
    ids = {
        "new": add_raw(place, "a", raw_row("a", 5000)),
        "unchanged": add_raw(place, "a", raw_row("a", 5000, ort="Berlin"), "2026-02-22T10:01:00.000000Z"),
        "changed price": add_raw(place, "a", raw_row("a", 4500), "2026-02-22T10:02:00.000000Z"),
        "older": add_raw(
            place, "a", raw_row("a", 9999, geaendert="2020-01-01T00:00:00Z"), "2026-02-22T10:03:00.000000Z"
        ),
        "not a listing": add_raw(
            place, "b", raw_row("b", vermarktungsart_miete="0"), "2026-02-22T10:04:00.000000Z"
        ),
    }
    run_until(processor(place), lambda: waiting(place) == 0)

    for said, raw_id in ids.items():
        assert f'"{said}"' in outcome(place, raw_id).body, said
    assert price(place, "a") == (4500, 5000)
    assert place.run("SELECT COUNT(*) FROM listings") == [(1,)]


@pytest.mark.parametrize(
    ("row", "source", "says"),
    [
        ("{", "flats", "no JSON"),
        ("[]", "flats", "no object"),
        (raw_row("x", {"odd": 1}), "flats", "no amount"),
        (raw_row("x"), "elsewhere", "[apps.listings.sites.elsewhere]"),
    ],
)
def test_a_broken_row_or_an_unknown_connector_is_parked_with_the_reason_in_its_row(place, row, source, says):
    broken = add_raw(place, "x", row, source=source)
    add_raw(place, "good", raw_row("good"), "2026-02-22T11:00:00.000000Z")

    def parked() -> bool:
        return waiting(place) == 1 and bool(place.run("SELECT 1 FROM listings_raw WHERE parked IS NOT NULL"))

    run_until(processor(place), parked)

    [(why, error)] = place.run("SELECT parked, last_error FROM listings_raw WHERE id = ?", broken)
    assert why == "failed"
    assert says in error
    assert outcome(place, broken).state == "parked"
    assert place.run("SELECT source_item_id FROM listings") == [("good",)]


def test_fifty_poison_rows_at_the_head_of_the_queue_hold_nobody_up(place):
    for n in range(50):
        add_raw(place, f"bad{n}", "{")
    for n in range(10):
        add_raw(place, f"good{n}", raw_row(f"good{n}"), "2026-02-23T10:00:00.000000Z")
    run_until(processor(place), lambda: waiting(place) == 50)

    assert place.run("SELECT COUNT(*) FROM listings") == [(10,)]


def test_two_processors_take_each_row_once(place):
    for n in range(80):
        add_raw(place, f"flat{n}", raw_row(f"flat{n}"))
    run_together([processor(place) for _ in range(2)], lambda: waiting(place) == 0)

    assert place.run("SELECT COUNT(*), COUNT(DISTINCT source_item_id) FROM listings") == [(80, 80)]
    [[ids]] = place.run("SELECT COUNT(*) FROM listings_raw WHERE attempts = 1")
    assert ids == 80


def test_a_listing_and_the_mark_of_its_row_are_written_together_or_not_at_all(place):
    raw_id = add_raw(place, "a", raw_row("a"))
    trigger = {
        "sqlite": "CREATE TRIGGER no_mark BEFORE UPDATE OF processed_at ON listings_raw "
        "WHEN NEW.processed_at IS NOT NULL BEGIN SELECT RAISE(ABORT, 'no mark'); END",
        "postgresql": "ALTER TABLE listings_raw ADD CONSTRAINT no_mark CHECK (processed_at IS NULL)",
    }
    place.run(trigger[place.kind])

    def failed() -> bool:
        entry = outcome(place, raw_id)
        return entry is not None and entry.attempt >= 2

    run_until(processor(place), failed)

    assert place.run("SELECT COUNT(*) FROM listings") == [(0,)]
    assert waiting(place) == 1


def test_a_row_that_was_mended_by_hand_is_processed_as_it_stands_then(place):
    raw_id = add_raw(place, "a", "{")
    run_until(processor(place), lambda: bool(place.run("SELECT 1 FROM listings_raw WHERE parked = 'failed'")))
    place.run(
        "UPDATE listings_raw SET raw_json = ? WHERE id = ?",
        '{"titel": "mended", "vermarktungsart_miete": "1"}',
        raw_id,
    )
    ledger = Ledger(place.url)
    [(key, _)] = list(ledger.entries("listings.processor", "parked"))
    ledger.resolve(key, happened=False, by="ann")
    ledger.close()
    run_until(processor(place), lambda: waiting(place) == 0 or bool(place.run("SELECT 1 FROM listings")))

    assert place.run("SELECT title FROM listings") == [("mended",)]


def test_an_id_that_was_given_again_is_another_row(place):
    first = add_raw(place, "a", raw_row("a"))
    run_until(processor(place), lambda: waiting(place) == 0)
    place.run("DELETE FROM listings_raw")
    again = add_raw(place, "b", raw_row("b"), "2026-02-23T10:00:00.000000Z")
    place.run("UPDATE listings_raw SET id = ? WHERE id = ?", first, again)
    run_until(processor(place), lambda: waiting(place) == 0)

    assert place.run("SELECT COUNT(*) FROM listings") == [(2,)]


# ----- clean-up


def test_clean_up_takes_old_processed_rows_and_never_one_that_waits(place):
    for n in range(5):
        add_raw(place, f"flat{n}", raw_row(f"flat{n}"), "2020-01-01T00:00:00.000000Z")
    place.run("UPDATE listings_raw SET processed_at = '2020-01-01T00:00:00.000000Z' WHERE id <= 2")
    place.run("UPDATE listings_raw SET processed_at = '2026-01-01T00:00:00.000000Z' WHERE id = 3")
    now = datetime(2026, 1, 10, tzinfo=UTC).timestamp()

    assert Cleaning(Tables(place.url), 30 * 86400, lambda: now)(Record("1", {}, 1)) == {"rows": 2}
    assert place.run("SELECT id FROM listings_raw ORDER BY id") == [(3,), (4,), (5,)]


def test_clean_up_is_shown_once_an_hour():
    def shown(cursor: Cursor) -> int:
        [page] = Hours(lambda: 7200.0).pages(cursor)
        return len(page.records)

    assert [shown(Cursor()), shown(Cursor(1)), shown(Cursor(2))] == [1, 1, 0]
