"""A stage for listings: sites and a chat, a database with its tables, users with filters, and workers."""

from __future__ import annotations

import json
import tomllib
from collections import Counter
from collections.abc import Iterator
from functools import cache
from typing import Any

import msgspec
import pytest

from onefold.apps.listings import Settings, pipelines
from onefold.apps.listings.schema import migrate, statements
from onefold.apps.listings.sites import Site
from onefold.sinks.pace import Rates
from onefold.tables import Database
from onefold.worker import Pipeline, Worker
from onefold.worker.secret import Secret
from onefold.worker.settings import Live
from onefold.worlds.chat import TOKEN, ChatWorld
from onefold.worlds.listings import ListingSites, sections
from tests.databases import SQLITE, Place, opened

USERS: dict[str, dict[str, Any]] = {
    "all": {},
    "cheap": {"max_price": 6000},
    "haifa": {"cities_json": '["חיפה"]', "min_bedrooms": 2},
    "lift": {"must_have_tags_json": '["elevator"]', "exclude_tags_json": "[]"},
    "off": {"enabled": 0},
}


@pytest.fixture(params=[SQLITE])
def place(request: pytest.FixtureRequest, tmp_path: Any) -> Iterator[Place]:
    """A database with a ledger and the tables of listings."""
    for one in opened(request, tmp_path):
        make_tables(one)
        yield one


def make_tables(place: Place) -> list[str]:
    """Bring the tables to what they must be, and say what was done."""
    database = Database(place.url)
    try:
        needed = statements(database)
        migrate(database, needed)
        return needed
    finally:
        database.close()


def sites(url: str) -> dict[str, Site]:
    declared = tomllib.loads(sections(url))["apps"]["listings"]["sites"]
    return {name: msgspec.convert(one, Site) for name, one in declared.items()}


def settings(place: Place, world: ListingSites | None, chat: ChatWorld | None, **more: Any) -> Settings:
    return Settings(
        **{
            "database": place.url,
            "chat_token": Secret(TOKEN),
            "sites": sites(world.url if world else "http://127.0.0.1:1"),
            "every": "100ms",
            "process_every": "50ms",
            "notify_every": "100ms",
            "chat_url": chat.url if chat else "http://127.0.0.1:1",
            "chat_pace": Rates(0.0, 0.0, 0.0),
            **more,
        }
    )


def made(said: Settings, *names: str) -> list[Pipeline]:
    """Make the pipelines of the app; only some of them, if named."""
    found = list(pipelines(said, Live("listings.")))
    return [one for one in found if not names or one.name.removeprefix("listings.") in names]


def worker(said: Settings, place: Place, *names: str, once: bool = False) -> Worker:
    return Worker(made(said, *names), store=place.url, grace=5, once=once)


def watch(place: Place, name: str, **limits: Any) -> None:
    """Let a user look for something."""
    place.run("INSERT INTO users (telegram_chat_id) VALUES (?)", name)
    [[user]] = place.run("SELECT id FROM users WHERE telegram_chat_id = ?", name)
    columns = {"user_id": user, "name": f"filter of {name}", **limits}
    marks = ", ".join("?" * len(columns))
    place.run(f"INSERT INTO filters ({', '.join(columns)}) VALUES ({marks})", *columns.values())


def heard(chat: ChatWorld) -> Counter[tuple[str, str]]:
    """Count what readers saw, by chat and flat."""
    return Counter((line["chat"], flat_in(line["text"])) for line in chat.journal.of("message"))


def flat_in(text: str) -> str:
    """Read the name of a flat off the link in a message."""
    return text.partition(".example/")[2].partition('"')[0].removeprefix("flat-")


def expected(world: ListingSites, *names: str) -> Counter[tuple[str, str]]:
    """Say who should have heard of what, from the world's own journal: whatever a flat ever cost."""
    wanted: set[tuple[str, str]] = set()
    for line in world.journal.lines():
        if line["kind"] in ("flat", "price"):
            wanted |= {(name, line["item"]) for name in names if _fits(USERS[name], line)}
    return Counter(wanted)


def _fits(limits: dict[str, Any], line: dict[str, Any]) -> bool:
    cities = _listed(limits.get("cities_json", "[]"))
    tags = _listed(limits.get("must_have_tags_json", "[]"))
    return (
        line["what"] == "flat"
        and limits.get("enabled", 1) == 1
        and line["price"] <= limits.get("max_price", 10**9)
        and line["rooms"] >= limits.get("min_bedrooms", 0)
        and (not cities or line["city"] in cities)
        and (not tags or (line["site"] == "flats" and line["elevator"]))
    )


@cache
def _listed(text: str) -> frozenset[str]:
    return frozenset(json.loads(text))


def add_raw(
    place: Place, item: str, row: Any, fetched: str = "2026-02-22T10:00:00.000000Z", source: str = "flats"
) -> int:
    """Put a raw row in by hand, and give its id."""
    if not place.run("SELECT id FROM sources WHERE name = ?", source):
        place.run("INSERT INTO sources (name) VALUES (?)", source)
    [[number]] = place.run("SELECT id FROM sources WHERE name = ?", source)
    text = row if isinstance(row, str) else json.dumps(row, ensure_ascii=False)
    [[raw_id]] = place.run(
        "INSERT INTO listings_raw (source_id, source_item_id, raw_json, fetched_at) "
        "VALUES (?, ?, ?, ?) RETURNING id",
        *(number, item, text, fetched),
    )
    return int(raw_id)


def raw_row(item: str, price: Any = 5000, **more: Any) -> dict[str, Any]:
    """Write a row as the first site shows it."""
    return {
        "wrk_id": item,
        "titel": f"flat {item}",
        "preis": price,
        "anzahl_zimmer": 3,
        "ort": "חיפה",
        "vermarktungsart_miete": "1",
        "slug": f"flat-{item}",
        **more,
    }


def waiting(place: Place) -> int:
    [[count]] = place.run("SELECT COUNT(*) FROM listings_raw WHERE processed_at IS NULL")
    return int(count)
