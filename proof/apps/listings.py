"""Listings in the simulation: two sites that shift and lie, tables in a file, users who change their minds.

The sites' journal says which flats there were, the part itself remembers what users looked for, and the
chat's journal says who heard of what. The tables are read and written as any other program would.
"""

from __future__ import annotations

import asyncio
import json
import tempfile
import tomllib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, partial
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import apsw

from onefold.apps.listings.schema import migrate, statements
from onefold.core.entry import Entry
from onefold.core.key import Key
from onefold.core.ports import Store
from onefold.stores.sqlite.file import SqliteStore
from onefold.tables import Database
from onefold.tables.times import at as time_of
from onefold.worker.progress import cursor_key
from onefold.worlds.chat import TOKEN, ChatWorld
from onefold.worlds.listings import CITIES, Change, Flat, ListingSites, What, draw, sections
from onefold.worlds.mischief import Mischief, Trick
from onefold.worlds.serving import StandIn
from proof.apps.part import Act, Look, Part, Setting

SITE_TRICKS: tuple[Trick, ...] = ("stall", "error", "busy", "cut-before", "half", "stale", "empty", "garbage")
CHAT_TRICKS: tuple[Trick, ...] = ("stall", "error", "busy", "cut-before", "cut-after", "half")

SITE_CURSOR = cursor_key("listings.collector", "flats")
MATCH_CURSOR = cursor_key("listings.notifier", "matches")

LATE = 5.5
"""Seconds of calm after which a user may change a filter; the worker has time to tell what fits it then."""

CHEAPEST = 500
"""Shekels: no flat becomes cheaper than that."""

ANYTHING = 10**9
"""A price that everybody could pay."""


class Wish(NamedTuple):
    """What one filter looks for. What is left out does not limit."""

    max_price: int = ANYTHING
    min_rooms: float = 0
    city: str = ""
    elevator: bool = False

    def fits(self, flat: Mapping[str, Any]) -> bool:
        """Say whether its owner wants to hear of a flat; only the first site says whether it has a lift."""
        return (
            flat["price"] <= self.max_price
            and flat["rooms"] >= self.min_rooms
            and self.city in ("", flat["city"])
            and (not self.elevator or (flat["elevator"] and flat["site"] == "flats"))
        )


class Filter:
    """A row of `filters`, and everything that it ever looked for."""

    def __init__(self, number: int, chat: str) -> None:
        self.number = number
        self.chat = chat
        self.was: list[tuple[Wish, float]] = []
        """Earlier wishes, each with the time at which it ended."""
        self.wish: Wish | None = None
        self.was_broken = False


