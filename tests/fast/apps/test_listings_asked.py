"""Rows of a listing site are about what was asked: the site, the search, the types that the settings name."""

from __future__ import annotations

import logging
from typing import Any

import msgspec
import pytest

from onefold.apps.listings.filters import filter_of, is_enabled, listing_of
from onefold.apps.listings.listing import Listing, from_text, holds, listing
from onefold.apps.listings.pipeline import Rows
from onefold.apps.listings.sites import Site, shape
from onefold.apps.listings.writing import noted, parsed, placed
from onefold.core.errors import Rejected
from onefold.core.record import Broken, Record
from onefold.core.rows import records, rows_of
from onefold.core.wire import Unreadable
from onefold.runtime import now
from onefold.worlds.chat import ChatWorld
from onefold.worlds.listings import Change, Flat, ListingSites
from tests.databases import Place
from tests.fast.apps.letting import add_raw, heard, place, raw_row, settings, sites, waiting, watch, worker
from tests.fast.sinks.stage import run_until

__all__ = ["place"]

FLATS = Site(
    url="https://api.flats.example/search?city=Haifa",
    fields={"title": "title", "price": "price", "bedrooms": "rooms", "url": "link"},
)
ROW: dict[str, Any] = {
    "id": "a",
    "title": "Flat",
    "price": 5000,
    "rooms": 3,
    "link": "https://flats.example/a",
}


def site(**change: Any) -> Site:
    return msgspec.structs.replace(FLATS, **change)


def read(row: dict[str, Any], how: Site = FLATS) -> Listing:
    found = listing(row, how)
    assert found is not None
    return found


def shown(rows: list[Any], how: Site = FLATS) -> tuple[list[Record], list[Broken]]:
    """Read rows as the collector does."""
    found = shape(how)
    return records(rows_of(Rows("flats", how, found)(rows), None), found, now())


# ----- typed comparisons


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        ("true", True), ("True", True), (True, True), (True, "true"), (False, "False"), ("false", False),
        ("1", 1), ("1", 1.0), (1, 1.0), (1, "1"), (1.5, "1.5"), ("1", "1"), ("x", "x"), ("null", None),
    ],
)  # fmt: skip
def test_only_compares_by_type_and_not_by_how_python_prints(wanted, found):
    assert listing({**ROW, "active": found}, site(only={"active": wanted})) is not None


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        ("true", False), ("true", 1), (True, 1), (1, True), ("1", True), (True, "yes"), ("01", 1),
        ("1", "01"), ("true", None), (False, None),
        (0, None), ("", None), ("x", "X"), ("[]", []), ("{}", {}), (0, False),
    ],
)  # fmt: skip
def test_only_takes_no_value_of_another_kind(wanted, found):
    assert listing({**ROW, "active": found}, site(only={"active": wanted})) is None


def test_settings_may_name_true_and_numbers_as_they_are():
    declared = {"url": "https://x.example", "fields": {"title": "t"}, "only": {"active": True, "kind": 1}}

    assert msgspec.convert(declared, Site).only == {"active": True, "kind": 1}


@pytest.mark.parametrize(
    ("said", "yes"),
    [
        (True, True), (False, False), (2, True), (0, False), (0.0, False), (float("nan"), False), ("2", True),
        ("0.0", False), ("00", False), ("nein", False), ("לא", False), ("-", False), ("garage", True),
        ([], False), (["x"], True), ({}, False), ({"value": False}, False), (" ", False),
    ],
)  # fmt: skip
def test_a_tag_holds_by_the_type_of_its_field(said, yes):
    assert holds(said) is yes


@pytest.mark.parametrize("odd", [True, [5], {"city": "x"}])
def test_a_text_of_a_wrong_type_is_no_text(odd):
    with pytest.raises(ValueError, match="neither a title"):
        listing({**ROW, "title": odd}, FLATS)


def test_a_blank_field_does_not_hide_what_the_text_says():
    how = site(text="post", fields={"title": "title", "price": "price"})

    assert read({**ROW, "price": " ", "post": "3 חדרים 7,000 ₪"}, how).price == 7000


def test_a_text_that_no_table_stores_is_cleaned_and_such_an_id_is_broken():
    assert read({**ROW, "title": "Fl\0at"}).title == "Flat"
    assert [one.reason for one in shown([{**ROW, "id": "a\0"}])[1]] == [
        "its id holds a NUL, which no table stores"
    ]


# ----- currencies


