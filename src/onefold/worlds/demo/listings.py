"""Listings in the demo: two sites that shift and stall, users with filters, a chat that loses its answers."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
import time
import urllib.request
from collections import Counter
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from onefold.worlds.chat import TOKEN, ChatWorld
from onefold.worlds.demo.account import kept_in
from onefold.worlds.listings import ListingSites, draw, sections
from onefold.worlds.mischief import Mischief

FLATS = 60
USERS: dict[str, float] = {"tenant": 10**9, "student": 6000}
"""Who looks for flats, up to which price."""


class Listings:
    """Two sites, two users, one chat service; the tables stand in the ledger's own file."""

    name = "listings"

    def start(self, folder: Path, seed: int) -> str:
        tricks = {"stall": 0.1, "error": 0.03, "busy": 0.02, "cut-before": 0.02, "half": 0.02, "stale": 0.03}
        self.sites = ListingSites(Mischief(seed, tricks, 0.15))  # type: ignore[arg-type]
        self.chat = ChatWorld(Mischief(seed + 1, {"stall": 0.6, "cut-after": 0.03, "error": 0.03}, 0.8))
        self.sites.__enter__()
        self.chat.__enter__()
        self._changes = draw(seed, FLATS)
        self._shown = 0
        self._database = f"sqlite:///{folder / 'onefold.db'}"
        self._folder = folder
        return (
            f'database = "{self._database}"\nchat_token = "env:DEMO_CHAT_TOKEN"\nevery = "500ms"\n'
            'process_every = "200ms"\nnotify_every = "300ms"\n'
            'lease = "5s"\nbackoff = ["200ms", "2s"]\nattempts = 50\n'
            f'refresh = "10s"\nchat_url = "{self.chat.url}"\nchat_pace = [0.0, 0.0, 0.0]\n'
            f"{sections(self.sites.url)}"
        )

    def setup(self) -> dict[str, Any]:
        """Make the tables by the command that people use, and let users look for flats."""
        make = [sys.executable, "-m", "onefold.apps.listings", self._database, "--apply"]
        subprocess.run(make, check=True, capture_output=True)
        with closing(sqlite3.connect(self._folder / "onefold.db", timeout=5)) as browser, browser:
            for number, (name, most) in enumerate(USERS.items(), 1):
                browser.execute("INSERT INTO users (id, telegram_chat_id) VALUES (?, ?)", (number, name))
                browser.execute("INSERT INTO filters (user_id, max_price) VALUES (?, ?)", (number, most))
        return {}

    def happen(self, share: float) -> None:
        until = min(int(share * len(self._changes)) + 1, len(self._changes))
        if self._shown < until:
            self.sites.happen(time.time(), *self._changes[self._shown : until])
            self._shown = until

    def calm(self) -> None:
        self.sites.mischief.stop()
        self.chat.mischief.stop()

    def expected(self) -> Counter[str]:
        """Whoever could pay what a flat cost at any time; prices only fall here."""
        found: set[str] = set()
        for line in self._lines():
            if line["what"] == "flat":
                found |= {f"{who}/{line['item']}" for who, most in USERS.items() if line["price"] <= most}
        return Counter(found)

    def _lines(self) -> list[dict[str, Any]]:
        return [line for line in self.sites.journal.lines() if line["kind"] in ("flat", "price")]

    def happened(self) -> Counter[str]:
        return Counter(f"{line['chat']}/{_flat(line['text'])}" for line in self.chat.journal.of("message"))

    def filtered(self) -> int:
        flats = {line["item"] for line in self._lines()}
        return len(flats) * len(USERS) - self.expected().total()

    def named(self, row: dict[str, Any]) -> str | None:
        body = (kept_in(row).get("record") or {}).get("body")
        found = body.get("listing") if isinstance(body, dict) else None
        return f"{body['chat']}/{found['source_item_id']}" if isinstance(body, dict) and found else None

    def naive(self) -> dict[str, Any]:
        return {"sites": self.sites.url, "chat": f"{self.chat.url}/bot{TOKEN}/sendMessage"}

    def close(self) -> None:
        self.sites.__exit__(None, None, None)
        self.chat.__exit__(None, None, None)


