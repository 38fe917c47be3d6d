"""The message about a listing: one, in the few tags that a chat knows. Everything from outside is escaped."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from onefold.core.record import Record
from onefold.sinks.markup import escaped

SIGNS = {"ILS": "₪", "EUR": "€", "USD": "$", "GBP": "£"}
QUOTED = 400


def message(record: Record) -> str:
    """Write the message about a match."""
    return told(record.body["listing"], record.body["filter"])


def told(listing: Mapping[str, Any], filter_name: str = "") -> str:
    """Tell of a listing."""
    link, title = listing.get("url"), escaped(str(listing["title"]))
    head = f'<b><a href="{escaped(str(link))}">{title}</a></b>' if is_web(link) else f"<b>{title}</b>"
    place = ", ".join(escaped(str(listing[one])) for one in ("neighborhood", "city") if listing.get(one))
    facts = " · ".join(one for one in (price(listing), rooms(listing), size(listing)) if one)
    lines = [head, place, facts, _quote(listing), f"<i>{escaped(filter_name)}</i>" if filter_name else ""]
    return "\n".join(line for line in lines if line)


def is_web(link: Any) -> bool:
    """Say whether a link leads to the web: a site may show anything there."""
    return isinstance(link, str) and link.startswith(("https://", "http://"))


def price(listing: Mapping[str, Any]) -> str:
    """Write the price, and the one before it if it changed."""
    now, before = listing.get("price"), listing.get("price_before")
    if now is None:
        return "price on request"
    currency = str(listing.get("currency") or "")
    sign = SIGNS.get(currency, f"{currency} ")
    was = f" (was {sign}{before:,.0f})" if before is not None and before != now else ""
    return escaped(f"{sign}{now:,.0f}{was}")


def rooms(listing: Mapping[str, Any]) -> str:
    """Write the number of rooms; none at all is a studio."""
    number = listing.get("bedrooms")
    if number is None:
        return ""
    return "studio" if number == 0 else f"{number:g} room{'' if number == 1 else 's'}"


def size(listing: Mapping[str, Any]) -> str:
    meters = listing.get("square_meters")
    return f"{meters:g} m²" if meters else ""


def _quote(listing: Mapping[str, Any]) -> str:
    words = str(listing.get("description") or "").strip()
    return f"<blockquote>{escaped(words[:QUOTED])}</blockquote>" if words else ""