@pytest.mark.parametrize(
    ("row", "home", "wanted"),
    [
        ({"price": "CHF 2’710"}, "ILS", "CHF"),
        ({"price": "2710 ₿"}, "ILS", "₿"),
        ({"price": 2710, "currency": "Zorkmid"}, "ILS", "Zorkmid"),
        ({"price": 2710, "currency": "€"}, "ILS", "EUR"),
        ({"price": "$2710", "currency": "CAD"}, "ILS", "CAD"),
        ({"price": "2710 €", "currency": " "}, "ILS", "EUR"),
        ({"price": 2710}, "EUR", "EUR"),
        ({"post": "7,000 ₪"}, "EUR", "ILS"),
        ({"post": "7,000 ₪", "price": 2710}, "EUR", "EUR"),
        ({"post": "מחיר 7000"}, "EUR", "EUR"),
    ],
)
def test_a_currency_is_kept_as_it_is_and_only_a_missing_one_is_the_sites(row, home, wanted):
    fields = {"title": "title", "price": "price", "currency": "currency"}

    assert read({"title": "Flat", **row}, site(fields=fields, text="post", currency=home)).currency == wanted


@pytest.mark.parametrize("odd", [True, {"code": "EUR"}, ["EUR"]])
def test_a_currency_of_a_wrong_type_is_broken_and_not_replaced(odd):
    with pytest.raises(ValueError, match="its currency is"):
        listing({**ROW, "currency": odd}, site(fields={**FLATS.fields, "currency": "currency"}))


# ----- free text


@pytest.mark.parametrize(
    ("said", "wanted"),
    [
        ("מחיר 0541234567", {}),
        ("מחיר: 054-1234567, 7,000 ₪", {"price": "7,000", "currency": "ILS"}),
        ("כניסה 01/04/26 מחיר 2026-04-01", {}),
        ("7’000 ₪", {"price": "7'000", "currency": "ILS"}),
        ("3\u2009500 ₪", {"price": "3 500", "currency": "ILS"}),
        ("ב-7000 ₪", {"price": "7000", "currency": "ILS"}),
        ("7000-7500 ₪", {"price": "7000", "currency": "ILS"}),
        ("3½ חדרים", {"bedrooms": "3½"}),
        ("2-3 חדרים", {"bedrooms": "2"}),
        ("1,200 מ״ר", {"square_meters": "1,200"}),
        ("56.5 מטר", {"square_meters": "56.5"}),
    ],
)
def test_a_free_text_says_numbers_whole_or_not_at_all(said, wanted):
    assert from_text(said) == wanted


# ----- fields that are always empty


def test_a_path_that_is_empty_in_every_row_is_told_once_with_its_field_and_site(caplog):
    how = site(fields={**FLATS.fields, "city": "adress.city"}, tags={"lift": "elevator"}, updated="chnged")
    rows = Rows("wohnen", how, shape(how))
    with caplog.at_level(logging.WARNING, "onefold.apps"):
        for _ in range(3):
            rows([ROW, {**ROW, "id": "b", "address": {"city": "Haifa"}}])

    assert [one.getMessage() for one in caplog.records] == [
        "site wohnen: city is empty in all 2 rows of a page: is its path 'adress.city' right?",
        "site wohnen: tag lift is empty in all 2 rows of a page: is its path 'elevator' right?",
        "site wohnen: updated is empty in all 2 rows of a page: is its path 'chnged' right?",
    ]


def test_a_field_that_one_row_has_is_not_told_of_and_no_page_without_rows_is(caplog):
    rows = Rows("wohnen", FLATS, shape(FLATS))
    with caplog.at_level(logging.WARNING, "onefold.apps"):
        rows([])
        rows(["odd", {"no": "id"}])
        rows([{"id": "b"}, ROW])

    assert caplog.records == []


# ----- links, searches and answers


@pytest.mark.parametrize(
    ("link", "reason"),
    [
        ("https://evil.example/a", "leads to evil.example"),
        ("https://flats.example@evil.example/a", "no link to the web"),
        ("https://evil.example\\@flats.example/a", "no link to the web"),
        ("https://flats.example.evil.example/a", "leads to flats.example.evil.example"),
        ("https://notflats.example/a", "leads to notflats.example"),
        ("//evil.example/a", "leads to evil.example"),
        ("https://[evil/a", "no link to the web"),
        ("javascript:alert(1)", "no link to the web"),
        ("https://flats.example/\na", "no link to the web"),
        ({"href": "https://flats.example"}, "no text"),
        (True, "no text"),
    ],
)
def test_a_row_whose_link_leads_elsewhere_is_set_aside_and_the_others_arrive(link, reason):
    bad = {**ROW, "id": "bad", "link": link}

    good, broken = shown([ROW, bad, {**ROW, "id": "b"}])

    assert [one.id for one in good] == ["a", "b"]
    assert len(broken) == 1
    assert reason in broken[0].reason
    with pytest.raises(ValueError, match="its link"):
        listing(bad, FLATS)