def _flat(text: str) -> str:
    return text.partition(".example/")[2].partition('"')[0].removeprefix("flat-")


# ----- as seed 003 has it

SCHEMA = """
CREATE TABLE IF NOT EXISTS listings_raw (id INTEGER PRIMARY KEY, item TEXT UNIQUE ON CONFLICT IGNORE,
    price REAL, fetched_at TEXT DEFAULT (datetime('now')), processed_at TEXT);
CREATE TABLE IF NOT EXISTS listings (id INTEGER PRIMARY KEY, item TEXT UNIQUE, price REAL,
    ingested_at TEXT DEFAULT (datetime('now')));
CREATE TABLE IF NOT EXISTS notifications_sent (chat TEXT, item TEXT, PRIMARY KEY (chat, item));
CREATE TABLE IF NOT EXISTS worker_state (name TEXT PRIMARY KEY, last_run_at TEXT);
"""


def naive(facts: dict[str, Any], folder: Path) -> None:
    """Collect, process, notify: new prices ignored, a cursor of the worker's clock, failures passed over."""
    with closing(sqlite3.connect(folder / "listings.db", timeout=5, isolation_level=None)) as database:
        database.executescript(SCHEMA)
        _naive_collect(facts["sites"], database)
        _naive_process(database)
        _naive_notify(facts["chat"], database)
    time.sleep(0.3)


def _naive_collect(url: str, database: sqlite3.Connection) -> None:
    with urllib.request.urlopen(f"{url}/api/flats?limit=100", timeout=2) as answer:
        flats = [(row["wrk_id"], row["preis"]) for row in json.load(answer)["results"]]
    with urllib.request.urlopen(f"{url}/posts", timeout=2) as answer:
        posts = [(row["post"]["id"], _naive_price(row["post"]["text"])) for row in json.load(answer)["items"]]
    for item, price in flats + posts:
        if isinstance(price, int | float):
            database.execute("INSERT INTO listings_raw (item, price) VALUES (?, ?)", (item, price))


def _naive_price(text: str) -> float | None:
    digits = text.partition("מחיר ")[2].partition(" ")[0].replace(",", "").rstrip("₪")
    return float(digits) if digits.isdigit() else None


def _naive_process(database: sqlite3.Connection) -> None:
    sql = "SELECT id, item, price FROM listings_raw WHERE processed_at IS NULL ORDER BY fetched_at LIMIT 50"
    for raw, item, price in database.execute(sql).fetchall():
        new = "INSERT INTO listings (item, price) VALUES (?, ?)"
        database.execute(f"{new} ON CONFLICT (item) DO UPDATE SET price = excluded.price", (item, price))
        database.execute("UPDATE listings_raw SET processed_at = datetime('now') WHERE id = ?", (raw,))


def _naive_notify(url: str, database: sqlite3.Connection) -> None:
    state = database.execute("SELECT last_run_at FROM worker_state WHERE name = 'notify'").fetchone()
    since = state[0] if state else "2000-01-01 00:00:00"
    now = datetime.now(UTC).strftime("%Y-%m-%d %H:%M:%S")
    # With an ISO text as its cursor, as the seed first had it, nobody would hear of anything before midnight.
    found = database.execute("SELECT item, price FROM listings WHERE ingested_at > ?", (since,)).fetchall()
    for item, price in found:
        for chat, most in USERS.items():
            known = "SELECT 1 FROM notifications_sent WHERE chat = ? AND item = ?"
            if price > most or database.execute(known, (chat, item)).fetchone():
                continue
            if _naive_send(url, chat, item):
                database.execute("INSERT INTO notifications_sent VALUES (?, ?)", (chat, item))
    database.execute("INSERT OR REPLACE INTO worker_state VALUES ('notify', ?)", (now,))


def _naive_send(url: str, chat: str, item: str) -> bool:
    text = f'<a href="https://flats.example/flat-{item}">a flat</a>'
    body = json.dumps({"chat_id": chat, "text": text}).encode()
    request = urllib.request.Request(url, body, {"Content-Type": "application/json"})
    for _ in range(3):
        try:
            urllib.request.urlopen(request, timeout=2).close()
            return True
        except OSError:
            continue
    return False
