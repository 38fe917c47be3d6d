"""Listing sites: where their rows stand and what their fields are called, declared and not programmed.

A row is stamped with the time at which it was read, so that of two versions the later is known. What a field
means is decided in `listing`; nothing here asks a site.
"""

from __future__ import annotations

import json
import string
from collections.abc import Mapping
from hashlib import blake2b
from typing import Any, Literal

import msgspec

from onefold.core.rows import Field, Shape, Unit, moment, pick, records
from onefold.core.wire import Unreadable

READ = "onefold:read"
"""The field in which a row carries the time at which it was read, in seconds since 1970."""

FIELDS = (
    "title", "description", "price", "currency", "bedrooms", "city", "neighborhood", "street",
    "area_text", "square_meters", "floor", "url", "image_url", "posted_at",
)  # fmt: skip


class Site(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One site: how its pages hang together, and what its fields are called."""

    url: str
    enabled: bool = True
    """A site that is not enabled is not collected; its raw rows are still processed."""
    rows: str = ""
    """Where the list stands in an answer; empty if the answer is the list."""
    paging: Literal["offset", "next", "none"] = "none"
    limit: int = 100
    offset_param: str = "offset"
    limit_param: str = "limit"
    next: str = "next"
    """The field that holds the link to the next page."""
    headers: dict[str, str] = {}
    id: str = "id"
    at: str = ""
    """The time by which the site sorts, newest first; empty: every round reads the whole list."""
    unit: Unit = "iso"
    """How the site writes times: iso, s, ms, us, ns."""
    lag: str = "1d"
    """How far back behind the cursor a sorted site is read again."""
    updated: str = ""
    """The time at which a row was changed, where the site shows one."""
    may_be_empty: bool = False
    fields: dict[str, str] = {}
    """What each field of a listing is made from: a path, a text with {paths} in it, or =a constant."""
    tags: dict[str, str] = {}
    """Tags, each with the path of the field that says whether it holds."""
    only: dict[str, str] = {}
    """What a row's fields must be for it to be a listing."""
    text: str = ""
    """The path of free text from which is read what no field gives."""
    currency: str = "ILS"
    period: str = "month"

    def __post_init__(self) -> None:
        strange = sorted(set(self.fields) - set(FIELDS))
        if strange:
            raise ValueError(f"a listing has no field {strange[0]}: choose from {', '.join(FIELDS)}")
        if not self.fields and not self.text:
            raise ValueError("a site needs fields, or text to read them from")
        if self.limit < 2:
            raise ValueError(f"limit is {self.limit}: write 2 or more")
        for name, spec in self.fields.items():
            _check_spec(name, spec)


def _check_spec(name: str, spec: str) -> None:
    try:
        list(string.Formatter().parse(spec))
    except ValueError as error:
        raise ValueError(f"the field {name} is made from {spec!r}, which cannot be read: {error}") from None


def shape(site: Site) -> Shape:
    """Say how a row of a site is read. One without an order has a single place: all of it is read."""
    whole: Field = lambda row: 0  # noqa: E731
    return Shape(site.id, site.at or whole, site.unit if site.at else None, site.rows or None)


def stamped(rows: list[Any], how: Shape, now: float) -> list[Any]:
    """Put the time of reading into every row that is a record; what is none stays what it is, word by word.

    Otherwise a broken row would be another one in every round, and be complained of again.
    """
    return [{**row, READ: now} if _is_record(row, how, now) else row for row in rows]


def _is_record(row: Any, how: Shape, now: float) -> bool:
    try:
        return bool(records([row], how, now)[0])
    except Unreadable:
        return False


def value(row: Mapping[str, Any], spec: str) -> Any:
    """Make a field: from a path, a text with paths in it, or a constant."""
    if spec.startswith("="):
        return spec[1:]
    if "{" not in spec:
        return pick(row, spec)
    made = ""
    for plain, path, _, _ in string.Formatter().parse(spec):
        found = pick(row, path) if path else ""
        if found is None:
            return None
        made += f"{plain}{found}"
    return made


def changed(row: Mapping[str, Any], site: Site) -> float | None:
    """Say when the site says that a row was changed; None where it does not."""
    found = pick(row, site.updated) if site.updated else None
    if found is None:
        return None
    try:
        return float(moment(found, site.unit))
    except Unreadable:
        return None


def version(row: Mapping[str, Any], site: Site, refresh: float) -> str:
    """Name a version of a row: what it says, and when it was changed.

    Where the site does not say when, a day (`refresh`) takes its place: a price that went down and came back
    looks like the first one, and is noted again no later than on the next day.
    """
    seen = {name: value(row, spec) for name, spec in sorted({**site.fields, **_paths(site)}.items())}
    text = json.dumps(seen, sort_keys=True, ensure_ascii=False, default=str)
    digest = blake2b(text.encode("utf-8", "surrogatepass"), digest_size=12).hexdigest()
    at = changed(row, site)
    when = f"p{int(row.get(READ, 0) // refresh)}" if at is None else f"u{at:.3f}"
    return f"{when}-{digest}"


def _paths(site: Site) -> dict[str, str]:
    named = {f"tag {tag}": path for tag, path in site.tags.items()}
    named |= {f"only {path}": path for path in site.only}
    return {**named, "text": site.text} if site.text else named


def bare(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a row as the site showed it."""
    return {name: one for name, one in row.items() if name != READ}