@pytest.mark.parametrize(
    ("link", "more"),
    [
        ("https://flats.example/a", {}),
        ("https://www.flats.example:8443/a b", {}),
        ("HTTPS://API.FLATS.EXAMPLE./a", {}),
        ("/a", {}),
        ("", {}),
        (None, {}),
        ("https://other.example/a", {"hosts": ("other.example",)}),
    ],
)
def test_a_link_may_lead_to_the_site_itself_and_to_the_hosts_of_the_settings(link, more):
    assert read({**ROW, "link": link}, site(**more)).title == "Flat"


@pytest.mark.parametrize(
    ("spec", "slug", "ours"),
    [
        ("https://shop.example/{slug}", "@evil.example", True),
        ("https://shop.example{slug}", "/a", True),
        ("https://shop.example{slug}", ".evil.example/a", False),
        ("https://shop.example{slug}", "@evil.example/a", False),
        ("https://{slug}/a", "evil.example", False),
        ("https://shop.example/{slug}", ["a"], False),
        ("=https://shop.example", "a", True),
    ],
)
def test_a_template_leads_to_the_host_that_it_names(spec, slug, ours):
    good, broken = shown([{**ROW, "slug": slug}], site(fields={"title": "title", "url": spec}))

    assert (len(good), len(broken)) == ((1, 0) if ours else (0, 1))


def test_a_row_of_another_search_is_set_aside_with_the_reason_and_the_others_arrive():
    how = site(expect={"city": "Haifa", "rent": True})
    ours = {**ROW, "city": "Haifa", "rent": True}
    odd = [{**ours, "city": "Berlin"}, {**ours, "rent": 1}, ROW]

    good, broken = shown([ours, *odd], how)

    assert [one.body["city"] for one in good] == ["Haifa"]
    assert [one.reason for one in broken] == [
        "its city is Berlin, but Haifa was asked for (see expect)",
        "its rent is 1, but True was asked for (see expect)",
        "its city is null, but Haifa was asked for (see expect)",
    ]


def test_what_is_no_listing_anyway_may_lead_elsewhere():
    advert = {**ROW, "kind": "ad", "link": "https://evil.example"}
    how = site(only={"kind": "flat"}, expect={"city": "Haifa"})

    assert [one.id for one in shown([advert], how)[0]] == ["a"]
    assert listing(advert, how) is None


def test_an_answer_to_another_question_is_not_read():
    how = site(rows="items", expect_answer={"search.city": "Haifa"})
    rows = Rows("flats", how, shape(how))

    assert len(rows({"search": {"city": "Haifa"}, "items": [ROW]})) == 1
    with pytest.raises(Unreadable, match=r"search.city is Berlin, not Haifa"):
        rows({"search": {"city": "Berlin"}, "items": [ROW]})
    with pytest.raises(Unreadable, match=r"found \(Unreadable\('search.city is null, not Haifa'\)\)"):
        rows_of({"items": [ROW]}, rows)


@pytest.mark.parametrize("host", ["https://x.example", "x.example/a", "x.example:80", ""])
def test_a_host_of_the_settings_is_a_host_alone(host):
    with pytest.raises(ValueError, match="a host alone"):
        site(hosts=(host,)).__post_init__()


@pytest.mark.parametrize("change", [{"tags": {"lift": "{a"}}, {"only": {"{a": "1"}}, {"text": "{a"}])
def test_a_path_that_cannot_be_read_is_refused_in_the_settings(change):
    with pytest.raises(ValueError, match="cannot be read"):
        site(**change).__post_init__()


# ----- raw rows


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        ('{"id": NaN}', "NaN"),
        ('{"id": 1, "id": 2}', "stands twice"),
        ('{"title": "\\ud800"}', "surrogate"),
        ("[" * 100_000, "nested without end"),
        ("[]", "no object"),
    ],
)
def test_a_raw_row_of_other_programs_is_read_as_strictly_as_a_site(raw, reason):
    with pytest.raises(Rejected, match=reason):
        parsed(raw)


def test_a_link_of_a_wrong_type_is_not_written_down():
    body = {**ROW, "link": {"href": "x"}, "onefold:read": 1.0}

    assert noted(Record("a", body, 0), FLATS, 86400)["url"] is None


