"""Damaged pages of each listing site go from JSON text to messages, without sockets and tables.

The other rows of a page arrive as if nothing had happened. Nobody is told of a listing that does not belong
to the site and the search. A failure prints its seed; `replay("flats", SEED)` goes through that page again.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import msgspec
import pytest

from onefold.apps.listings.filters import Filter, listing_of
from onefold.apps.listings.listing import Listing
from onefold.apps.listings.matching import match_parts, matched
from onefold.apps.listings.pipeline import Rows
from onefold.apps.listings.sites import Site, bare, changed, shape
from onefold.apps.listings.words import message
from onefold.apps.listings.writing import noted, outcome, placed, read_raw
from onefold.core.errors import Rejected
from onefold.core.record import Record
from onefold.core.rows import records
from onefold.core.wire import parse
from onefold.tables.times import OURS
from tests.checkout import FIXTURES
from tests.mutations import Page, Row, page, pages

RECORDED = FIXTURES / "listings"
recorded = pytest.mark.skipif(not RECORDED.exists(), reason="the recorded data is not here")

NOW = 1_790_000_000.0
ANYBODY = [Filter(1, 1, "ann", "any"), Filter(2, 2, "bob", "cheap", max_price=6000.0, min_bedrooms=1.0)]
ELSEWHERE = "https://evil.example/flat"


class Case(NamedTuple):
    """A site, rows as it shows them, and the fields that say whose they are, with values of others."""

    site: Site
    rows: Sequence[Row]
    owners: Mapping[str, Any]
    host: str
    """Where links may lead."""


class Arrived(NamedTuple):
    """What became of a row that is a record."""

    record: Record
    made: Listing | None
    told: Sequence[Record]


class Stage:
    """Walks pages of one case; a row that was not damaged is walked once."""

    def __init__(self, case: Case) -> None:
        self.case = case
        self._how = shape(case.site)
        self._rows = Rows("fuzz", case.site, self._how)
        self._whole: dict[str, tuple[str, Listing | None]] = {}
        self._known: dict[str, Arrived] = {}

    def whole(self, text: str) -> tuple[str, Listing | None]:
        """Return the name and the listing of a row that stands alone in its page."""
        if text not in self._whole:
            [only], _, _ = self.walk(f"[{text}]")
            self._whole[text] = only.record.id, only.made
            self._known[only.record.id] = only
        return self._whole[text]

    def walk(self, text: str) -> tuple[list[Arrived], int, int]:
        """Take a page from its text to messages; count the rows set aside before and after noting."""
        rows = self._rows(parse(f'{{"results": {text}}}'))
        good, broken = records(rows, self._how, NOW)
        assert len(good) + len(broken) == len(rows)
        found = [self._arrive(record) for record in good]
        arrived = [one for one in found if one is not None]
        return arrived, len(broken), len(found) - len(arrived)

    def _arrive(self, record: Record) -> Arrived | None:
        known = self._known.get(record.id)
        if known and bare(known.record.body) == bare(record.body):
            return known
        found = arrive(record, self.case.site)
        for match in found.told if found else ():
            assert match_parts(match) == (match.body["chat"], "fuzz", record.id)
            check_message(message(match), record.body, self.case)
        return found

    def judge(self, one: Page) -> str:
        """Check what must hold of a page, and say what became of its damaged row."""
        arrived, broken, rejected = self.walk(one.text)
        assert len(arrived) + broken + rejected == len(one.rows)
        others = [self.whole(text) for index, text in enumerate(one.rows) if index != one.spoiled]
        names = [(each.record.id, each.made) for each in arrived]
        assert all(other in names for other in others), "a row is lost"
        mine = [each for each, name in zip(arrived, names, strict=True) if name not in others]
        if not mine:
            return "set aside"
        return "told" if mine[0].told else "no listing" if mine[0].made is None else "fits nobody"


# ----- small data of our own

FLATS = Site(
    url="https://api.flats.example/search?portal=haifa",
    rows="results",
    at="changed",
    updated="changed",
    only={"active": "true"},
    expect={"portal": "haifa"},
    tags={"elevator": "lift", "pets": "details.pets"},
    fields={
        "title": "title", "price": "price", "currency": "details.currency", "bedrooms": "rooms",
        "square_meters": "area", "floor": "details.floor", "city": "details.city", "url": "link",
        "area_text": "{details.city} {zip}", "posted_at": "posted",
    },
)  # fmt: skip


def flat(number: int, price: Any, rooms: Any, **more: Any) -> Row:
    return {
        "id": f"f{number}",
        "title": f"flat <{number}>",
        "price": price,
        "rooms": rooms,
        "area": "75,5 m²",
        "zip": 31000 + number,
        "active": True,
        "lift": "1",
        "portal": "haifa",
        "link": f"https://www.flats.example/{number}",
        "changed": f"2026-02-0{number}T10:00:00Z",
        "posted": f"2026-01-0{number}",
        "details": {"currency": "CHF", "floor": 2, "city": "Haifa", "pets": False},
        **more,
    }


POSTS = Site(
    url="https://posts.example/all",
    rows="results",
    id="post.id",
    text="post.text",
    expect={"group": 17},
    fields={"city": "area.city", "url": "https://posts.example/{post.id}"},
)


def post(number: int, said: str) -> Row:
    return {
        "post": {"id": f"p{number}", "text": said},
        "group": 17,
        "area": {"city": "חיפה", "x": [{"y": 1}]},
    }


CASES = {
    "flats": Case(
        FLATS,
        [
            flat(1, 5000, 3),
            flat(2, "CHF 2’710", "3 ½"),
            flat(3, "1.234,50 €", 2.5),
            flat(4, None, None),
            flat(5, "7,000 - 7,500", "2"),
        ],
        {"portal": "berlin", "link": ELSEWHERE},
        "flats.example",
    ),
    "posts": Case(
        POSTS,
        [
            post(1, "להשכרה דירת 3 חדרים 75 מטר מחיר 7,000 ₪ 054-1234567"),
            post(2, "דירת 2.5 חדרים בחיפה, 5850 ש״ח, כניסה 01/04/26"),
            post(3, "דירה יפה ליד הים"),
        ],
        {"group": 18},
        "posts.example",
    ),
}


def recorded_case(name: str) -> Case:
    rows: list[Row]
    if name == "recorded flats":
        rows = json.loads((RECORDED / "deutsche_wohnen_list_83.json").read_text("utf-8"))["results"]
        fields = {
            "title": "titel", "price": "preis", "bedrooms": "anzahl_zimmer", "square_meters": "groesse",
            "city": "ort", "street": "strasse", "area_text": "{plz} {ort}", "image_url": "preview_img_url",
            "url": "https://wohnen.example/{slug}",
        }  # fmt: skip
        site = Site(
            url="https://wohnen.example/list",
            rows="results",
            id="wrk_id",
            currency="EUR",
            only={"vermarktungsart_miete": "1"},
            expect={"vermarktungsart_kauf": "0"},
            tags={"floor plan": "has_grundriss"},
            fields=fields,
        )
        return Case(site, rows, {"vermarktungsart_kauf": "1"}, "wohnen.example")
    rows = json.loads((RECORDED / "rental_posts_he_golden_odd.json").read_text("utf-8"))
    site = Site(
        url="https://posts.example",
        rows="results",
        text="text",
        expect={"group": 17},
        fields={"city": "=תל אביב", "url": "https://posts.example/{id}"},
    )
    return Case(site, [{**row, "group": 17} for row in rows], {"group": 18}, "posts.example")


def case_of(name: str) -> Case:
    return CASES[name] if name in CASES else recorded_case(name)


# ----- the way of a page


def arrive(record: Record, site: Site) -> Arrived | None:
    """Note a row, read it again as the processor does, and match it; None if it is set aside."""
    note = noted(record, site, 86400.0)
    assert all(one is None or is_storable(one) for one in note.values())
    try:
        row, made = read_raw(str(note["raw_json"]), record.id, site)
    except Rejected:
        return None
    told = [] if made is None else tell(record, made, placed(changed(row, site), NOW))
    return Arrived(record, made, told)


def tell(record: Record, made: Listing, at: float) -> list[Record]:
    """Write a listing as its table holds it, and match it."""
    fields = made._asdict()
    row = {
        **fields,
        "tags_json": json.dumps(fields.pop("tags"), ensure_ascii=False),
        "id": 1,
        "source_name": "fuzz",
        "source_item_id": record.id,
        "noticed_at": OURS.written(at),
    }
    del row["tags"]
    assert all(one is None or is_storable(one) for one in row.values()), row
    assert made.posted_at is None or OURS.written(made.posted_at)
    assert made.price is None or made.price > 0
    assert outcome(None, made, at) == "new"
    return matched(ANYBODY, listing_of(row), set())


def is_storable(one: Any) -> bool:
    """Say whether every database takes a value: text without NUL and half characters, or a finite number."""
    if isinstance(one, str):
        return "\0" not in one and bool(one.encode() or True)
    return isinstance(one, int | float) and not isinstance(one, bool) and math.isfinite(one)


_LINK = re.compile(r'<a href="([^"]*)">')


def check_message(text: str, row: Mapping[str, Any], case: Case) -> None:
    """Check that a message is about a row of the site and of the search, and leads there."""
    for path, wanted in case.site.expect.items():
        said = str(row[path]).removesuffix(".0")  # 17, 17.0 and "17" are the same number
        assert said == str(wanted), f"told of a row whose {path} is {row[path]!r}"
    for link in _LINK.findall(text):
        host = urlsplit(link.replace("&amp;", "&")).hostname or ""
        assert host == case.host or host.endswith(f".{case.host}"), f"told of a link to {host}"
    text.encode()


def survive(name: str, count: int) -> Counter[str]:
    """Judge the first pages of a site; a failure names the seed and how to replay it."""
    case, fates = case_of(name), Counter[str]()
    stage = Stage(case)
    for one in pages(case.rows, owners=case.owners, count=count):
        try:
            fates[stage.judge(one)] += 1
        except Exception as error:
            pytest.fail(f"replay({name!r}, {one.seed}) fails: {one.how}: {error!r}")
    assert sum(fates.values()) == count
    return fates


def replay(name: str, seed: int) -> str:
    """Go through the page of one seed again."""
    case = case_of(name)
    return Stage(case).judge(page(case.rows, seed, owners=case.owners))


# ----- tests


@pytest.mark.parametrize("name", list(CASES))
def test_damaged_pages_lose_no_other_row_and_tell_of_nothing_foreign(name, count):
    fates = survive(name, count)

    assert fates["set aside"] > count / 5
    assert fates["told"] > count / 20


@recorded
@pytest.mark.parametrize("name", ["recorded flats", "recorded posts"])
def test_damaged_pages_of_recorded_sites_do_no_harm_either(name, count):
    fates = survive(name, count)

    assert fates["set aside"] > count / 20
    assert fates["told"] > count / 20


def test_a_row_of_somebody_else_would_be_found():
    case = CASES["flats"]
    careless = case._replace(site=msgspec.structs.replace(FLATS, hosts=("evil.example",)))
    text = json.dumps({**case.rows[0], "link": ELSEWHERE})
    one = Page(0, (text, json.dumps(case.rows[1])), 0, "planted")

    assert Stage(case).judge(one) == "set aside"
    with pytest.raises(AssertionError, match="told of a link to evil"):
        Stage(careless).judge(one)


def test_a_lost_row_would_be_found():
    stage = Stage(CASES["flats"])
    good, odd = (json.dumps(row) for row in CASES["flats"].rows[:2])
    assert stage.whole(good)[0] == "f1"
    spoiled = json.dumps({**json.loads(good), "portal": "berlin"})
    stage._whole[spoiled] = stage.whole(good)

    with pytest.raises(AssertionError, match="a row is lost"):
        stage.judge(Page(0, (spoiled, odd), 1, "planted"))


def test_a_seed_gives_the_same_page_and_the_same_fate_again():
    case = CASES["flats"]

    for seed in range(20):
        assert page(case.rows, seed, owners=case.owners) == page(case.rows, seed, owners=case.owners)
        assert replay("flats", seed) == replay("flats", seed)
