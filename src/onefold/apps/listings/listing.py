"""From a row of a site to a listing: prices in any writing, rooms, and what a free text says.

Pure. What is no listing (a flat that somebody looks for, one for sale) is None; what cannot be understood is
a ValueError that says why.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from onefold.apps.listings.sites import Site, value
from onefold.core.rows import moment
from onefold.core.wire import Unreadable

TEXT = 4000
"""The longest description that is kept, in characters."""


class Listing(NamedTuple):
    """A flat that is to let, as filters and people read it."""

    title: str
    description: str | None
    price: float | None
    currency: str
    price_period: str
    bedrooms: float | None
    city: str | None
    neighborhood: str | None
    street: str | None
    area_text: str | None
    square_meters: float | None
    floor: float | None
    url: str | None
    image_url: str | None
    posted_at: float | None
    tags: tuple[str, ...] = ()


def listing(row: Mapping[str, Any], site: Site) -> Listing | None:
    """Read a row; None if it is no listing."""
    if any(str(value(row, path)) != wanted for path, wanted in site.only.items()):
        return None
    said = text(value(row, site.text)) if site.text else None
    if said and is_wanted_ad(said):
        return None
    given = {name: value(row, spec) for name, spec in site.fields.items()}
    read = {**from_text(said or ""), **{name: one for name, one in given.items() if one is not None}}
    title = text(read.get("title")) or (said or "")[:80]
    if not title.strip():
        raise ValueError("it has neither a title nor a text")
    return Listing(
        title.strip(),
        (text(read.get("description")) or said or "")[:TEXT] or None,
        amount(read.get("price")),
        text(read.get("currency")) or currency_of(read.get("price")) or site.currency,
        site.period,
        number(read.get("bedrooms")),
        text(read.get("city")),
        text(read.get("neighborhood")),
        text(read.get("street")),
        text(read.get("area_text")),
        number(read.get("square_meters")),
        number(read.get("floor")),
        text(read.get("url")),
        text(read.get("image_url")),
        _time(read.get("posted_at"), site),
        tuple(sorted(tag for tag, path in site.tags.items() if holds(value(row, path)))),
    )


def text(found: Any) -> str | None:
    """Read a text; blanks are nothing."""
    if found is None or isinstance(found, dict | list):
        return None
    return str(found).strip() or None


def holds(found: Any) -> bool:
    """Say whether a field says yes, in any of the ways in which sites say it."""
    return str(found).strip().lower() not in ("", "0", "none", "false", "no", "n", "null")


# ----- numbers

SYMBOLS = {"₪": "ILS", 'ש"ח': "ILS", "ש״ח": "ILS", "€": "EUR", "$": "USD", "£": "GBP"}

_NUMBER = re.compile(r"-?\d[\d.,'\u00a0\u202f ]*")


def amount(found: Any) -> float | None:
    """Read a price; None where there is none to read ("on request"). One below zero is refused."""
    if isinstance(found, dict | list | bool):
        raise ValueError(f"its price is {found!r:.60}, no amount")
    read = number(found)
    if read is not None and read < 0:
        raise ValueError(f"its price is {found!r:.60}, below zero")
    return read or None  # a price of 0 is how sites write that there is none


def number(found: Any) -> float | None:
    """Read a number, also inside a text: 7,000 and 7.000 and 7 000 and 7'000 are the same."""
    if isinstance(found, bool):
        return None
    if isinstance(found, int | float):
        return round(float(found), 2) if math.isfinite(found) else None
    match = _NUMBER.search(found) if isinstance(found, str) else None
    return None if match is None else _plain(re.sub(r"['\u00a0\u202f ]", "", match[0]).rstrip(".,"))


def _plain(digits: str) -> float | None:
    """Tell thousands from decimals: the last mark is a decimal one unless three digits follow each."""
    marks = [mark for mark in digits if mark in ".,"]
    last = max(digits.rfind("."), digits.rfind(","))
    grouped = all(len(part) == 3 for part in re.split(r"[.,]", digits)[1:])
    if not marks or (len(set(marks)) == 1 and grouped):
        whole, decimals = digits, ""
    else:
        whole, decimals = digits[:last], digits[last + 1 :]
    try:
        return round(float(f"{re.sub(r'[.,]', '', whole)}.{decimals or 0}"), 2)
    except ValueError:
        return None


def currency_of(found: Any) -> str | None:
    """Read a currency off a price that is written with its sign."""
    return next((code for sign, code in SYMBOLS.items() if isinstance(found, str) and sign in found), None)


def _time(found: Any, site: Site) -> float | None:
    try:
        return None if found is None else float(moment(found, site.unit))
    except Unreadable:
        return None


# ----- free text, as people write it in groups

_PRICES = (
    re.compile(r'(\d[\d.,]{2,})\s*(?:₪|ש["״׳\']?ח|שקל)'),
    re.compile(r'(?:מחיר|שכ["״]ד|שכירות)\D{0,15}(\d[\d.,]{3,})'),
)
_ROOMS = re.compile(r"(\d{1,2}(?:[.,]5)?)\s*(?:חדרים|חד['׳])")
_METERS = re.compile(r'(\d{2,3})\s*(?:מ["״]ר|מטר)')
_WANTED = re.compile(r"(?:מחפש\w*|דרוש\w*)\s+(?:\w+\s+)?דיר")


def is_wanted_ad(said: str) -> bool:
    """Say whether somebody looks for a flat, and offers none."""
    return bool(_WANTED.search(said))


def from_text(said: str) -> dict[str, Any]:
    """Read what a post says of price, rooms and size; what it does not say is left out."""
    price = next((found[1] for one in _PRICES if (found := one.search(said))), None)
    rooms, meters = _ROOMS.search(said), _METERS.search(said)
    read = {"price": price, "bedrooms": rooms and rooms[1], "square_meters": meters and meters[1]}
    return {name: one for name, one in read.items() if one}