class Listings(Part):
    """Two sites, some users with filters, one chat service; mostly in the ledger's own file."""

    name = "listings"
    span = 25.0
    patience = 25.0

    def __init__(self, random: Random, clock: Callable[[], float], folder: Path) -> None:
        super().__init__(random, clock, folder)
        self.sites = ListingSites(_drawn(random, SITE_TRICKS, 0.15))
        self.sites.posts_page = random.choice((2, 4, 25))
        self.sites.most = random.choice((2, 3, 200, 200))
        self.chat = ChatWorld(_drawn(random, CHAT_TRICKS, 0.3))
        self.chat.retry_after = random.choice((1, 7))
        self.is_joined = random.random() < 0.75
        self.lookback = random.choice((5, 10, 30))
        self.refreshes = random.random() < 0.4
        """Whether posts are noted again often. Only then a price may change twice on a site without times."""
        self._every = random.choice((8, 15, 25))
        self._process_every = random.choice((7, 12))
        self._notify_every = random.choice((8, 13))
        self._window = random.choice(("3m", "24h"))
        self._limit = random.choice((2, 2, 4, 20))
        self._clean_after = random.choice(("never", "never", "never", "30d"))
        (folder / "token").write_text(TOKEN)
        self.file = folder / "flats.db"
        self.file.write_bytes(_empty())
        self.table = apsw.Connection(str(self.file))
        self.table.execute("PRAGMA synchronous = off")
        self.filters: list[Filter] = []
        self._mended: list[dict[str, Any]] = []
        self._changed: dict[str, float] = {}
        """When the sites last said that an item was changed."""
        for number, wish in enumerate(random.sample(WISHES, random.randint(1, 2))):
            self._join(f"user{number}", wish)

    def services(self) -> Sequence[StandIn]:
        return self.sites, self.chat

    def store(self) -> Store | None:
        """Keep the ledger beside the tables where rows and marks commit together."""
        return SqliteStore(self.file, synchronous="normal", clock=self.clock) if self.is_joined else None

    def section(self) -> Mapping[str, Any]:
        sites = _sites(self.sites.url)
        flats = {**sites["flats"], "limit": self._limit, "lag": f"{self.lookback}s"}
        return {
            "database": f"sqlite:///{self.file}?synchronous=normal",
            "chat_token": f"file:{self.folder / 'token'}",
            "sites": {**sites, "flats": flats},
            "joined": self.is_joined,
            "every": f"{self._every}s",
            "process_every": f"{self._process_every}s",
            "notify_every": f"{self._notify_every}s",
            "window": self._window,
            "refresh": "40s" if self.refreshes else "1d",
            "clean_after": self._clean_after,
            "lease": "20s",
            "backoff": ["5s", "20s"],
            "attempts": 60,
            "chat_url": self.chat.url,
            "chat_pace": [0.0, 0.0, 0.0],
        }

    # ----- what happens

    def plan(self) -> Sequence[tuple[float, Act | Setting]]:
        seed, number = self.random.randrange(2**32), self.random.randint(3, 6)
        flats = [one.flat for one in draw(seed, number) if one.price is None]
        if self.random.random() < 0.5:  # one site has all of them, and so several pages
            flats = [_on_the_first_site(flat) for flat in flats]
        plan: list[tuple[float, Act | Setting]] = []
        for flat in flats:
            plan += self._life_of(flat, self._moment())
        plan += [(self.random.uniform(0.2, 0.95) * self.span, act) for act in self._people()]
        return plan

    def _moment(self) -> float:
        """Draw a time; some things happen in the same second, and some before anybody works."""
        at = self.random.uniform(0, self.span * 0.8)
        return self.random.choice((at, at, float(int(at / 10) * 10)))

    def _life_of(self, flat: Flat, begin: float) -> Iterator[tuple[float, Act]]:
        """Draw how a flat appears and what becomes of it."""
        yield begin, partial(self._show, flat)
        at = begin
        # What cannot be read is mostly corrected soon: then its row, mended by hand, is an old one.
        while self.random.random() < (0.8 if flat.what == "broken" else 0.5):
            soon = min(at + 12, self.span * 0.8)  # so that several versions wait for the processor
            at = self.random.uniform(at, self.random.choice((soon, self.span * 0.8)))
            flat = self._next(flat)
            yield at, partial(self._remove if self.random.random() < 0.2 else self._show, flat)

    def _next(self, flat: Flat) -> Flat:
        """Draw what a flat is later: it costs something else, was sold, cannot be read, or is mended."""
        what: What = "flat"
        if self.random.random() < 0.25:
            what = self.random.choice(("broken", "broken", "sale" if flat.site == "flats" else "wanted"))
        is_fixed = flat.site == "posts" and not self.refreshes
        factor = 1.0 if is_fixed else self.random.choice((0.4, 0.7, 1.5))
        # In the text of a post, only a number of three digits or more is taken for a price.
        return flat._replace(what=what, price=max(int(flat.price * factor), CHEAPEST))

    def _show(self, flat: Flat) -> None:
        """Let a site show a flat as it is now; it may say that this was so some seconds ago."""
        late = self.random.uniform(0.2, 0.8) * self.lookback if self.random.random() < 0.5 else 0.0
        before = self._changed.get(flat.item, 0.0)
        at = round(max(self.clock() - late, before + 0.001), 3)
        self._changed[flat.item] = at
        self.sites.happen(at, Change(flat))

    def _remove(self, flat: Flat) -> None:
        shown = self._shown().get(flat.item)
        if shown is not None:
            self.sites.remove(flat)

    # ----- users

    def _people(self) -> Iterator[Act]:
        acts: Sequence[Act] = (
            lambda: self._join("newcomer", self.random.choice(WISHES)),
            lambda: self._edit(self.random.choice(WISHES)),
            lambda: self._edit(self.random.choice(WISHES)),
            self._switch_off,
            self._switch_on,
            self._spoil,
            lambda: self._add(self.filters[0].chat, self.random.choice(WISHES)),
            lambda: self.chat.blocked.add(self.random.choice(self.filters).chat),
            lambda: self.chat.floods.update({self.random.choice(self.filters).chat: 2}),
        )
        yield from self.random.sample(acts, self.random.randint(1, 4))

    def _join(self, chat: str, wish: Wish) -> None:
        self.table.execute("INSERT INTO users (telegram_chat_id) VALUES (?)", (chat,))
        self._add(chat, wish)

    def _add(self, chat: str, wish: Wish) -> None:
        sql = "INSERT INTO filters (user_id) SELECT id FROM users WHERE telegram_chat_id = ? RETURNING id"
        [(number,)] = self.table.execute(sql, (chat,)).fetchall()
        self.filters.append(Filter(int(str(number)), chat))
        self._write(self.filters[-1], wish)

    def _edit(self, wish: Wish) -> None:
        self._write(self.random.choice(self.filters), wish)

    def _switch_off(self) -> None:
        one = self.random.choice(self.filters)
        self._end(one)
        self.table.execute("UPDATE filters SET enabled = 0 WHERE id = ?", (one.number,))

    def _switch_on(self) -> None:
        for one in self.filters:
            if one.wish is None:
                self._write(one, self.random.choice(WISHES))

    def _spoil(self) -> None:
        """Leave something in a filter that cannot be read; it matches nothing."""
        one = self.random.choice(self.filters)
        self._end(one)
        one.was_broken = True
        self.table.execute("UPDATE filters SET enabled = 1, cities_json = '{no' WHERE id = ?", (one.number,))

    def _write(self, one: Filter, wish: Wish) -> None:
        self._end(one)
        one.wish = wish
        cities = json.dumps([wish.city]) if wish.city else None
        tags = json.dumps(["elevator"]) if wish.elevator else None
        most = None if wish.max_price == ANYTHING else wish.max_price
        self.table.execute(
            "UPDATE filters SET enabled = 1, max_price = ?, min_bedrooms = ?, cities_json = ?, "
            "must_have_tags_json = ? WHERE id = ?",
            (most, wish.min_rooms or None, cities, tags, one.number),
        )

    def _end(self, one: Filter) -> None:
        if one.wish is not None:
            one.was.append((one.wish, self.clock()))
        one.wish = None

    def calm(self) -> None:
        self.sites.mischief.stop()
        self.chat.mischief.stop()
        self.chat.floods.clear()
        # Everybody is to be had again, and a person lets them in.
        self.chat.blocked.clear()
        self.table.execute("UPDATE users SET blocked_at = NULL")
        if self.random.random() < 0.6:
            self._mend()
        if self.random.random() < 0.5:
            # Somebody changes their mind while a worker runs that has seen everything and does not die.
            asyncio.get_running_loop().call_later(LATE, self._edit, self.random.choice(WISHES))

    def _mend(self) -> None:
        """Correct raw rows that cannot be read, by hand; the site may have corrected them long before."""
        waiting = "SELECT id, source_item_id, raw_json FROM listings_raw WHERE processed_at IS NULL"
        for number, item, text in self.table.execute(waiting).fetchall():
            row = json.loads(str(text))
            if isinstance(row.get("preis"), dict):
                row["preis"] = row["preis"]["?"]
                self.table.execute(
                    "UPDATE listings_raw SET raw_json = ? WHERE id = ?", (json.dumps(row), number)
                )
                self._mended += [{**one, "what": "flat"} for one in self._versions() if one["item"] == item]

    # ----- the truth

    def expected(self) -> Counter[str]:
        """Name what users look for on the sites now, and of what they looked for before what they were told.

        A price that changes before anybody reads it is not seen, so what was is left to chance; but nobody
        hears of anything twice, or of what they never looked for.
        """
        flats = self._shown().values()
        rows = {f"row {_row(one)}" for one in flats if one["what"] == "flat"}
        must = {
            f"{one.chat}/{flat['item']}"
            for one in self.filters
            for flat in flats
            if flat["what"] == "flat" and one.wish is not None and one.wish.fits(flat)
        }
        return Counter(rows | must | (self._arrived().keys() & self._possible()))

    def _possible(self) -> set[str]:
        """Name every flat that ever fitted what somebody looked for at that time or later."""
        versions = [line for line in self._versions() if line["what"] == "flat"]
        return {
            f"{one.chat}/{flat['item']}"
            for one in self.filters
            for wish, until in (*one.was, *([(one.wish, float("inf"))] if one.wish else []))
            for flat in versions
            if flat["at"] <= until and wish.fits(flat)
        }

    def _versions(self) -> list[dict[str, Any]]:
        """Return every version of a flat that there ever was: on the sites, or mended by hand."""
        return self.sites.journal.of("flat") + self._mended

    def _shown(self) -> dict[str, dict[str, Any]]:
        """Return what the sites show now, by the names of items."""
        shown: dict[str, dict[str, Any]] = {}
        for line in self.sites.journal.lines():
            if line["kind"] == "gone":
                shown.pop(line["item"], None)
            else:
                shown[line["item"]] = line
        return shown

    def happened(self) -> Counter[str]:
        """Name the messages that arrived, and the listings in the table as far as their flats are shown."""
        found = self._arrived()
        shown = self._shown()
        ever = {line["item"] for line in self._versions() if line["what"] == "flat"}
        for item, price, rooms, city in self.table.execute(
            "SELECT source_item_id, price, bedrooms, city FROM listings ORDER BY id"
        ):
            if item not in ever or (item in shown and shown[item]["what"] == "flat"):
                found[f"row {item} {price:g} {rooms:g} {city}"] += 1
        return found

    def _arrived(self) -> Counter[str]:
        return Counter(f"{line['chat']}/{_item(line['text'])}" for line in self.chat.journal.of("message"))

    def named(self, key: Key, entry: Entry) -> str | None:
        record = json.loads(entry.body or "{}").get("record") or {}
        body = record.get("body")
        if not isinstance(body, dict) or "listing" not in body:
            return None
        return f"{body['chat']}/{body['listing']['source_item_id']}"

    def is_final(self, key: Key, entry: Entry) -> bool:
        """Rows of flats that cannot be read stay parked, and so do filters, and messages to who left."""
        if entry.state != "parked" or entry.why == "in-doubt":
            return False
        match key.scope:
            case "listings.processor":
                return self._is_unreadable(entry)
            case "listings.notifier.broken":
                return any(one.was_broken for one in self.filters)
            case "listings.notifier":
                return (self.named(key, entry) or "").partition("/")[0] in self.chat.blocked
        return False

    def _is_unreadable(self, entry: Entry) -> bool:
        """Say whether an entry is about a raw row of a flat that the site showed as one nobody can read."""
        row = (json.loads(entry.body or "{}").get("record") or {}).get("body") or {}
        broken = {line["item"] for line in self._versions() if line["what"] == "broken"}
        now = self.table.execute("SELECT raw_json FROM listings_raw WHERE id = ?", (row.get("id"),))
        return row.get("source_item_id") in broken and all(_is_broken(str(text)) for (text,) in now)

    # ----- cursors and tables

    def moved(self, key: Key, entry: Entry, look: Look) -> Iterator[str]:
        if key not in (SITE_CURSOR, MATCH_CURSOR):
            return
        place = json.loads(entry.body or "{}").get("at")
        if place is None:
            return
        if key == MATCH_CURSOR:
            yield from self._is_ahead(place)
            yield from self._never_sent()
        elif self.is_joined:
            yield from self._left_behind(place)

    def _left_behind(self, place: float) -> Iterator[str]:
        """Hold the collector's cursor against the site: whatever it shows further back is a raw row."""
        known = set(self.table.execute("SELECT source_item_id, substr(version, 1, 15) FROM listings_raw"))
        for line in self._shown().values():
            is_behind = line["site"] == "flats" and line["at"] < place - self.lookback
            if is_behind and (line["item"], f"u{line['at']:.3f}") not in known:
                yield f"the cursor stands at {place}, and {line['item']} of {line['at']} is no raw row"

    def _is_ahead(self, place: float) -> Iterator[str]:
        """Hold the notifier's cursor against the listings: it never stands where none ever was.

        A worker whose clock is slow sets the time of a listing back; the mark of its raw row stays.
        """
        newest = 0.0
        for last in self.table.execute(
            "SELECT max(noticed_at) FROM listings UNION ALL SELECT max(processed_at) FROM listings_raw"
        ):
            newest = max(newest, time_of(last[0]) or 0.0)
        if place > newest:
            yield f"the cursor of matches stands at {place}, but the newest listing is of {newest}"

    def _never_sent(self) -> Iterator[str]:
        """Name what is written down as sent though nothing arrived."""
        sent = (
            "SELECT u.telegram_chat_id || '/' || l.source_item_id FROM notifications_sent AS n "
            "JOIN users AS u ON u.id = n.user_id JOIN listings AS l ON l.id = n.listing_id"
        )
        arrived = self._arrived()
        for (name,) in self.table.execute(sent):
            if not arrived[name]:
                yield f"{name} is written down as sent, and nothing arrived"

    def wrong(self) -> Iterator[str]:
        """Read the tables: what is written down as sent was sent, and every readable row was processed."""
        yield from self._never_sent()
        waiting = "SELECT source_item_id, raw_json, fetched_at FROM listings_raw WHERE processed_at IS NULL"
        for item, text, fetched in self.table.execute(waiting):
            # Sites are read to the very end; the processor has not seen what came last.
            is_new = (time_of(fetched) or 0.0) > self.clock() - 2 * self._process_every
            if not is_new and not _is_broken(text):
                yield f"a raw row of {item} was never processed"


