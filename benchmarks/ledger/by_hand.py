"""The same work without Onefold: its own SQL statements, sent by hand through `apsw`.

What a careful programmer would write for one purpose: same table, same columns, same transactions, digests
and tokens made too. It has no lease renewal, no take-over, no second chance for an unknown reply.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from hashlib import blake2b
from pathlib import Path
from secrets import token_hex
from typing import Any

import apsw

from onefold.stores.sql import statements
from onefold.stores.sqlite import SqliteStore

SCOPE = "bench"
_PREFIX = len(SCOPE).to_bytes(8, "big") + SCOPE.encode()
_SQL = statements("sqlite")
_LEASE = 60.0
_SYNCHRONOUS = ("OFF", "NORMAL", "FULL", "EXTRA")


class ByHand:
    """A connection to a file with Onefold's tables, and claims and settlements spelt out on it."""

    def __init__(self, path: Path, synchronous: str) -> None:
        _make_tables(path)
        self.connection = apsw.Connection(str(path))
        self.connection.execute(f"PRAGMA synchronous = {synchronous}")
        self.ran = 0

    @property
    def durability(self) -> str:
        return durability(self.connection.pragma("synchronous"))

    def effect(self) -> None:
        """Do nothing, and count it."""
        self.ran += 1

    def batch(self, keys: Sequence[str]) -> int:
        """Claim keys in one transaction, run the effect of those won, settle them in another."""
        before, effect = self.ran, self.effect
        claimed, version = self.claim(keys)
        now = time.time()
        settled = []
        for row in claimed:
            effect()
            settled.append(_settled(row, version, now))
        if settled:
            self.write("update", settled)
        return self.ran - before

    def claim(self, keys: Sequence[str]) -> tuple[list[tuple[Any, ...]], int]:
        """Claim keys in one transaction; return the rows that are ours, and their version."""
        now = time.time()
        version = int(now * 1_000_000)
        drawn = token_hex(16 * len(keys))
        rows = [_claimed(key, drawn[at * 32 : at * 32 + 32], version, now) for at, key in enumerate(keys)]
        rows.sort()
        won = self.write("insert", rows)
        return [row for row, is_won in zip(rows, won, strict=True) if is_won], version

    def write(self, name: str, rows: Sequence[tuple[Any, ...]]) -> list[bool]:
        """Send a statement for many rows in one transaction; read what is stored where it was refused."""
        execute, changes, sql = self.connection.cursor().execute, self.connection.changes, _SQL[name]
        written = []
        execute("BEGIN IMMEDIATE")
        for row in rows:
            execute(sql, row)
            written.append(changes() > 0)
            if not written[-1]:
                execute(_SQL["get"], row[:1]).fetchall()
        execute("COMMIT")
        return written

    def single(self, keys: Sequence[str]) -> int:
        """Handle keys one after another, with a commit for each claim and for each settlement."""
        before = self.ran
        for key in keys:
            self.call(key, self.effect)
        return self.ran - before

    def call(self, key: str, effect: Callable[[], object]) -> object:
        """Run an effect once for a key; return what is stored if it was done before."""
        execute = self.connection.cursor().execute
        now = time.time()
        version = int(now * 1_000_000)
        row = _claimed(key, token_hex(16), version, now)
        execute("BEGIN IMMEDIATE")
        execute(_SQL["insert"], row)
        if not self.connection.changes():
            found = execute(_SQL["get"], row[:1]).fetchall()
            execute("COMMIT")
            return found[0][17]
        execute("COMMIT")
        effect()
        execute("BEGIN IMMEDIATE")
        execute(_SQL["update"], _settled(row, version, time.time()))
        execute("COMMIT")
        return None

    def claims_one_by_one(self, keys: Sequence[str]) -> int:
        """Claim keys with a commit each; return how many were won."""
        return sum(len(self.claim([key])[0]) for key in keys)

    def close(self) -> None:
        self.connection.close()


class Crowd:
    """Many threads with a connection each to one file, as workers have that know nothing of each other."""

    def __init__(self, path: Path, synchronous: str, number: int) -> None:
        self._hands = [ByHand(path, synchronous) for _ in range(number)]
        for hand in self._hands:
            hand.connection.set_busy_timeout(60_000)

    @property
    def durability(self) -> str:
        return self._hands[0].durability

    def claims(self, keys: Sequence[str]) -> int:
        """Claim keys side by side with a commit each; return how many were won."""
        number = len(self._hands)
        with ThreadPoolExecutor(number) as threads:
            parts = threads.map(
                ByHand.claims_one_by_one, self._hands, (keys[at::number] for at in range(number))
            )
            return sum(parts)

    def close(self) -> None:
        for hand in self._hands:
            hand.close()


def _make_tables(path: Path) -> None:
    store = SqliteStore(path)
    store.query("PRAGMA journal_mode")
    store.close()


def durability(synchronous: int) -> str:
    """Name a level of SQLite's `synchronous` pragma, as it was read back."""
    return f"WAL, {_SYNCHRONOUS[synchronous]}"


def digest(key: str) -> bytes:
    """Return the id of a key of one part."""
    raw = key.encode()
    return blake2b(b"".join((_PREFIX, len(raw).to_bytes(8, "big"), raw)), digest_size=32).digest()


def _claimed(key: str, token: str, version: int, now: float) -> tuple[Any, ...]:
    return (
        digest(key), SCOPE, "held", None, token, version, version, "one-shot", now, _LEASE, now, 1,
        None, None, None, key, "", None, now + _LEASE,
    )  # fmt: skip


def _settled(row: tuple[Any, ...], version: int, now: float) -> tuple[Any, ...]:
    return (
        "done", None, row[4], version + 1, version, "one-shot", row[8], _LEASE, now, 1,
        None, None, None, row[15], "", "null", None, row[0], version,
    )  # fmt: skip
