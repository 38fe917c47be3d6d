"""Listing sites: where their rows stand and what their fields are called, declared and not programmed.

A row is stamped with the time at which it was read, so that of two versions the later is known. A row that
does not belong to the site or the search that was asked is no record. What a field means is decided in
`listing`; nothing here asks a site.
"""

from __future__ import annotations

import json
import re
import string
from collections.abc import Mapping, Sequence
from decimal import Decimal
from functools import cache
from hashlib import blake2b
from typing import Any, Literal
from urllib.parse import urljoin, urlsplit

import msgspec

from onefold.core.rows import Field, Shape, Unit, moment, pick, records
from onefold.core.wire import Unreadable, quoted

Said = str | bool | int | float
"""What a setting declares that a field must say."""

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
    only: dict[str, Said] = {}
    """What a row's fields must be for it to be a listing."""
    expect: dict[str, Said] = {}
    """What every listing must say because it was asked for, as the city of a search; others are broken."""
    expect_answer: dict[str, Said] = {}
    """What an answer must say beside its rows. Another answer is to another question, and is not read."""
    hosts: tuple[str, ...] = ()
    """Hosts to which links may lead, beside the site's own."""
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
        made = {**self.fields, **paths(self)}
        for name, spec in made.items():
            _check_spec(name, spec)
        for host in self.hosts:
            if "/" in host or ":" in host or not host:
                raise ValueError(f"hosts names {host!r}: write a host alone, as www.flats.example")


def _check_spec(name: str, spec: str) -> None:
    try:
        list(string.Formatter().parse(spec))
    except ValueError as error:
        raise ValueError(f"the field {name} is made from {spec!r}, which cannot be read: {error}") from None


def shape(site: Site) -> Shape:
    """Say how a row of a site is read. One without an order has a single place: all of it is read."""
    whole: Field = lambda row: 0  # noqa: E731

    def name(row: Any) -> Any:
        if isinstance(row, dict) and (reason := misplaced(row, site)):
            raise Unreadable(reason)
        found = pick(row, site.id)
        if isinstance(found, str) and "\0" in found:
            raise Unreadable("its id holds a NUL, which no table stores")
        return found

    return Shape(name, site.at or whole, site.unit if site.at else None, site.rows or None)


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
    seen = {name: value(row, spec) for name, spec in sorted({**site.fields, **paths(site)}.items())}
    text = json.dumps(seen, sort_keys=True, ensure_ascii=False, default=str)
    digest = blake2b(text.encode("utf-8", "surrogatepass"), digest_size=12).hexdigest()
    at = changed(row, site)
    when = f"p{int(row.get(READ, 0) // refresh)}" if at is None else f"u{at:.3f}"
    return f"{when}-{digest}"


def paths(site: Site) -> dict[str, str]:
    """Name everything beside the fields that is made from a row, with what it is made from."""
    named = {f"tag {tag}": path for tag, path in site.tags.items()}
    named |= {f"only {path}": path for path in site.only}
    return {**named, "text": site.text} if site.text else named


