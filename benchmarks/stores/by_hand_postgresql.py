"""PostgreSQL by hand: an insert that says whom it let in, and an update on the token, through `psycopg`."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import psycopg

from benchmarks.ledger.by_hand import SCOPE
from benchmarks.stores.by_hand import LEASE, RECEIPT, Item

# The manners of Onefold's own connections: the planner knows nothing of tables that have just been made.
_OFF = ("enable_seqscan", "enable_hashjoin", "enable_mergejoin", "jit")
_NOW = "(SELECT extract(epoch FROM clock_timestamp())::float8 AS now) AS clock"
_INSERT = f"""
INSERT INTO onefold_entries (
    id, scope, state, token, version, fence, effect, begun, lease, written, attempt, label, source, due
)
SELECT
    id, '{SCOPE}', 'held', token, (now * 1000000)::bigint, (now * 1000000)::bigint, 'one-shot',
    now, {LEASE}, now, 1, label, '', now + {LEASE}
FROM %s AS wanted (id, token, label), {_NOW}
ON CONFLICT (id) DO NOTHING RETURNING id
"""
# On the token alone, which no other claim has: with the state beside it, the planner takes the index of open
# entries, and compares every row that is wanted with every one that is open.
_UPDATE = f"""
UPDATE onefold_entries AS entry
SET state = 'done', version = version + 1, written = now, due = NULL, body = wanted.body
FROM %s AS wanted (id, token, body), {_NOW}
WHERE entry.id = wanted.id AND entry.token = wanted.token
"""
_ONE, _MANY = "(VALUES (%s::bytea, %s, %s))", "unnest(%s::bytea[], %s::text[], %s::text[])"
CLAIM_ONE, CLAIM = _INSERT % _ONE, _INSERT % _MANY
SETTLE_ONE, SETTLE = _UPDATE % _ONE, _UPDATE % _MANY
STORED = "SELECT id, state, token, body FROM onefold_entries WHERE id = ANY (%s)"


class Hand:
    """A connection on which each statement commits by itself."""

    def __init__(self, url: str) -> None:
        self.connection: psycopg.Connection[Any] = psycopg.connect(url, autocommit=True)
        for name in _OFF:
            self.connection.execute("SELECT set_config(%s, 'off', false)", [name])

    @property
    def durability(self) -> str:
        return durability(self.connection)

    def claim_one(self, item: Item) -> bool:
        won = self.connection.execute(CLAIM_ONE, [item.id, item.token, item.label]).fetchone()
        if won is None:
            self.connection.execute(STORED, [[item.id]]).fetchone()
        return won is not None

    def settle_one(self, item: Item) -> bool:
        return self.connection.execute(SETTLE_ONE, [item.id, item.token, RECEIPT]).rowcount == 1

    def claim(self, items: Sequence[Item]) -> Collection[bytes]:
        columns = [
            [item.id for item in items],
            [item.token for item in items],
            [item.label for item in items],
        ]
        won = {row[0] for row in self.connection.execute(CLAIM, columns)}
        if lost := [item.id for item in items if item.id not in won]:
            self.connection.execute(STORED, [lost]).fetchall()
        return won

    def settle(self, items: Sequence[Item]) -> int:
        columns = [[item.id for item in items], [item.token for item in items], [RECEIPT] * len(items)]
        return self.connection.execute(SETTLE, columns).rowcount

    def close(self) -> None:
        self.connection.close()


def durability(connection: psycopg.Connection[Any]) -> str:
    """Say what a connection of psycopg's has, as it was read back."""
    return said(*(connection.execute(f"SHOW {name}").fetchall()[0][0] for name in SETTINGS))


SETTINGS = ("synchronous_commit", "fsync")


def said(commit: str, fsync: str) -> str:
    """Name what decides when a commit is answered."""
    return f"synchronous_commit {commit}, fsync {fsync}"
