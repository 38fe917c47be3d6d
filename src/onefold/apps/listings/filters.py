"""What users look for: rows of `filters` as values, and one pure decision.

A filter that cannot be read matches nothing and is complained of; the seed took it for one without limits. A
listing that cannot be read is not told to anybody, and complained of, too.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from decimal import Decimal
from typing import Any, NamedTuple


class Filter(NamedTuple):
    """What one user looks for. What is left out does not limit."""

    id: int
    user: int
    chat: str
    name: str
    min_price: float | None = None
    max_price: float | None = None
    min_bedrooms: float | None = None
    max_bedrooms: float | None = None
    cities: frozenset[str] = frozenset()
    neighborhoods: frozenset[str] = frozenset()
    keywords: frozenset[str] = frozenset()
    must: frozenset[str] = frozenset()
    exclude: frozenset[str] = frozenset()


def filter_of(row: Mapping[str, Any]) -> Filter:
    """Read a row of filters and their users; a ValueError says what is wrong with it."""
    return Filter(
        int(row["id"]),
        int(row["user_id"]),
        _chat(row["telegram_chat_id"]),
        str(row.get("name") or ""),
        _bound(row, "min_price"),
        _bound(row, "max_price"),
        _bound(row, "min_bedrooms"),
        _bound(row, "max_bedrooms"),
        _words(row, "cities_json"),
        _words(row, "neighborhoods_json"),
        _words(row, "keywords_json"),
        _words(row, "must_have_tags_json"),
        _words(row, "exclude_tags_json"),
    )


def is_enabled(row: Mapping[str, Any]) -> bool:
    """Say whether a filter is switched on; a ValueError where its mark is neither 0 nor a number."""
    found = row["enabled"]
    if found is not None and not isinstance(found, int):
        raise ValueError(f"its enabled is {found!r:.60}: write 0 or 1")
    return bool(found)


def _chat(found: Any) -> str:
    chat = "" if found is None else str(found).strip()
    if not chat:
        raise ValueError("its user has no telegram_chat_id")
    return chat


def _bound(row: Mapping[str, Any], name: str) -> float | None:
    found = row.get(name)
    if found is None:
        return None
    if isinstance(found, bool) or not isinstance(found, int | float | Decimal) or not math.isfinite(found):
        raise ValueError(f"its {name} is {found!r:.60}, no number")
    return float(found)


def _words(row: Mapping[str, Any], name: str) -> frozenset[str]:
    found = row.get(name)
    if found is None or found == "":
        return frozenset()
    try:
        words = json.loads(found) if isinstance(found, str) else found
    except ValueError:
        words = None
    if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
        raise ValueError(f"its {name} is {found!r:.60}, no list of texts")
    return frozenset(word.strip().lower() for word in words if word.strip())


def listing_of(row: Mapping[str, Any]) -> dict[str, Any]:
    """Read a row of listings: numbers as numbers, tags as a set. A ValueError says what is wrong with it."""
    if not isinstance(row.get("title"), str) or not row["title"].strip():
        raise ValueError(f"its title is {row.get('title')!r:.60}, no text")
    numbers = {name: _bound(row, name) for name in NUMBERS}
    return {**row, **numbers, "tags": _words(row, "tags_json")}


NUMBERS = ("price", "price_before", "bedrooms", "square_meters", "floor")


def matches(wanted: Filter, listing: Mapping[str, Any]) -> bool:
    """Decide whether a user wants to hear of a listing. What is not known is within no limit."""
    tags: frozenset[str] = listing["tags"]
    words = f"{listing.get('title') or ''} {listing.get('description') or ''}".lower()
    return (
        _within(listing.get("price"), wanted.min_price, wanted.max_price)
        and _within(listing.get("bedrooms"), wanted.min_bedrooms, wanted.max_bedrooms)
        and _is_one_of(listing.get("city"), wanted.cities)
        and _is_one_of(listing.get("neighborhood"), wanted.neighborhoods)
        and (not wanted.keywords or any(word in words for word in wanted.keywords))
        and wanted.must <= tags
        and not wanted.exclude & tags
    )


def _within(found: float | None, least: float | None, most: float | None) -> bool:
    if least is None and most is None:
        return True
    if found is None:
        return False
    return (least is None or found >= least) and (most is None or found <= most)


def _is_one_of(found: Any, wanted: frozenset[str]) -> bool:
    return not wanted or (isinstance(found, str) and found.strip().lower() in wanted)
