"""The statements that make a queue of a table that is there: columns, an index, marks for what was applied.

It writes SQL and runs none. Whoever wants it shows it first. What exists is left as it is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from onefold.core.errors import Misconfigured
from onefold.tables import Kind
from onefold.tables.names import checked, checked_table, listed, quoted

TYPES: dict[Kind, dict[str, str]] = {
    "sqlite": {"time": "TEXT", "count": "INTEGER", "text": "TEXT"},
    "postgresql": {"time": "timestamptz", "count": "integer", "text": "text"},
    "mariadb": {"time": "DATETIME(6)", "count": "INT", "text": "TEXT"},
}

NOW: dict[Kind, str] = {
    "sqlite": "strftime('%Y-%m-%dT%H:%M:%f', 'now') || '000Z'",
    "postgresql": "now()",
    "mariadb": "UTC_TIMESTAMP(6)",
}

SAME: dict[Kind, str] = {"sqlite": "IS", "postgresql": "IS NOT DISTINCT FROM", "mariadb": "<=>"}
"""How two values are compared that may both be missing."""


class Columns(NamedTuple):
    """The columns of a queue; those that are None are not kept."""

    id: str
    order: str
    mark: str
    attempts: str | None
    due: str | None
    error: str | None
    parked: str | None

    def kinds(self) -> dict[str, str]:
        """Give the columns that a queue adds to a table, with what they hold."""
        wanted = {self.mark: "time", self.attempts: "count", self.due: "time", self.error: "text"}
        return {name: kind for name, kind in {**wanted, self.parked: "text"}.items() if name}


class Applied(NamedTuple):
    """Where it stands what was applied before there was a queue: a table, the columns that join, and those
    that must be the same. Without the latter a newer version of a row, not yet applied, would be marked too.
    """

    table: str
    on: Sequence[str]
    same: Sequence[str]


def migration(
    kind: Kind, table: str, queue: Columns, there: Mapping[str, str], applied: Applied | None = None
) -> list[str]:
    """Write what turns a table into a queue."""
    name = quoted(kind, checked_table(table))
    added = [column for column in queue.kinds() if column not in there]
    types = TYPES[kind]
    statements = [
        f"ALTER TABLE {name} ADD COLUMN {quoted(kind, column)} {types[queue.kinds()[column]]}"
        for column in added
    ]
    if applied is not None:
        statements.append(backfill(kind, table, queue, applied))
    return [*statements, index(kind, table, queue)]


def backfill(kind: Kind, table: str, queue: Columns, applied: Applied) -> str:
    """Write what marks the rows that were applied before, and no others."""
    if not applied.on or not applied.same:
        raise Misconfigured(
            "a backfill needs on= (the columns that join) and same= (those that show that this version of "
            "the row was applied, such as a hash): without same= rows would be marked that nobody acted upon"
        )
    name, other = quoted(kind, table), quoted(kind, checked_table(applied.table))
    pairs = [(checked(column, "on"), "=") for column in applied.on]
    pairs += [(checked(column, "same"), SAME[kind]) for column in applied.same]
    fits = " AND ".join(
        f"onefold_applied.{quoted(kind, column)} {sign} {name}.{quoted(kind, column)}"
        for column, sign in pairs
    )
    mark = quoted(kind, queue.mark)
    return (
        f"UPDATE {name} SET {mark} = {NOW[kind]} WHERE {mark} IS NULL "
        f"AND EXISTS (SELECT 1 FROM {other} AS onefold_applied WHERE {fits})"
    )


def index(kind: Kind, table: str, queue: Columns) -> str:
    """Write the index that serves the head of the queue in its order, however many rows are done."""
    called = f"onefold_{table.replace('.', '_')}_waiting"[:63]
    name, mark = quoted(kind, table), quoted(kind, queue.mark)
    if kind == "mariadb":
        # It knows no partial index: what waits stands together, because its mark is NULL.
        columns = listed(kind, (queue.mark, queue.order, queue.id))
        return f"CREATE INDEX {quoted(kind, called)} ON {name} ({columns})"
    columns = listed(kind, (queue.order, queue.id))
    return f"CREATE INDEX IF NOT EXISTS {quoted(kind, called)} ON {name} ({columns}) WHERE {mark} IS NULL"


def conversion(kind: Kind, table: str, column: str) -> str:
    """Write what brings the times of a column into one form."""
    name, time = quoted(kind, table), quoted(kind, column)
    if kind == "sqlite":
        return f"UPDATE {name} SET {time} = strftime('%Y-%m-%dT%H:%M:%f', {time}) || '000Z'"
    if kind == "postgresql":
        form = """'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'"""
        return f"UPDATE {name} SET {time} = to_char({time}::timestamptz AT TIME ZONE 'UTC', {form})"
    return f"UPDATE {name} SET {time} = DATE_FORMAT(CAST({time} AS DATETIME(6)), '%Y-%m-%dT%H:%i:%s.%fZ')"
