"""What many teams write first: an asyncio loop with a `processed` table and a cursor in an SQLite file.

It marks a record after its effect, so that a crash repeats effects and loses none. It has no lease, no retry
and no memory of a failed effect. It uses the standard library's `sqlite3`, from the loop itself: a thread for
the database would only make it slower.
"""

from __future__ import annotations

import asyncio
import sqlite3
import time
from contextlib import closing
from pathlib import Path

from benchmarks.ledger.by_hand import durability
from benchmarks.measure import Contestant, Keys
from benchmarks.worker.proof import Site, pages, proven

_TABLES = """
CREATE TABLE processed (id TEXT PRIMARY KEY, at REAL NOT NULL) WITHOUT ROWID;
CREATE TABLE cursor (source TEXT PRIMARY KEY, n INTEGER NOT NULL);
"""


def contestant(name: str, site: Site, commits_each: bool) -> Contestant:
    """Commit after each effect, or after each page; a round includes opening the file."""

    def play(keys: Keys) -> int:
        with closing(_opened(site.path("naive"))) as connection:
            acted: list[str] = []
            asyncio.run(_loop(connection, keys, acted, commits_each))
        return proven(name, acted, keys)

    with closing(_opened(site.path("naive"))) as connection:
        level = durability(connection.execute("PRAGMA synchronous").fetchone()[0])
    return Contestant(name, level, play, at_most=2 * site.sizes.batch if commits_each else None)


def _opened(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    connection.executescript(_TABLES)
    return connection


async def _loop(connection: sqlite3.Connection, keys: Keys, acted: list[str], commits_each: bool) -> None:
    async def effect(record: dict[str, object]) -> None:
        acted.append(str(record["id"]))

    execute = connection.execute
    for page in pages(keys):
        for record in page:
            if execute("SELECT 1 FROM processed WHERE id = ?", (record["id"],)).fetchone():
                continue
            await effect(record)
            execute("INSERT INTO processed VALUES (?, ?)", (record["id"], time.time()))
            if commits_each:
                connection.commit()
        execute("INSERT OR REPLACE INTO cursor VALUES ('list', ?)", (page[-1]["n"],))
        connection.commit()
