"""Writing into the tables of listings: raw rows as they were collected, and listings made from them.

Each is called inside of a transaction, together with the ledger's mark where the ledger stands in the same
database, and safe to repeat where it does not. It decides nothing about when or how often.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from onefold.apps.listings.listing import Listing, listing, text
from onefold.apps.listings.schema import database_of
from onefold.apps.listings.sites import READ, Site, bare, changed, value, version
from onefold.core.errors import Rejected
from onefold.core.ports import Claim
from onefold.core.record import Record
from onefold.core.rows import OLDEST, pick
from onefold.core.wire import Unreadable, flaw, parse
from onefold.runtime import current, now
from onefold.tables.times import OURS, at, is_time


class Tables:
    """The user's database, and how it writes times."""

    def __init__(self, url: str) -> None:
        self.database = database_of(url)
        self._types: dict[str, dict[str, str]] = {}

    def run(self, connection: Any, sql: str, *args: Any) -> list[dict[str, Any]]:
        """Run one statement; rows by the names of their columns."""
        names, rows = self.database.run(connection, sql, args)
        return [dict(zip(names, row, strict=True)) for row in rows]

    def moment(self, connection: Any, table: str, column: str, when: float | None) -> Any:
        """Write a time as its column holds times: by the database's own kind, or as text of one width."""
        if when is None:
            return None
        if table not in self._types:
            self._types[table] = self.database.columns(connection, table)
        declared = self._types[table].get(column, "")
        if self.database.kind != "sqlite" and is_time(declared):
            return datetime.fromtimestamp(when, UTC)
        return OURS.written(when)


# ----- the collector's


class Raw:
    """Puts rows of sites into `listings_raw`, a row for each version."""

    def __init__(self, tables: Tables, sites: Mapping[str, Site], refresh: float) -> None:
        self.tables = tables
        self._sites = sites
        self._refresh = refresh

    def __call__(self, connection: Any, claim: Claim, record: Record) -> Any:
        row = {
            "source_id": self._source(connection, record.source),
            **noted(record, self._sites[record.source], self._refresh),
            "fetched_at": self.tables.moment(connection, "listings_raw", "fetched_at", record.body[READ]),
        }
        sql = (
            f"INSERT INTO listings_raw ({', '.join(row)}) VALUES ({', '.join('?' * len(row))}) "
            "ON CONFLICT (source_id, source_item_id, version) DO NOTHING"
        )
        self.tables.run(connection, sql, *row.values())
        return {"version": row["version"]}

    def _source(self, connection: Any, name: str) -> int:
        asked = "SELECT id FROM sources WHERE name = ?"
        if not (found := self.tables.run(connection, asked, name)):
            now = self.tables.moment(connection, "sources", "created_at", current().time())
            self.tables.run(connection, "INSERT INTO sources (name, created_at) VALUES (?, ?)", name, now)
            found = self.tables.run(connection, asked, name)
        return int(found[0]["id"])


def noted(record: Record, site: Site, refresh: float) -> dict[str, str | None]:
    """Say what is written down of a row, apart from ids and times of the table."""
    return {
        "source_item_id": record.id,
        "version": version(record.body, site, refresh),
        "url": text(value(record.body, site.fields["url"])) if "url" in site.fields else None,
        "raw_json": json.dumps(bare(record.body), ensure_ascii=False),
    }


# ----- the processor's

AHEAD = 86_400.0
"""Seconds by which a site's time of change may lie ahead of ours: its clock may show another zone. With a
later time, every true change would look older."""

KEPT = (
    "title", "description", "currency", "price_period", "bedrooms", "city", "neighborhood", "street",
    "area_text", "square_meters", "floor", "url", "image_url", "posted_at", "tags_json", "price",
    "version_at", "raw_id",
)  # fmt: skip
"""What a newer version replaces. When a listing was first seen stays what it was."""