def test_a_time_of_change_that_no_clock_shows_is_replaced_by_the_time_of_reading():
    read_at = 1.7e9

    assert [placed(at, read_at) for at in (None, 0.0, 1.6e9, read_at + 3600, 9e18)] == [
        read_at, read_at, 1.6e9, read_at + 3600, read_at,
    ]  # fmt: skip


@pytest.mark.parametrize("odd", [9e18, -1, 0, "9" * 30])
def test_a_time_of_posting_that_no_calendar_holds_is_left_out(odd):
    how = site(unit="s", fields={**FLATS.fields, "posted_at": "when"})

    assert read({**ROW, "when": odd}, how).posted_at is None


# ----- filters and listings as tables hold them

FILTER = {"id": 1, "user_id": 2, "telegram_chat_id": "77", "name": None, "enabled": 1}


@pytest.mark.parametrize(
    "odd", [{"telegram_chat_id": None}, {"telegram_chat_id": " "}, {"max_price": "NaN"}, {"max_price": True},
            {"min_price": float("nan")}, {"min_price": "5,000"}],
)  # fmt: skip
def test_a_filter_of_wrong_types_is_refused(odd):
    with pytest.raises(ValueError, match="its "):
        filter_of({**FILTER, **odd})


def test_a_filter_is_switched_by_a_number_and_not_by_a_text():
    assert [is_enabled({"enabled": one}) for one in (0, 1, True, False, None)] == [
        False, True, True, False, False,
    ]  # fmt: skip
    with pytest.raises(ValueError, match="its enabled is 'false': write 0 or 1"):
        is_enabled({"enabled": "false"})


@pytest.mark.parametrize(
    "odd", [{"title": None}, {"title": 5}, {"price": "cheap"}, {"price": float("inf")}, {"tags_json": "["},
            {"tags_json": "[1]"}, {"bedrooms": "3"}],
)  # fmt: skip
def test_a_listing_of_wrong_types_is_refused(odd):
    with pytest.raises(ValueError, match="its "):
        listing_of({"title": "Flat", "price": 5.0, **odd})


# ----- with tables, sites and a chat


def flat(item: str, city: str) -> Change:
    return Change(Flat("flats", item, "flat", 5000, 3, city, "x", "y", False))


def test_only_flats_of_the_search_are_told_and_the_others_are_parked_one_by_one(place: Place):
    watch(place, "ann")
    with ListingSites() as world, ChatWorld() as chat:
        world.happen(now() - 60, flat("a", "Haifa"), flat("b", "Berlin"), flat("c", "Haifa"))
        how = msgspec.structs.replace(sites(world.url)["flats"], expect={"ort": "Haifa"})
        one = worker(settings(place, world, chat, sites={"flats": how}), place)
        run_until(one, lambda: len(heard(chat)) == 2)

    assert set(heard(chat)) == {("ann", "a"), ("ann", "c")}
    found, _ = place.store.scan("listings.collector.broken", ["parked"], False, None, 10)
    assert len(found) == 1
    assert one.tallies["listings.collector"].total("broken") == 1


def test_a_listing_that_cannot_be_read_is_set_aside_and_stops_no_other(place: Place):
    watch(place, "ann")
    add_raw(place, "a", raw_row("a"))
    add_raw(place, "b", raw_row("b"))
    with ChatWorld() as chat:
        run_until(worker(settings(place, None, None), place, "processor"), lambda: waiting(place) == 0)
        place.run("UPDATE listings SET tags_json = '[' WHERE source_item_id = 'a'")
        run_until(worker(settings(place, None, chat), place, "notifier"), lambda: bool(heard(chat)))

    assert set(heard(chat)) == {("ann", "b")}
    found, _ = place.store.scan("listings.notifier.broken", ["parked"], False, None, 10)
    assert len(found) == 1


@pytest.mark.parametrize(
    ("row", "says"),
    [
        (raw_row("b"), "but the row is that of 'a'"),
        (raw_row("a", "054-1234567"), "no amount"),
        (raw_row("a", anzahl_zimmer="2 bed 1 bath"), "its bedrooms is"),
        ('{"preis": NaN}', "NaN"),
    ],
)
def test_a_raw_row_that_is_not_what_it_should_be_is_parked_alone(place: Place, row, says):
    bad = add_raw(place, "a", row)
    add_raw(place, "good", raw_row("good"), "2026-02-22T11:00:00.000000Z")
    one = worker(settings(place, None, None), place, "processor")
    run_until(one, lambda: bool(place.run("SELECT 1 FROM listings_raw WHERE parked = 'failed'")))

    [[error]] = place.run("SELECT last_error FROM listings_raw WHERE id = ?", bad)
    assert says in error
    assert place.run("SELECT source_item_id FROM listings") == [("good",)]
