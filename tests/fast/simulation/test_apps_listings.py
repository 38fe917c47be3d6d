"""Histories of listings: they tell of flats, and the truth about them can fail."""

import json
from collections import Counter
from pathlib import Path
from random import Random

import pytest

from onefold.core.documents import named
from onefold.core.entry import Entry
from onefold.core.key import Key
from onefold.testing.runtime import EPOCH
from onefold.worlds.listings import Flat
from proof.apps.listings import MATCH_CURSOR, SITE_CURSOR, Listings, Wish
from tests.fast.simulation.living import ABANDONED, lived

SEEDS = (6, 7, 8)

FLAT = Flat("flats", "0001abcd", "flat", 5000, 3, "Berlin", "Mitte", "Wilskistr. 27", True)


@ABANDONED
def test_histories_of_listings_tell_of_flats_and_use_both_kinds_of_ledger():
    parts = [lived(Listings, seed).part for seed in SEEDS]

    assert {isinstance(part, Listings) and part.is_joined for part in parts} == {True, False}
    assert sum(part.happened().total() for part in parts) > 10


# ----- the truth can fail


class Clock:
    def __init__(self) -> None:
        self.now = EPOCH

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def part(tmp_path: Path, clock: Clock) -> Listings:
    """One user who looks for anything; nothing misbehaves, and the site shows nothing yet."""
    part = Listings(Random(5), clock, tmp_path)
    part.sites.mischief.stop()
    part.chat.mischief.stop()
    part.is_joined = True
    for one in part.filters[1:]:
        part._end(one)
    part._write(part.filters[0], Wish())
    return part


def show(part: Listings, **change: object) -> None:
    part._show(FLAT._replace(**change))  # type: ignore[arg-type]


def tell(part: Listings, item: str = FLAT.item, chat: str = "user0") -> None:
    part.chat.journal.note("message", chat=chat, text=f'<a href="https://flats.example/flat-{item}">x</a>')


def keep(part: Listings, price: int = FLAT.price, when: str = "2023-11-14T22:13:21.000000Z") -> None:
    """Write a flat into the tables, as the collector and the processor do."""
    execute = part.table.execute
    execute("INSERT OR IGNORE INTO sources (id, name) VALUES (1, 'flats')")
    execute(
        "INSERT INTO listings (source_id, title, source_item_id, price, bedrooms, city, ingested_at, "
        "noticed_at) VALUES (1, 'x', ?, ?, ?, ?, ?, ?)",
        (FLAT.item, price, FLAT.rooms, FLAT.city, when, when),
    )


def differences(part: Listings) -> tuple[Counter[str], Counter[str]]:
    expected, happened = part.expected(), part.happened()
    return expected - happened, happened - expected


def cursor(at: float) -> Entry:
    return Entry("free", token="t", effect="idempotent", label="x", body=json.dumps({"at": at}))


def complaints(part: Listings, key: Key, at: float) -> list[str]:
    return list(part.moved(key, cursor(at), lambda keys: []))


def test_a_flat_that_fits_is_lost_until_it_is_told_and_in_the_table(part):
    show(part)

    assert differences(part) == (
        Counter({f"user0/{FLAT.item}": 1, f"row {FLAT.item} 5000 3 Berlin": 1}),
        Counter(),
    )
    tell(part)
    keep(part)
    assert differences(part) == (Counter(), Counter())


def test_a_second_message_about_a_flat_is_one_too_many(part):
    show(part)
    tell(part)
    tell(part)
    keep(part)

    assert differences(part) == (Counter(), Counter({f"user0/{FLAT.item}": 1}))


def test_a_message_about_what_nobody_looked_for_should_not_have_happened(part, clock):
    part._write(part.filters[0], Wish(max_price=3000))
    clock.now += 60
    show(part)
    tell(part)
    keep(part)

    assert differences(part)[1] == Counter({f"user0/{FLAT.item}": 1})