class Applied:
    """Makes a listing of a raw row, and marks the row, in one transaction."""

    def __init__(self, tables: Tables, sites: Mapping[str, Site], clock: Callable[[], float] = now) -> None:
        self.tables = tables
        self._sites = sites
        self._clock = clock

    def __call__(self, connection: Any, claim: Claim, record: Record) -> Any:
        raw = self._as_it_stands(connection, record)
        if raw["processed_at"] is not None:
            return {"outcome": "marked before"}
        site = self._site(connection, raw["source_id"])
        row, made = read_raw(raw["raw_json"], raw["source_item_id"], site)
        said = "not a listing" if made is None else self._applied(connection, raw, made, changed(row, site))
        self._mark(connection, raw["id"], claim.attempt)
        return {"outcome": said}

    def _as_it_stands(self, connection: Any, record: Record) -> Mapping[str, Any]:
        """Read the row again: somebody may have mended it, or other code have marked it."""
        found = self.tables.run(connection, "SELECT * FROM listings_raw WHERE id = ?", record.body["id"])
        if not found:
            raise Rejected(f"raw row {record.id} is no longer there: it was deleted before it was processed")
        return found[0]

    def _site(self, connection: Any, source: Any) -> Site:
        found = self.tables.run(connection, "SELECT name FROM sources WHERE id = ?", source)
        name = str(found[0]["name"]) if found else ""
        if name not in self._sites:
            raise Rejected(
                f"no site is called {name or f'number {source}'}: add it as "
                f"[apps.listings.sites.{name or 'NAME'}], then: onefold retry --scope listings.processor"
            )
        return self._sites[name]

    def _applied(self, connection: Any, raw: Mapping[str, Any], made: Listing, at_site: float | None) -> str:
        asked = "SELECT price, version_at FROM listings WHERE source_id = ? AND source_item_id = ?"
        lock = " FOR UPDATE" if self.tables.database.kind == "postgresql" else ""
        item = raw["source_id"], raw["source_item_id"]
        before = self.tables.run(connection, asked + lock, *item)
        place = placed(at_site, float(at(raw["fetched_at"]) or 0.0))
        row = self._row(connection, raw, made, place)
        self.tables.run(connection, upsert(list(row)), *row.values())
        return outcome(before[0] if before else None, made, place)

    def _row(self, connection: Any, raw: Mapping[str, Any], made: Listing, place: float) -> dict[str, Any]:
        fields = made._asdict()
        tags = json.dumps(fields.pop("tags"), ensure_ascii=False)
        now = self._clock()
        times = {"ingested_at": now, "noticed_at": now, "version_at": place, "posted_at": made.posted_at}
        return {
            "source_id": raw["source_id"],
            "source_item_id": raw["source_item_id"],
            **fields,
            "tags_json": tags,
            "raw_id": raw["id"],
            **{name: self.tables.moment(connection, "listings", name, when) for name, when in times.items()},
        }

    def _mark(self, connection: Any, raw_id: Any, attempt: int) -> None:
        now = self.tables.moment(connection, "listings_raw", "processed_at", self._clock())
        sql = (
            "UPDATE listings_raw SET processed_at = ?, attempts = ?, next_attempt_at = NULL, "
            "last_error = NULL, parked = NULL WHERE id = ? AND processed_at IS NULL"
        )
        self.tables.run(connection, sql, now, attempt, raw_id)


def read_raw(raw: str, item: Any, site: Site) -> tuple[dict[str, Any], Listing | None]:
    """Read what was noted of an item, and the listing that it is; None if it is none."""
    row = parsed(raw)
    try:
        _check_item(row, site, item)
        return row, listing(row, site)
    except ValueError as error:
        raise Rejected(f"the raw row of {item!r:.60} cannot be read: {error}") from None


def parsed(raw: str) -> dict[str, Any]:
    """Read a raw row as strictly as the collector reads a site: other programs write raw rows, too."""
    try:
        row = parse(raw)
    except Unreadable as error:
        raise Rejected(f"its raw_json cannot be read: {error}") from None
    if wrong := flaw(row):
        raise Rejected(f"its raw_json cannot be read: {wrong}")
    if not isinstance(row, dict):
        raise Rejected(f"its raw_json is no object, but {type(row).__name__}")
    return row


def _check_item(row: Mapping[str, Any], site: Site, item: Any) -> None:
    """Refuse the content of another flat; a row that was mended by hand may leave its id out."""
    found = pick(row, site.id)
    if found is not None and str(found) != str(item):
        raise ValueError(f"its {site.id} is {found!r:.60}, but the row is that of {item!r:.60}")


def placed(at_site: float | None, fetched: float) -> float:
    """Say when a version was made: as the site says, unless no clock can have shown that."""
    if at_site is None or not OLDEST <= at_site <= fetched + AHEAD:
        return fetched
    return at_site


def upsert(columns: Sequence[str]) -> str:
    """Write the statement that puts a listing in, or a newer version in the place of an older one.

    Only a changed price makes it news again; a version that comes late changes nothing.
    """
    places = ", ".join("?" * len(columns))
    changes = [f"{name} = excluded.{name}" for name in KEPT]
    other = "old.price IS DISTINCT FROM excluded.price"
    changes += [
        f"price_before = CASE WHEN {other} THEN old.price ELSE old.price_before END",
        f"noticed_at = CASE WHEN {other} THEN excluded.noticed_at ELSE old.noticed_at END",
    ]
    return (
        f"INSERT INTO listings AS old ({', '.join(columns)}) VALUES ({places}) "
        f"ON CONFLICT (source_id, source_item_id) DO UPDATE SET {', '.join(changes)} "
        "WHERE old.version_at IS NULL OR old.raw_id IS NULL "
        "OR (old.version_at, old.raw_id) < (excluded.version_at, excluded.raw_id)"
    )


def outcome(before: Mapping[str, Any] | None, made: Listing, place: float) -> str:
    """Say what became of a listing, for whoever asks why."""
    if before is None:
        return "new"
    stood = at(before["version_at"])
    if stood is not None and stood > place:
        return "older"
    return "unchanged" if before["price"] == made.price else "changed price"
