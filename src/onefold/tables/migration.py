"""The statements that make a queue of a table that is there: columns, an index, marks for what was applied.

It writes SQL and runs none. Whoever wants it shows it first. What exists is left as it is, except for the
queue's own index where that serves other columns.
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


def check_own(table: str, queue: Columns, there: Mapping[str, str]) -> None:
    """Refuse a queue whose id or order the table does not have: no migration can make them up.

    SQLite would not refuse it: it takes the quoted name of a column that is not there for a text.
    """
    for setting, column in (("id", queue.id), ("order", queue.order)):
        if column not in there:
            raise Misconfigured(
                f"the table {table} has no column {column}, which {setting}= names: pass {setting}= with one "
                f"of its columns, {', '.join(there)}"
            )


def migration(
    kind: Kind,
    table: str,
    queue: Columns,
    there: Mapping[str, str],
    applied: Applied | None = None,
    indexed: Sequence[str | None] = (),
) -> list[str]:
    """Write what turns a table into a queue; `indexed` are the columns of its index, if there is one."""
    check_own(table, queue, there)
    name = quoted(kind, checked_table(table))
    added = [column for column in queue.kinds() if column not in there]
    types = TYPES[kind]
    statements = [
        f"ALTER TABLE {name} ADD COLUMN {quoted(kind, column)} {types[queue.kinds()[column]]}"
        for column in added
    ]
    if applied is not None:
        statements.append(backfill(kind, table, queue, applied))
    return [*statements, *_indexing(kind, table, queue, indexed)]


def _indexing(kind: Kind, table: str, queue: Columns, indexed: Sequence[str | None]) -> list[str]:
    """Write what makes the index, or replaces one that serves other columns or a constant."""
    if list(indexed) == index_columns(kind, queue) and kind == "mariadb":
        return []  # it knows no IF NOT EXISTS that every version takes
    if indexed and list(indexed) != index_columns(kind, queue):
        return [_drop(kind, table), index(kind, table, queue)]
    return [index(kind, table, queue)]


def index_name(table: str) -> str:
    """Name the index of a queue."""
    return f"onefold_{table.replace('.', '_')}_waiting"[:63]


def index_columns(kind: Kind, queue: Columns) -> list[str]:
    """Give the columns that the index of a queue must have."""
    # MariaDB knows no partial index: what waits stands together, because its mark is NULL.
    return [*([queue.mark] if kind == "mariadb" else []), queue.order, queue.id]


def _drop(kind: Kind, table: str) -> str:
    schema, _, _ = table.rpartition(".")
    called = quoted(kind, index_name(table))
    if kind == "mariadb":
        return f"DROP INDEX {called} ON {quoted(kind, table)}"
    return f"DROP INDEX {quoted(kind, schema) + '.' if schema else ''}{called}"


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
    called, columns = quoted(kind, index_name(table)), listed(kind, index_columns(kind, queue))
    name, mark = quoted(kind, table), quoted(kind, queue.mark)
    if kind == "mariadb":
        return f"CREATE INDEX {called} ON {name} ({columns})"
    return f"CREATE INDEX IF NOT EXISTS {called} ON {name} ({columns}) WHERE {mark} IS NULL"


def conversion(kind: Kind, table: str, column: str) -> str:
    """Write what brings the times of a column into one form."""
    name, time = quoted(kind, table), quoted(kind, column)
    if kind == "sqlite":
        return f"UPDATE {name} SET {time} = strftime('%Y-%m-%dT%H:%M:%f', {time}) || '000Z'"
    if kind == "postgresql":
        form = """'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'"""
        return f"UPDATE {name} SET {time} = to_char({time}::timestamptz AT TIME ZONE 'UTC', {form})"
    return f"UPDATE {name} SET {time} = DATE_FORMAT(CAST({time} AS DATETIME(6)), '%Y-%m-%dT%H:%i:%s.%fZ')"