def bare(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a row as the site showed it."""
    return {name: one for name, one in row.items() if name != READ}


# ----- whether a row is about what was asked


def says(found: Any, wanted: Said) -> bool:
    """Compare by type: JSON's true is "true" and true, 1 is "1" and 1.0, null is "null"; true is never 1."""
    if found is None or isinstance(found, dict | list):
        return found is None and wanted in ("null", "None")
    if isinstance(found, bool) or isinstance(wanted, bool):
        return _truth(found) is not None and _truth(found) is _truth(wanted)
    if isinstance(found, str) and isinstance(wanted, str):
        return found == wanted
    one, other = _exact(found), _exact(wanted)
    return one is not None and one == other


def _truth(said: Any) -> bool | None:
    if isinstance(said, str):
        return {"true": True, "false": False}.get(said.lower())
    return said if isinstance(said, bool) else None


_NUMBER = re.compile(r"-?(?:0|[1-9]\d*)(?:\.\d+)?", re.ASCII)


def _exact(said: Any) -> Decimal | None:
    """Read a number, also one that is written as text; a postal code with a 0 in front is none."""
    text = str(said)
    if isinstance(said, str) and not _NUMBER.fullmatch(text):
        return None
    return Decimal(text)


def is_offered(row: Mapping[str, Any], site: Site) -> bool:
    """Say whether a row is a listing at all, by what the site's settings want `only`."""
    return all(says(value(row, path), wanted) for path, wanted in site.only.items())


def misplaced(row: Mapping[str, Any], site: Site) -> str | None:
    """Say why a listing does not belong to this site or search; None if it does, or is no listing."""
    if not is_offered(row, site):
        return None
    for path, wanted in site.expect.items():
        found = value(row, path)
        if not says(found, wanted):
            return f"its {path} is {quoted(found)[:60]}, but {wanted} was asked for (see expect)"
    return _wrong_link(row, site)


def check_answer(body: Any, site: Site) -> None:
    """Refuse an answer to another question than ours: its rows are about something else."""
    for path, wanted in site.expect_answer.items():
        found = pick(body, path)
        if not says(found, wanted):
            # Short: the reader of the answer quotes 80 characters of it, and then the answer.
            raise Unreadable(f"{path[-30:]} is {quoted(found)[:20]}, not {str(wanted)[:20]}")


def empty_fields(rows: Sequence[Any], site: Site) -> dict[str, str]:
    """Name what is empty in every row of a page, with its path; nothing if the page has no rows."""
    shown = [row for row in rows if isinstance(row, dict) and READ in row]
    if not shown:
        return {}
    made = {**site.fields, **paths(site), **({"updated": site.updated} if site.updated else {})}
    return {name: spec for name, spec in made.items() if all(_is_empty(value(row, spec)) for row in shown)}


def _is_empty(found: Any) -> bool:
    return found is None or found in ([], {}) or (isinstance(found, str) and not found.strip())


# ----- where a link leads

_TWO_WAYS = re.compile(r"[\x00-\x1f\\]")  # browsers turn a backslash around, and leave a line's end out
_FIXED_HOST = re.compile(r"https?://([^/?#{}@\\\s]+)")
OWN_PREFIXES = ("www.", "api.", "m.", "data.")
"""What stands before a site's name where it answers programs; its links lead to any of its hosts."""


def _wrong_link(row: Mapping[str, Any], site: Site) -> str | None:
    spec = site.fields.get("url", "=")
    found = value(row, spec)
    if found is None or spec.startswith("="):
        return None
    odd = [path for path in _paths_in(spec) if isinstance(pick(row, path), dict | list | bool)]
    if odd:
        return f"its link is made from {odd[0]}, which is {quoted(pick(row, odd[0]))[:60]}, no text"
    link = str(found).strip()
    host = _host(link, site.url)
    if link and (host is None or not _is_ours(host, spec, site)):
        leads = "is no link to the web" if host is None else f"leads to {host} (see hosts)"
        return f"its link {link[:80]!r} {leads}"
    return None


def _paths_in(spec: str) -> list[str]:
    if "{" not in spec:
        return [spec]
    return [path for _, path, _, _ in string.Formatter().parse(spec) if path]


def _host(link: str, base: str = "") -> str | None:
    """Name the host of a link as a browser would; None if two programs could read it differently."""
    if _TWO_WAYS.search(link):
        return None
    try:
        split = urlsplit(urljoin(base, link))
        host, _ = split.hostname, split.port
    except ValueError:
        return None
    known = split.scheme in ("http", "https") and host and "@" not in split.netloc and " " not in split.netloc
    return host.rstrip(".") if host and known else None


@cache
def _own_host(url: str) -> str:
    host = _host(url) or ""
    return next((host.removeprefix(one) for one in OWN_PREFIXES if host.startswith(one)), host)


def _is_ours(host: str, spec: str, site: Site) -> bool:
    fixed = _FIXED_HOST.match(spec)
    declared = {one.lower() for one in site.hosts} | (
        {fixed[1].lower().partition(":")[0]} if fixed else set()
    )
    own = _own_host(site.url)
    return host in declared or host == own or host.endswith(f".{own}")
