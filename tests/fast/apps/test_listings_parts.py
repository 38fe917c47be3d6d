"""The pure parts of listings: fields, prices, free text, versions, filters, words."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from onefold.apps.listings.filters import Filter, filter_of, listing_of, matches
from onefold.apps.listings.listing import Listing, from_text, holds, listing
from onefold.apps.listings.numbers import amount, currency_of, number
from onefold.apps.listings.sites import READ, Site, bare, shape, stamped, value, version
from onefold.apps.listings.words import told
from onefold.apps.listings.writing import outcome
from tests.checkout import FIXTURES

RECORDED = FIXTURES / "listings"

WOHNEN = Site(
    url="https://wohnen.example/list",
    rows="results",
    id="wrk_id",
    currency="EUR",
    only={"vermarktungsart_miete": "1"},
    tags={"floor plan": "has_grundriss"},
    fields={
        "title": "titel",
        "price": "preis",
        "bedrooms": "anzahl_zimmer",
        "square_meters": "groesse",
        "city": "ort",
        "street": "strasse",
        "area_text": "{plz} {ort}",
        "image_url": "preview_img_url",
        "url": "https://wohnen.example/{slug}",
    },
)
POSTS = Site(url="https://posts.example", id="id", text="text", fields={"city": "=תל אביב"})


def read(row: dict[str, Any], site: Site = WOHNEN) -> Listing:
    found = listing(row, site)
    assert found is not None
    return found


# ----- numbers


@pytest.mark.parametrize(
    ("written", "wanted"),
    [
        (959.87, 959.87),
        (7000, 7000),
        ("7000", 7000),
        ("7,000", 7000),
        ("7.000", 7000),
        ("7 000 ₪", 7000),
        ("7'000", 7000),
        ("7\u00a0000", 7000),
        ("₪7,500", 7500),
        ('5,850 ש"ח', 5850),
        ("1.234,50 €", 1234.5),
        ("1,234.50", 1234.5),
        ("1.234.567", 1234567),
        ("959,87", 959.87),
        ("3.5", 3.5),
        ("7,000 - 7,500", 7000),
        ("on request", None),
        ("", None),
        (None, None),
        (0, None),
        ("0", None),
    ],
)
def test_a_price_is_read_in_every_writing(written, wanted):
    assert amount(written) == wanted


@pytest.mark.parametrize("written", [-5, "-5", {"amount": 5}, [5], True, float("nan")])
def test_a_price_that_is_no_amount_is_refused_with_the_reason(written):
    with pytest.raises(ValueError, match="its price is"):
        amount(written)


def test_rooms_may_be_none_and_halves_and_words():
    assert [number(one) for one in (0, "2,5", 2.5, "studio", None, "3.")] == [0, 2.5, 2.5, None, None, 3]


def test_a_currency_is_read_off_the_sign_of_the_price():
    assert [currency_of(one) for one in ("7 ₪", "7 €", '7 ש"ח', "7", 7)] == ["ILS", "EUR", "ILS", None, None]


@pytest.mark.parametrize(
    ("said", "yes"), [("1", True), (True, True), ("yes", True), ("0", False), (None, False), ("False", False)]
)
def test_a_tag_holds_where_its_field_says_yes(said, yes):
    assert holds(said) is yes


# ----- fields

ROW = {"titel": " Flat ", "preis": "1.050,00 €", "vermarktungsart_miete": "1", "slug": "a-1", "ort": "Berlin"}


def test_a_row_is_read_by_its_declared_mapping():
    found = read({**ROW, "plz": "14169", "has_grundriss": True, "preview_img_url": {"odd": 1}})

    assert (found.title, found.price, found.currency, found.price_period) == ("Flat", 1050, "EUR", "month")
    assert (found.url, found.area_text, found.tags) == (
        "https://wohnen.example/a-1",
        "14169 Berlin",
        ("floor plan",),
    )
    assert (found.image_url, found.bedrooms, found.posted_at) == (None, None, None)


def test_a_flat_for_sale_is_not_a_listing():
    assert listing({**ROW, "vermarktungsart_miete": "0"}, WOHNEN) is None


def test_a_row_without_a_title_is_broken():
    with pytest.raises(ValueError, match="neither a title nor a text"):
        listing({**ROW, "titel": " "}, WOHNEN)


def test_a_template_without_its_field_gives_nothing():
    assert value({}, "https://x.example/{slug}") is None
    assert value({"a": {"b": 5}}, "n{a.b}!") == "n5!"
    assert value({}, "=כן") == "כן"


def test_a_post_that_says_a_time_in_no_known_form_has_no_time():
    site = msgspec.structs.replace(WOHNEN, fields={**WOHNEN.fields, "posted_at": "when"})

    assert read({**ROW, "when": "yesterday"}, site).posted_at is None
    assert read({**ROW, "when": "2026-01-01T00:00:00Z"}, site).posted_at == 1767225600


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"fields": {"rent": "x"}}, "no field rent"),
        ({"fields": {}}, "needs fields"),
        ({"fields": {"title": "{a"}}, "cannot be read"),
        ({"limit": 1}, "limit is 1"),
    ],
)
def test_a_site_that_makes_no_sense_is_refused(change, says):
    with pytest.raises(ValueError, match=says):
        Site(**{"url": "https://x.example", "fields": {"title": "t"}, **change})


# ----- versions


def test_a_changed_price_is_another_version_and_a_changed_counter_is_not():
    row = {**ROW, READ: 1000.0}
    first = version(row, WOHNEN, 86400)

    assert version({**row, "preis": 7}, WOHNEN, 86400) != first
    assert version({**row, "views": 5, "is_on_favlist": "1", READ: 2000.0}, WOHNEN, 86400) == first


def test_a_price_that_came_back_is_another_version_by_the_sites_time_or_on_the_next_day():
    told_by_site = msgspec.structs.replace(WOHNEN, updated="t", unit="s")
    row = {**ROW, READ: 1000.0}

    assert version(row, WOHNEN, 86400) != version({**row, READ: 90000.0}, WOHNEN, 86400)
    assert version({**row, "t": 5}, told_by_site, 86400) != version({**row, "t": 6}, told_by_site, 86400)
    assert version({**row, "t": 5}, told_by_site, 86400) == version(
        {**row, "t": 5, READ: 90000.0}, told_by_site, 86400
    )
    assert version({**row, "t": "odd"}, told_by_site, 86400) == version(row, WOHNEN, 86400)


def test_only_what_is_a_record_is_stamped_so_that_a_broken_row_stays_the_same_one():
    timed = msgspec.structs.replace(WOHNEN, at="t", unit="s")
    far, good = {"wrk_id": "b", "t": 9e9}, {"wrk_id": "c", "t": 1.5e9}
    rows = ["odd", {"no": "id"}, far, good]
    found = stamped(rows, shape(timed), 1.6e9)

    assert found == ["odd", {"no": "id"}, far, {**good, READ: 1.6e9}]
    assert bare(found[3]) == good


# ----- filters

ANY = Filter(1, 1, "c", "any")
FLAT = {
    "title": "Flat <3",
    "description": "ליד הים",
    "price": 5000,
    "bedrooms": 3,
    "city": "חיפה",
    "tags_json": '["Pets"]',
}


@pytest.mark.parametrize(
    ("limits", "wanted"),
    [
        ({}, True),
        ({"min_price": 5000, "max_price": 5000}, True),
        ({"max_price": 4999}, False),
        ({"min_price": 5001}, False),
        ({"min_bedrooms": 4}, False),
        ({"max_bedrooms": 3}, True),
        ({"cities": frozenset({"חיפה"})}, True),
        ({"cities": frozenset({"berlin"})}, False),
        ({"neighborhoods": frozenset({"x"})}, False),
        ({"keywords": frozenset({"הים", "parking"})}, True),
        ({"keywords": frozenset({"parking"})}, False),
        ({"must": frozenset({"pets"})}, True),
        ({"must": frozenset({"pets", "lift"})}, False),
        ({"exclude": frozenset({"pets"})}, False),
    ],
)
def test_a_filter_decides(limits, wanted):
    assert matches(ANY._replace(**limits), listing_of(FLAT)) is wanted


def test_a_price_that_is_not_known_is_within_no_limit():
    unknown = {**FLAT, "price": None, "tags_json": None}

    assert matches(ANY, listing_of(unknown))
    assert not matches(ANY._replace(max_price=10**6), listing_of(unknown))


FILTER = {"id": 1, "user_id": 2, "telegram_chat_id": 77, "name": None}


def test_a_filter_is_read_from_its_row():
    found = filter_of({**FILTER, "max_price": 5000, "cities_json": '["Berlin ", ""]', "keywords_json": ""})

    assert found == Filter(1, 2, "77", "", max_price=5000, cities=frozenset({"berlin"}))


@pytest.mark.parametrize("text", ["[", '{"a": 1}', "[1]", '"berlin"'])
def test_a_filter_with_broken_json_is_refused_and_not_taken_for_one_without_limits(text):
    with pytest.raises(ValueError, match="cities_json"):
        filter_of({**FILTER, "cities_json": text})


# ----- what became of a listing


def test_the_outcome_says_what_became_of_a_listing():
    made = read(ROW)
    stood = {"price": 1050.0, "version_at": "2026-01-01T00:00:00.000000Z"}

    assert outcome(None, made, 2e9) == "new"
    assert outcome(stood, made, 2e9) == "unchanged"
    assert outcome({**stood, "price": 9.0}, made, 2e9) == "changed price"
    assert outcome(stood, made, 1e9) == "older"
    assert outcome({**stood, "version_at": None}, made, 1e9) == "unchanged"


# ----- words


def test_a_title_with_tags_is_escaped_in_a_message():
    text = told({**FLAT, "url": 'https://x.example/"a"', "currency": "ILS", "square_meters": 61.5}, "<mine>")

    assert text.startswith('<b><a href="https://x.example/&quot;a&quot;">Flat &lt;3</a></b>')
    assert "₪5,000 · 3 rooms · 61.5 m²" in text
    assert "<blockquote>ליד הים</blockquote>" in text
    assert text.endswith("<i>&lt;mine&gt;</i>")


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"price": None}, "price on request"),
        ({"price": 4500, "price_before": 5000, "currency": "EUR"}, "€4,500 (was €5,000)"),
        ({"currency": "CHF"}, "CHF 5,000"),
        ({"bedrooms": 0}, "studio"),
        ({"bedrooms": 1}, "1 room\n"),
        ({"bedrooms": 2.5}, "2.5 rooms"),
        ({"url": "javascript:alert(1)"}, "<b>Flat &lt;3</b>"),
    ],
)
def test_a_message_says_it_plainly(change, says):
    assert says in told({**FLAT, **change})


# ----- recorded data


@pytest.mark.skipif(not RECORDED.exists(), reason="the recorded data is not here")
def test_recorded_flats_parse_without_loss():
    rows = json.loads((RECORDED / "deutsche_wohnen_list_83.json").read_text("utf-8"))["results"]
    found = [read(row) for row in rows]

    assert len(found) == 83
    assert len({row["wrk_id"] for row in rows}) == 83
    for row, one in zip(rows, found, strict=True):
        assert (one.price, one.bedrooms, one.square_meters, one.city) == (
            row["preis"], row["anzahl_zimmer"], row["groesse"], row["ort"].strip(),
        )  # fmt: skip


@pytest.mark.skipif(not RECORDED.exists(), reason="the recorded data is not here")
def test_recorded_hebrew_posts_say_what_people_read_in_them():
    posts = json.loads((RECORDED / "rental_posts_he_golden_odd.json").read_text("utf-8"))
    for post in posts:
        wanted, found = post["expected"], listing(post, POSTS)
        if not wanted["isRental"]:
            assert found is None
            continue
        assert found is not None
        said = found.price, found.currency, found.bedrooms, found.square_meters, found.city
        price = wanted["price"]
        assert said == (
            price["amount"],
            price["currency"],
            wanted["bedrooms"],
            wanted["squareMeters"],
            wanted["city"],
        )
        assert found.description == post["text"].strip()


@pytest.mark.parametrize(
    ("said", "wanted"),
    [
        (
            "דירת 3 חדרים 75 מטר 7,000 ₪",
            {"price": "7,000", "currency": "ILS", "bedrooms": "3", "square_meters": "75"},
        ),
        ("דמי ניהול 1350 לחודש מחיר מבוקש 8,100", {"price": "8,100"}),
        ("nothing of the kind", {}),
    ],
)
def test_a_free_text_is_read_as_far_as_it_goes(said, wanted):
    assert from_text(said) == wanted