def test_a_filter_that_ended_before_a_flat_appeared_excuses_no_message(part, clock):
    part._switch_off()
    part._end(part.filters[0])
    clock.now += 60
    show(part)
    tell(part)

    assert differences(part)[1] == Counter({f"user0/{FLAT.item}": 1})


def test_a_message_about_a_price_that_was_is_left_to_chance(part, clock):
    part._write(part.filters[0], Wish(max_price=6000))
    show(part)
    clock.now += 60
    show(part, price=9000)
    keep(part, price=9000)

    assert differences(part) == (Counter(), Counter())
    tell(part)
    assert differences(part) == (Counter(), Counter())


def test_a_listing_with_an_old_price_or_of_no_flat_is_seen(part, clock):
    show(part)
    clock.now += 60
    show(part, price=4000)
    tell(part)
    keep(part)

    assert differences(part) == (
        Counter({f"row {FLAT.item} 4000 3 Berlin": 1}),
        Counter({f"row {FLAT.item} 5000 3 Berlin": 1}),
    )


def test_a_cursor_that_left_a_flat_behind_is_seen(part):
    show(part)
    shown = part._changed[FLAT.item]

    assert complaints(part, SITE_CURSOR, shown + part.lookback) == []
    assert len(complaints(part, SITE_CURSOR, shown + part.lookback + 1)) == 1
    part.table.execute("INSERT INTO sources (id, name) VALUES (1, 'flats')")
    part.table.execute(
        "INSERT INTO listings_raw (source_id, source_item_id, version, raw_json, fetched_at) "
        "VALUES (1, ?, ?, '{}', 'x')",
        (FLAT.item, f"u{shown:.3f}-0"),
    )
    assert complaints(part, SITE_CURSOR, shown + part.lookback + 1) == []


def test_a_cursor_of_matches_that_is_ahead_of_every_listing_is_seen(part):
    keep(part)

    assert complaints(part, MATCH_CURSOR, EPOCH + 1) == []
    assert len(complaints(part, MATCH_CURSOR, EPOCH + 2)) == 1
    assert complaints(part, named("cursors", "listings.processor", "listings_raw"), EPOCH + 2) == []


def test_what_is_written_down_as_sent_must_have_arrived(part):
    show(part)
    keep(part)
    part.table.execute("INSERT INTO notifications_sent (user_id, listing_id, sent_at) VALUES (1, 1, 'x')")

    assert len(list(part.wrong())) == 1
    tell(part)
    assert list(part.wrong()) == []


def test_a_readable_row_that_nobody_processed_is_seen(part, clock):
    part.table.execute("INSERT INTO sources (id, name) VALUES (1, 'flats')")
    part.table.execute(
        "INSERT INTO listings_raw (source_id, source_item_id, version, raw_json, fetched_at) "
        "VALUES (1, 'good', '1', '{\"preis\": 5}', '2023-11-14T22:13:21.000000Z'), "
        "(1, 'broken', '1', '{\"preis\": {}}', '2023-11-14T22:13:21.000000Z')"
    )

    assert list(part.wrong()) == []
    clock.now += 60
    assert list(part.wrong()) == ["a raw row of good was never processed"]


def test_a_parked_row_may_stay_only_if_its_flat_was_shown_as_unreadable_and_nobody_mended_it(part):
    part.table.execute("INSERT INTO sources (id, name) VALUES (1, 'flats')")
    part.table.execute(
        "INSERT INTO listings_raw (id, source_id, source_item_id, version, raw_json, fetched_at) "
        "VALUES (1, 1, ?, '1', ?, 'x')",
        (FLAT.item, json.dumps({"preis": {"?": 1}})),
    )
    body = json.dumps({"record": {"id": "1", "body": {"id": 1, "source_item_id": FLAT.item}}})
    parked = Entry("parked", token="t", effect="joined", label="x", body=body, why="failed")
    key = Key("listings.processor", "1")

    assert not part.is_final(key, parked)
    show(part, what="broken")
    assert part.is_final(key, parked)
    part._mend()
    assert not part.is_final(key, parked)
