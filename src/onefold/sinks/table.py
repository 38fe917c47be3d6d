"""Writes rows into a table of the user's: together with the ledger's mark, or again and again without harm.

*Joined* where the ledger stands in the same database: the row and the mark commit together. Elsewhere
*idempotent*: the row carries its own version, and an older one never replaces a newer. It makes no tables.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from onefold.core.entry import Effect
from onefold.core.errors import Later, Misconfigured, Rejected, Unreachable
from onefold.core.ports import Claim
from onefold.core.record import Record
from onefold.core.terms import Duration, Seconds, seconds
from onefold.drive.functions import kind, name_of
from onefold.runtime import current
from onefold.tables import PATIENCE, Database, Kind
from onefold.tables.names import checked, checked_table, listed, quoted
from onefold.tables.times import OURS

AWAY: Seconds = 5.0
"""How long a database that does not answer is left alone."""

OLD = "onefold_old"

Made = Mapping[str, Any] | Sequence[Mapping[str, Any]] | None
Work = Sequence[tuple[Claim, Record]]


class Table:
    """Writes what `row(record)` gives: a row as a dict, several, or None for nothing.

    With `key`, the columns of a unique key, a row replaces the one that has the same. A sink that is not
    joined needs a `version` too: a column that grows with every change of the thing itself.
    """

    batch = 100

    def __init__(
        self,
        url: str,
        table: str,
        row: Callable[[Record], Made],
        *,
        key: Sequence[str] = (),
        version: str | None = None,
        effect: Effect = "joined",
        patience: Duration = PATIENCE,
    ) -> None:
        if effect not in ("joined", "idempotent"):
            raise Misconfigured(f"a table is written joined or idempotent, not {effect}: leave effect= out")
        if effect == "idempotent" and not (key and version):
            raise Misconfigured(
                "a table outside of the ledger's database needs key= and version=: "
                "without them a row that is written again, or late, would do harm"
            )
        if kind(row) in ("async", "async generator"):
            raise Misconfigured(
                f"{name_of(row)} is {kind(row)}, and a row is made without awaiting: write a def"
            )
        self.effect: Effect = effect
        self._table = checked_table(table)
        self._row = row
        self._key = tuple(checked(name, "key") for name in key)
        self._version = None if version is None else checked(version, "version")
        self._database = Database(url, seconds(patience, "patience"))
        self._known: frozenset[str] = frozenset()

    # ----- joined: the delivery opens the transaction, and claims and settles in it

    def transaction(self) -> AbstractContextManager[Any]:
        """Open a transaction and give its connection; leaving normally commits, raising rolls back."""
        return self._database.transaction()

    def write(self, connection: Any, work: Work) -> list[Any]:
        """Write the rows of these records, and give a receipt for each."""
        self._know(connection)
        made = [self._rows(record) for _, record in work]
        for columns, values in _together(row for rows in made for row in rows):
            sql = statement(self._database.kind, self._table, columns, self._key, self._version)
            self._database.run_many(connection, sql, values)
        return [{"rows": len(rows)} for rows in made]

    def _know(self, connection: Any) -> None:
        if self._known:
            return
        known = frozenset(self._database.columns(connection, self._table))
        for name in (*self._key, *filter(None, [self._version])):
            if name not in known:
                raise Misconfigured(f"the table {self._table} has no column {name}: check key= and version=")
        self._known = known

    def _rows(self, record: Record) -> list[dict[str, Any]]:
        made = self._row(record)
        rows = [] if made is None else [made] if isinstance(made, Mapping) else list(made)
        return [self._checked(row) for row in rows]

    def _checked(self, row: Mapping[str, Any]) -> dict[str, Any]:
        for name in row:
            if name not in self._known:
                raise Rejected(f"the table {self._table} has no column {name!r:.80}")
        for name in (*self._key, *filter(None, [self._version])):
            if row.get(name) is None:
                raise Rejected(f"a row for {self._table} has no {name}, which tells it from others")
        return {name: bound(self._database.kind, value) for name, value in row.items()}

    # ----- idempotent: transactions of its own

    async def put(self, work: Work) -> Sequence[Any | Exception]:
        return await current().blocking(self._put, work)

    def _put(self, work: Work) -> Sequence[Any | Exception]:
        """Write a batch together; if that fails, one by one, so that a bad row is counted against itself."""
        try:
            with self.transaction() as connection:
                return self.write(connection, work)
        except Unreachable as error:
            return [Later(str(error), AWAY)] * len(work)
        except Exception as error:
            if len(work) == 1:
                return [error]
        return [answer for one in work for answer in self._put([one])]

    async def aclose(self) -> None:
        """Let go of the connection."""
        await current().blocking(self._database.close)


def _together(rows: Iterator[dict[str, Any]]) -> Iterator[tuple[tuple[str, ...], list[list[Any]]]]:
    """Put rows with the same columns together, as long as they follow one another: order may matter."""
    columns: tuple[str, ...] = ()
    values: list[list[Any]] = []
    for row in rows:
        if values and tuple(row) != columns:
            yield columns, values
            values = []
        columns = tuple(row)
        values.append(list(row.values()))
    if values:
        yield columns, values


def statement(kind: Kind, table: str, columns: Sequence[str], key: Sequence[str], version: str | None) -> str:
    """Write the statement that puts a row in, or in the place of the one with the same key."""
    places = ", ".join("?" * len(columns))
    names = listed(kind, columns)
    if not key:
        return f"INSERT INTO {quoted(kind, table)} ({names}) VALUES ({places})"
    others = [name for name in columns if name not in key]
    if kind == "mariadb":
        # Assignments are made from left to right: the version must be compared before it is changed.
        changes = ", ".join(
            _newest(kind, name, version) for name in sorted(others, key=lambda name: name == version)
        )
        same = quoted(kind, key[0])
        insert = f"INSERT INTO {quoted(kind, table)} ({names}) VALUES ({places})"
        return f"{insert} ON DUPLICATE KEY UPDATE {changes or f'{same} = {same}'}"
    insert = f"INSERT INTO {quoted(kind, table)} AS {OLD} ({names}) VALUES ({places})"
    conflict = f"{insert} ON CONFLICT ({listed(kind, key)})"
    if not others:
        return f"{conflict} DO NOTHING"
    changes = ", ".join(f"{quoted(kind, name)} = excluded.{quoted(kind, name)}" for name in others)
    if version is None:
        return f"{conflict} DO UPDATE SET {changes}"
    old, new = f"{OLD}.{quoted(kind, version)}", f"excluded.{quoted(kind, version)}"
    return f"{conflict} DO UPDATE SET {changes} WHERE {old} IS NULL OR {old} < {new}"


def _newest(kind: Kind, name: str, version: str | None) -> str:
    column = quoted(kind, name)
    if version is None:
        return f"{column} = VALUES({column})"
    mark = quoted(kind, version)
    newer = f"{mark} IS NULL OR {mark} < VALUES({mark})"
    return f"{column} = IF({newer}, VALUES({column}), {column})"


def bound(kind: Kind, value: Any) -> Any:
    """Make a value one that the database takes: times in one form, of UTC, and structures as JSON."""
    match value:
        case datetime():
            if value.tzinfo is None:
                raise Rejected(f"{value.isoformat()} has no time zone: it names another moment everywhere")
            moment = value.astimezone(UTC)
            if kind == "sqlite":
                # The form in which queues write their own times: a column must not hold two.
                return moment.replace(tzinfo=None).isoformat(timespec="microseconds") + OURS.zone
            return moment.replace(tzinfo=None) if kind == "mariadb" else moment
        case Decimal():
            return str(value)
        case dict() | list():
            return json.dumps(value, ensure_ascii=False)
        case _:
            return value
