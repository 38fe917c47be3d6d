"""MariaDB by hand: an insert that spares what is there, and an update on the token, through `PyMySQL`."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence

import pymysql

from benchmarks.ledger.by_hand import SCOPE
from benchmarks.stores.by_hand import LEASE, RECEIPT, Item
from onefold.stores.mariadb.address import address

# Nothing but placeholders between the brackets: only then does the client put many rows into one statement.
_ROW = f"({', '.join(['%s'] * 14)})"
CLAIM = f"""
INSERT INTO onefold_entries (
    id, scope, state, token, version, fence, effect, begun, lease, written, attempt, label, source, due
) VALUES {_ROW} ON DUPLICATE KEY UPDATE id = onefold_entries.id
"""
STORED = "SELECT id, token, state, body FROM onefold_entries WHERE id IN %s"
SETTLE_ONE = """
UPDATE onefold_entries SET state = 'done', version = version + 1, written = %s, due = NULL, body = %s
WHERE id = %s AND token = %s AND state = 'held'
"""
SETTLE = """
UPDATE JSON_TABLE(%s, '$[*]' COLUMNS (
    id char(64) PATH '$[0]', token text PATH '$[1]', written double PATH '$[2]', body mediumtext PATH '$[3]'
)) AS wanted
STRAIGHT_JOIN onefold_entries AS entry FORCE INDEX (PRIMARY)
    ON entry.id = UNHEX(wanted.id) AND entry.token = wanted.token AND entry.state = 'held'
SET entry.state = 'done', entry.version = entry.version + 1, entry.written = wanted.written, entry.due = NULL,
    entry.body = wanted.body
"""


class Hand:
    """A connection on which each statement commits by itself."""

    def __init__(self, url: str) -> None:
        at = address(url)
        self.connection = pymysql.connect(
            **at.settings, database=at.database, autocommit=True, ssl_disabled=True
        )
        self.cursor = self.connection.cursor()

    @property
    def durability(self) -> str:
        self.cursor.execute("SELECT @@innodb_flush_log_at_trx_commit")
        return f"innodb_flush_log_at_trx_commit {self.cursor.fetchone()[0]}"

    def claim_one(self, item: Item) -> bool:
        won = bool(self.cursor.execute(CLAIM, _row(item)) == 1)
        if not won:
            self._stored([item])
        return won

    def settle_one(self, item: Item) -> bool:
        return bool(self.cursor.execute(SETTLE_ONE, [item.now, RECEIPT, item.id, item.token]) == 1)

    def claim(self, items: Sequence[Item]) -> Collection[bytes]:
        if self.cursor.executemany(CLAIM, [_row(item) for item in items]) == len(items):
            return {item.id for item in items}
        stored = {row[0]: row[1] for row in self._stored(items)}
        return {item.id for item in items if stored[item.id] == item.token}

    def settle(self, items: Sequence[Item]) -> int:
        rows = [[item.id.hex(), item.token, item.now, RECEIPT] for item in items]
        return int(self.cursor.execute(SETTLE, [json.dumps(rows)]))

    def _stored(self, items: Sequence[Item]) -> Sequence[tuple[bytes, str, str, str | None]]:
        self.cursor.execute(STORED, [[item.id for item in items]])
        return list(self.cursor.fetchall())

    def close(self) -> None:
        self.connection.close()


def _row(item: Item) -> list[object]:
    now, version = item.now, item.version
    return [
        item.id, SCOPE, "held", item.token, version, version, "one-shot", now, LEASE, now, 1, item.label, "",
        now + LEASE,
    ]  # fmt: skip