WISHES = (
    Wish(),
    Wish(max_price=6000),
    Wish(max_price=9000),
    Wish(min_rooms=2.5),
    Wish(city=CITIES[0]),
    Wish(elevator=True, max_price=12_000),
)


@cache
def _empty() -> bytes:
    """Make a file with the tables and the ledger in it, as people do it, once for all histories."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "flats.db")
        file.touch()
        database = Database(f"sqlite:///{file}?synchronous=normal")
        migrate(database, statements(database))
        database.close()
        store = SqliteStore(file, synchronous="normal")
        store.get([SITE_CURSOR])  # which also gives the file its log
        store.close()
        return file.read_bytes()


@cache
def _sites(url: str) -> Mapping[str, Mapping[str, Any]]:
    """Read the mappings of both sites. Every life of a worker asks for them, and reading them takes long."""
    sites: Mapping[str, Mapping[str, Any]] = tomllib.loads(sections(url))["apps"]["listings"]["sites"]
    return sites


def _on_the_first_site(flat: Flat) -> Flat:
    return flat._replace(site="flats", what="sale" if flat.what == "wanted" else flat.what)


def _row(flat: Mapping[str, Any]) -> str:
    return f"{flat['item']} {flat['price']:g} {flat['rooms']:g} {flat['city']}"


def _is_broken(raw: str) -> bool:
    """Say whether this is how the sites show a flat that cannot be read."""
    row = json.loads(raw)
    return isinstance(row.get("preis"), dict) or not row.get("post", {}).get("text", "?").strip()


def _item(text: str) -> str:
    return text.partition(".example/")[2].partition('"')[0].removeprefix("flat-")


def _drawn(random: Random, tricks: Sequence[Trick], most: float) -> Mischief:
    """Draw how a service misbehaves in one history: some of its tricks, each at a rate of its own."""
    chosen = random.sample(tricks, random.randint(0, len(tricks)))
    share = most / max(len(chosen), 1)
    rates = {trick: random.uniform(0.2, 1.0) * share * 2 for trick in chosen}
    return Mischief(random.randrange(2**32), rates, random.choice((0.5, 3.0, 12.0)))
