"""A stage for queues on tables: a table of listings in a user's database, and workers that serve it."""

from __future__ import annotations

from typing import Any

from onefold.core.key import Key
from onefold.core.record import Record
from onefold.core.terms import Terms
from onefold.sinks.function import Function
from onefold.sources.table import Table
from onefold.worker import Pipeline, Worker
from tests.databases import Place

QUICK = Terms(lease=60, backoff=(0.05, 0.2), attempts=3)
SHAPE = {
    "sqlite": "id INTEGER PRIMARY KEY, title TEXT, fetched_at TEXT",
    "postgresql": "id bigserial PRIMARY KEY, title text, fetched_at timestamptz",
    "mariadb": "id BIGINT PRIMARY KEY AUTO_INCREMENT, title TEXT, fetched_at DATETIME(6)",
}


def listings(place: Place, count: int = 0) -> None:
    """Make the table as it is before anybody made a queue of it."""
    place.run(f"CREATE TABLE listings ({SHAPE[place.kind]})")
    for n in range(count):
        add(place, n)


def add(place: Place, n: int, title: str | None = None, fetched: str | None = None) -> None:
    when = fetched or f"2026-02-22 10:{n // 60:02d}:{n % 60:02d}"
    place.run("INSERT INTO listings (title, fetched_at) VALUES (?, ?)", title or f"flat {n}", when)


def queue(place: Place, **more: Any) -> Table:
    return Table(place.url, "listings", **{"every": 0.05, **more})


def served(place: Place, act: Any, source: Table | None = None, **more: Any) -> Worker:
    settings = {"key": lambda r: r.id, "terms": QUICK, **more}
    settings.setdefault("sink", Function(act) if act else None)
    plan = Pipeline("stage", sources={"table": source or queue(place)}, **settings)
    return Worker([plan], store=place.url)


def waiting(place: Place) -> int:
    [[count]] = place.run("SELECT COUNT(*) FROM listings WHERE processed_at IS NULL")
    return int(count)


def row(place: Place, id: int, *columns: str) -> tuple[Any, ...]:
    [found] = place.run(f"SELECT {', '.join(columns)} FROM listings WHERE id = ?", id)
    return found


def key(record_id: int) -> Key:
    return Key("stage", str(record_id))


class Acts:
    """Counts what happened, by title, and raises what it is told to."""

    def __init__(self) -> None:
        self.happened: list[str] = []
        self.trouble: dict[str, list[Exception]] = {}

    async def act(self, record: Record) -> None:
        title = record.body["title"]
        waits = self.trouble.get(title)
        if waits:
            raise waits.pop(0) if len(waits) > 1 else waits[0]
        self.happened.append(title)
