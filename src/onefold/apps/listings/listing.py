"""From a row of a site to a listing: its fields by their types, and what a free text says.

Pure. What is no listing (a flat that somebody looks for, one for sale) is None; what cannot be understood is
a ValueError that says why. Fields that filters compare (price, bedrooms) must be readable; an area, a floor
or a time that cannot be read is left out.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from onefold.apps.listings.currencies import code_of
from onefold.apps.listings.numbers import (
    FLOORS,
    METERS,
    ROOMS,
    amount,
    currency_of,
    number,
    number_or_none,
    readable,
)
from onefold.apps.listings.sites import Site, is_offered, misplaced, value
from onefold.core.rows import OLDEST, moment
from onefold.core.wire import Unreadable

TEXT = 4000
"""The longest description that is kept, in characters."""

LATEST = 4_102_444_800.0
"""The year 2100: times after it are damage, or of another unit."""


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
    if not is_offered(row, site):
        return None
    if reason := misplaced(row, site):
        raise ValueError(reason)
    said = text(value(row, site.text)) if site.text else None
    if said and is_wanted_ad(said):
        return None
    read = _fields(row, site, said or "")
    title = text(read.get("title")) or (said or "")[:80].strip()
    if not title:
        raise ValueError("it has neither a title nor a text")
    return Listing(
        title,
        (text(read.get("description")) or said or "")[:TEXT] or None,
        amount(read.get("price")),
        _currency(read, site),
        site.period,
        number(read.get("bedrooms"), "bedrooms", ROOMS),
        text(read.get("city")),
        text(read.get("neighborhood")),
        text(read.get("street")),
        text(read.get("area_text")),
        number_or_none(read.get("square_meters"), METERS),
        number_or_none(read.get("floor"), FLOORS),
        text(read.get("url")),
        text(read.get("image_url")),
        _time(read.get("posted_at"), site),
        tuple(sorted(tag for tag, path in site.tags.items() if holds(value(row, path)))),
    )


def _fields(row: Mapping[str, Any], site: Site, said: str) -> dict[str, Any]:
    """Collect the fields that the row gives, and from its text those that it leaves out or blank."""
    made = {name: value(row, spec) for name, spec in site.fields.items()}
    given = {name: one for name, one in made.items() if one is not None and not _is_blank(one)}
    heard = from_text(said)
    if "price" in given:
        heard.pop("currency", None)  # it is the currency of the price that the text names
    return {**heard, **given}


def _is_blank(found: Any) -> bool:
    return isinstance(found, str) and not found.strip()


def _currency(read: Mapping[str, Any], site: Site) -> str:
    """Name the currency: by its field, by the price's sign, by the site's setting, in this order."""
    found = read.get("currency")
    if isinstance(found, bool | dict | list):
        raise ValueError(f"its currency is {found!r:.60}, no text")
    if named := text(found):
        return code_of(named, site.currency)
    return currency_of(read.get("price"), site.currency) or site.currency


def text(found: Any) -> str | None:
    """Read a text, or a number as one; blanks are nothing, and so is what no table stores (NUL)."""
    if found is None or isinstance(found, bool | dict | list):
        return None
    return str(found).replace("\0", "").strip() or None


NO = frozenset(
    {
        "", "-", "0", "none", "false", "f", "no", "n", "null", "off", "n/a", "unknown", "nein", "kein",
        "keine", "unbekannt", "non", "aucun", "לא", "אין", "нет",
    }
)  # fmt: skip


def holds(found: Any) -> bool:
    """Say whether a field says yes: true, a number other than 0, or a text that is not a way to say no."""
    if found is None or isinstance(found, bool | dict):
        return found is True
    if isinstance(found, int | float | list):
        return bool(found) and found == found
    said = str(found).strip().lower()
    return said not in NO and not _ZERO.fullmatch(said)


_ZERO = re.compile(r"0+(?:[.,]0+)?")


def _time(found: Any, site: Site) -> float | None:
    try:
        read = None if found is None else float(moment(found, site.unit))
    except Unreadable:
        return None
    return read if read is not None and OLDEST <= read <= LATEST else None


# ----- free text, as people write it in groups

_APART = r"(?<![\d'/:+])(?<!\d[.,-])"  # no part of a longer number, of a date or of a phone number
_THREE = r"(?:\d{1,3}(?:[.,' ]\d{3})+|\d{3,8})(?:[.,]\d{1,2})?"
_FOUR = r"(?:\d{1,3}(?:[.,' ]\d{3})+|\d{4,8})(?:[.,]\d{1,2})?"
_SHEKELS = re.compile(rf"{_APART}({_THREE})(?: ?- ?{_THREE})?\s*(?:₪|ש[\"']?ח|שקל)")
_PRICED = re.compile(rf"(?:מחיר|שכ\"ד|שכירות)\D{{0,15}}{_APART}({_FOUR})(?: ?- ?{_FOUR})?(?![\d'/:]|[.,-]\d)")
_ROOMS = re.compile(
    r"(?<![\d/])(?<!\d[.,-])(\d{1,2}(?:[.,]5| ?½)?)(?: ?- ?\d{1,2}(?:[.,]5)?)?\s*(?:חדרים|חד')"
)
_METERS = re.compile(r"(?<![\d'/])(?<!\d[.,])(\d{2,3}(?:[.,]\d{1,2})?|\d[.,]\d{3})\s*(?:מ\"ר|מטר)")
_WANTED = re.compile(r"(?:מחפש\w*|דרוש\w*)\s+(?:\w+\s+)?דיר")


def is_wanted_ad(said: str) -> bool:
    """Say whether somebody looks for a flat, and offers none."""
    return bool(_WANTED.search(said))


def from_text(said: str) -> dict[str, Any]:
    """Read what a post says of price, rooms and size; what it does not say is left out."""
    plain = readable(said)
    shekels, rooms, meters = _first(_SHEKELS, plain), _ROOMS.search(plain), _METERS.search(plain)
    read = {
        "price": shekels or _first(_PRICED, plain),
        "currency": "ILS" if shekels else None,
        "bedrooms": rooms and rooms[1],
        "square_meters": meters and meters[1],
    }
    return {name: one for name, one in read.items() if one}


def _first(wanted: re.Pattern[str], said: str) -> str | None:
    """Find the first number in a text that can be a price; the others are phone numbers and dates."""
    return next((one for one in wanted.findall(said) if _is_price(one)), None)


def _is_price(written: str) -> bool:
    try:
        return amount(written) is not None
    except ValueError:
        return False
