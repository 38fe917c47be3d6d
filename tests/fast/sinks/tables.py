"""A stage for the table sink: two tables of a user's, one that only adds, and what stands in it."""

from __future__ import annotations

from typing import Any

from onefold.core.record import Record
from onefold.sinks.table import Table
from tests.databases import Place

FLATS = "CREATE TABLE flats (id VARCHAR(80) PRIMARY KEY, price INT NOT NULL, seen INT)"
LOG = "CREATE TABLE flat_log (id VARCHAR(80), price INT NOT NULL)"


def make_tables(place: Place) -> None:
    place.run(FLATS)
    place.run(LOG)


def row(record: Record) -> dict[str, Any]:
    return {"id": record.id, "price": record.body["n"]}


def log(place: Place, make: Any = row, **more: Any) -> Table:
    """A sink that only adds: whatever is written twice shows."""
    return Table(place.url, "flat_log", make, **more)


def logged(place: Place) -> list[str]:
    return sorted(name for (name,) in place.run("SELECT id FROM flat_log"))


def ids(count: int) -> list[str]:
    return sorted(f"r{n}" for n in range(count))
