"""Two sites that list flats, each in its own way: by offset and sorted by change, and by links without order.

Rows hold Hebrew text and prices in many writings; some are no listings, some cannot be read. The journal says
which flats exist, what they cost, and when that changed. It must not know what anybody makes of them.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from datetime import UTC, datetime
from random import Random
from typing import Any, Literal, NamedTuple

from onefold.worlds.journal import Journal
from onefold.worlds.mischief import Mischief
from onefold.worlds.site import Request, Response, Site

Name = Literal["flats", "posts"]
What = Literal["flat", "sale", "wanted", "broken"]

CITIES = ("תל אביב", "ירושלים", "חיפה", "Berlin OT Zehlendorf")
QUARTERS = ("פלורנטין", "הצפון הישן", "רחביה", "<b>Center & more</b>")
STREETS = ("דוד ילין 3", "וושינגטון 31", "Wilskistr. 27", "סימטת צריפין 31")


class Flat(NamedTuple):
    """One flat, as it truly is."""

    site: Name
    item: str
    what: What
    price: int
    rooms: float
    city: str
    quarter: str
    street: str
    elevator: bool


class Change(NamedTuple):
    """Something that happens on a site: a flat appears, or costs something else from now on."""

    flat: Flat
    price: int | None = None


class ListingSites(Site):
    """`/api/flats` shows pages by offset, the last changed first; `/posts` shows links to its next page."""

    def __init__(self, mischief: Mischief | None = None, journal: Journal | None = None) -> None:
        routes = {("GET", "/api/flats"): self._flats, ("GET", "/posts"): self._posts}
        super().__init__(routes, mischief)
        self.journal = journal or Journal()
        self.most = 200
        """How many flats a page of the first site shows at most."""
        self.posts_page = 25
        """How many posts a page of the second site shows."""
        self._lock = threading.Lock()
        self._now: dict[tuple[Name, str], Flat] = {}
        self._changed: dict[tuple[Name, str], float] = {}

    # ----- what happens

    def happen(self, at: float, *changes: Change) -> None:
        """Let changes happen at a time."""
        with self._lock:
            for flat, price in changes:
                key = flat.site, flat.item
                self._now[key] = flat if price is None else self._now[key]._replace(price=price)
                self._changed[key] = at
                self.journal.note("flat" if price is None else "price", at=at, **self._now[key]._asdict())

    def remove(self, flat: Flat) -> None:
        """Take a flat off its site."""
        with self._lock:
            del self._now[flat.site, flat.item]
            self.journal.note("gone", **flat._asdict())

    # ----- what is shown

    def _flats(self, request: Request) -> Response:
        with self._lock:
            items = [flat for flat in self._now.values() if flat.site == "flats"]
            items.sort(key=lambda flat: (self._changed["flats", flat.item], flat.item), reverse=True)
            offset = int(request.query.get("offset", 0))
            limit = min(int(request.query.get("limit", 100)), self.most)
            page = [
                _as_flat(flat, self._changed["flats", flat.item]) for flat in items[offset : offset + limit]
            ]
        return Response({"paging": {"count": len(items)}, "results": page})

    def _posts(self, request: Request) -> Response:
        with self._lock:
            items = sorted(
                (one for one in self._now.values() if one.site == "posts"), key=lambda one: one.item
            )
        after = request.query.get("after", "")
        page = [one for one in items if one.item > after][: self.posts_page]
        more = bool(page) and page[-1].item != items[-1].item
        link = f"/posts?after={page[-1].item}" if more else None
        return Response({"items": [_as_post(one) for one in page], "links": {"next": link}})


def _as_flat(flat: Flat, changed: float) -> dict[str, Any]:
    when = datetime.fromtimestamp(changed, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    price: Any = {"?": flat.price} if flat.what == "broken" else flat.price
    return {
        "wrk_id": flat.item,
        "titel": f"{flat.rooms:g} חדרים, {flat.street}",
        "ort": flat.city,
        "viertel": flat.quarter,
        "strasse": flat.street,
        "preis": price,
        "anzahl_zimmer": flat.rooms,
        "vermarktungsart_miete": "0" if flat.what == "sale" else "1",
        "aufzug": "1" if flat.elevator else "0",
        "geaendert": when,
        "slug": f"flat-{flat.item}",
        "is_on_favlist": "0",
    }


def _as_post(flat: Flat) -> dict[str, Any]:
    written = (f"{flat.price:,} ₪", f'{flat.price} ש"ח', f"{flat.price:,}₪")[flat.price % 3]
    says = (
        f"להשכרה דירת {flat.rooms:g} חדרים ב{flat.city}, {flat.street} <כניסה מיידית> מחיר {written} & גמיש"
    )
    if flat.what == "wanted":
        says = f"היי, אני מחפש דירת {flat.rooms:g} חדרים באיזור {flat.quarter}"
    if flat.what == "broken":
        says = " "
    return {"post": {"id": flat.item, "text": says}, "area": {"city": flat.city, "quarter": flat.quarter}}


def draw(seed: int, number: int) -> list[Change]:
    """Draw so many flats, in the order in which they appear; some cost less after a while."""
    random = Random(seed)
    changes: list[Change] = []
    cheaper: list[Flat] = []
    for n in range(number):
        flat = _flat(random, n)
        changes.append(Change(flat))
        if flat.what == "flat" and random.random() < 0.4:
            cheaper.append(flat)
        if len(cheaper) > 3:
            one = cheaper.pop(0)
            changes.append(Change(one, int(one.price * 0.6)))
    changes += [Change(one, int(one.price * 0.6)) for one in cheaper]
    return changes


def _flat(random: Random, n: int) -> Flat:
    site: Name = random.choice(("flats", "posts"))
    kinds: Sequence[What] = ("flat",) * 8 + (("sale" if site == "flats" else "wanted"), "broken")
    return Flat(
        site,
        f"{n:04d}{random.randrange(16**4):04x}",
        random.choice(kinds),
        random.randrange(2_000, 16_000),
        random.choice((1, 2, 2.5, 3, 4)),
        random.choice(CITIES),
        random.choice(QUARTERS),
        random.choice(STREETS),
        random.random() < 0.5,
    )


def sections(url: str) -> str:
    """Write the mappings of both sites, as a configuration declares them."""
    return f"""\
[apps.listings.sites.flats]
url = "{url}/api/flats"
rows = "results"
paging = "offset"
limit = 20
id = "wrk_id"
at = "geaendert"
updated = "geaendert"
lag = "5m"
only = {{ vermarktungsart_miete = "1" }}
tags = {{ elevator = "aufzug" }}

[apps.listings.sites.flats.fields]
title = "titel"
price = "preis"
bedrooms = "anzahl_zimmer"
city = "ort"
neighborhood = "viertel"
street = "strasse"
url = "https://flats.example/{{slug}}"

[apps.listings.sites.posts]
url = "{url}/posts"
rows = "items"
paging = "next"
next = "links.next"
id = "post.id"
text = "post.text"
fields = {{ city = "area.city", neighborhood = "area.quarter", url = "https://posts.example/{{post.id}}" }}
"""
