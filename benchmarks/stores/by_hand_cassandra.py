"""Cassandra by hand: lightweight transactions through `cassandra-driver`, many of them at a time.

It keeps no hints to what is open: that takes a second statement for each, and a careful programmer whose
work is never listed would not write it.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from typing import Any

from cassandra.concurrent import execute_concurrent_with_args

from benchmarks.ledger.by_hand import SCOPE
from benchmarks.stores.by_hand import LEASE, RECEIPT, Item
from onefold.stores.cassandra.address import address
from onefold.stores.cassandra.client import WIDTH, clustered

CLAIM = "INSERT INTO {} (id, version, entry) VALUES (?, ?, ?) IF NOT EXISTS"
SETTLE = "UPDATE {} SET version = ?, entry = ? WHERE id = ? IF version = ?"
SETTING = "SELECT value FROM system_views.settings WHERE name = 'commitlog_sync'"


class Hand:
    """A session, which threads share, and two statements that its server knows."""

    def __init__(self, url: str) -> None:
        at = address(url)
        self._cluster = clustered(at)
        self.session = self._cluster.connect()
        self._claim, self._settle = (
            self.session.prepare(text.format(at.table("entries"))) for text in (CLAIM, SETTLE)
        )

    @property
    def durability(self) -> str:
        return f"commitlog_sync {self.session.execute(SETTING).one()['value']}"

    def claim_one(self, item: Item) -> bool:
        return _applied(self.session.execute(self._claim, _claimed(item)))

    def settle_one(self, item: Item) -> bool:
        return _applied(self.session.execute(self._settle, _settled(item)))

    def claim(self, items: Sequence[Item]) -> Collection[bytes]:
        told = self._many(self._claim, [_claimed(item) for item in items])
        return {item.id for item, is_won in zip(items, told, strict=True) if is_won}

    def settle(self, items: Sequence[Item]) -> int:
        return sum(self._many(self._settle, [_settled(item) for item in items]))

    def _many(self, statement: Any, rows: Sequence[Sequence[Any]]) -> list[bool]:
        ended = execute_concurrent_with_args(self.session, statement, rows, concurrency=WIDTH)
        return [_applied(one.result_or_exc) for one in ended]

    def close(self) -> None:
        self._cluster.shutdown()


def _applied(rows: Any) -> bool:
    return bool(rows.one()["[applied]"])


def _claimed(item: Item) -> list[Any]:
    return [item.id, item.version, _entry(item, "held", None)]


def _settled(item: Item) -> list[Any]:
    return [item.version + 1, _entry(item, "done", RECEIPT), item.id, item.version]


def _entry(item: Item, state: str, body: str | None) -> str:
    now = item.now
    return json.dumps({
        "scope": SCOPE, "state": state, "why": None, "token": item.token, "fence": item.version,
        "effect": "one-shot", "begun": now, "lease": LEASE, "written": now, "attempt": 1, "not_before": None,
        "expires": None, "fingerprint": None, "label": item.label, "source": "", "body": body,
    })  # fmt: skip
