"""A queue on a table of the user's: rows without a mark wait, the oldest first, and are marked when done.

The ledger decides who acts on a row and when again; the table only shows it, in columns that people can read:
attempts, when next, the last error, why a row is parked. So several workers may read one table, and a mark
that was not written is written later. It never locks rows, and never deletes one.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable, Sequence
from datetime import UTC, date, datetime
from typing import Any

from onefold.core.cursor import Cursor
from onefold.core.errors import Misconfigured
from onefold.core.record import Broken, Fate, Page, Record, Standing
from onefold.core.terms import Duration, Seconds, seconds
from onefold.runtime import current
from onefold.runtime.threads import LINGER
from onefold.tables import Database, Row
from onefold.tables.migration import (
    Applied,
    Columns,
    check_own,
    conversion,
    index_columns,
    index_name,
    migration,
)
from onefold.tables.names import checked, checked_table, quoted
from onefold.tables.times import OURS, Shape, at, is_number, is_time, mixed, shape_of

log = logging.getLogger("onefold.sources")

LOOK_AGAIN: Seconds = 60.0
"""After how long a parked row is shown again, to see whether somebody decided about it."""

ERROR_LENGTH = 500
UNORDERED = 100


class Table:
    """Shows the rows of `table` whose `mark` is NULL, by `order` and then `id`; a record is a row's columns.

    Columns that are named None are not kept. `migration()` gives the statements that add what is missing.
    """

    reach = None
    repeats = True
    lag: Seconds = 0.0
    ahead = 1
    """A queue is served from its head: the next page waits until this one is accounted for."""

    def __init__(
        self,
        url: str,
        table: str,
        *,
        id: str = "id",
        order: str = "fetched_at",
        mark: str = "processed_at",
        attempts: str | None = "attempts",
        due: str | None = "next_attempt_at",
        error: str | None = "last_error",
        parked: str | None = "parked",
        every: Duration = "1s",
        page: int = 200,
        finite: bool = False,
    ) -> None:
        named = {"id": id, "order": order, "mark": mark}
        named |= {
            key: one
            for key, one in {"attempts": attempts, "due": due, "error": error, "parked": parked}.items()
            if one is not None
        }
        for what, column in named.items():
            checked(column, what)
        if type(page) is not int or page < 1:
            raise Misconfigured(f"page is {page!r}: write 1 or more")
        self.finite = finite
        self.timed = False
        self._columns = Columns(id, order, mark, attempts, due, error, parked)
        self._table = checked_table(table)
        self._every = seconds(every, "every")
        self._page = page
        self._database = Database(url)
        self._types: dict[str, str] = {}
        self._shapes: dict[str, Shape] = {}

    # ----- reading

    async def read(self, cursor: Cursor) -> AsyncIterator[Page]:
        """Show everything that waits, once; the cursor is not needed: the table itself knows what is done."""
        broken = await current().blocking(self._prepare, linger=LINGER)
        after: Row | None = None
        while True:
            records, bad, after = await current().blocking(self._shown, after, linger=LINGER)
            yield Page(records, more=after is not None, broken=[*broken, *bad])
            broken = []
            if after is None:
                break
        await current().sleep(self._every)

    def _prepare(self) -> list[Broken]:
        """Look whether the table can be a queue; return rows that have no place in its order."""
        queue, name = self._columns, self._name(self._table)
        order, mark, key = self._names(queue.order, queue.mark, queue.id)
        with self._database.transaction(write=False) as connection:
            if not self._types:
                self._types = self._checked(self._database.columns(connection, self._table))
                self._check_index(connection)
                self._check_times(connection)
            sql = f"SELECT {key} FROM {name} WHERE {mark} IS NULL AND {order} IS NULL LIMIT {UNORDERED}"
            _, lost = self._database.run(connection, sql)
        reason = f"it has no {queue.order}, and so no place in the queue: set it"
        return [Broken(f"{self._table} {queue.id}={row[0]}", reason) for row in lost]

    def _shown(self, after: Row | None) -> tuple[list[Record], list[Broken], Row | None]:
        """Read the next rows that wait; say where to go on, or None at the end."""
        queue = self._columns
        order, mark, key = self._names(queue.order, queue.mark, queue.id)
        tests, args = [f"{mark} IS NULL", f"{order} IS NOT NULL"], list[Any]()
        if queue.due:
            due = self._name(queue.due)
            tests.append(f"({due} IS NULL OR {due} <= ?)")
            args.append(self._moment(queue.due, current().time()))
        if after is not None:
            tests.append(f"({order}, {key}) > (?, ?)")
            args += after
        sql = (
            f"SELECT * FROM {self._name(self._table)} WHERE {' AND '.join(tests)} "
            f"ORDER BY {order}, {key} LIMIT {self._page}"
        )
        with self._database.transaction(write=False) as connection:
            names, rows = self._database.run(connection, sql, args)
        found = [dict(zip(names, row, strict=True)) for row in rows]
        last = found[-1] if len(found) == self._page else None
        return *self._records(found), (last[queue.order], last[queue.id]) if last else None

    def _records(self, found: Sequence[dict[str, Any]]) -> tuple[list[Record], list[Broken]]:
        records, broken = [], []
        for row in found:
            name, place = str(row[self._columns.id]), at(row[self._columns.order])
            if place is None:
                reason = (
                    f"its {self._columns.order} is {row[self._columns.order]!r:.80}, no number and no time"
                )
                broken.append(Broken(f"{self._table} {self._columns.id}={name}", reason))
                continue
            records.append(Record(name, {column: plain(value) for column, value in row.items()}, place))
        return records, broken

    # ----- what the table is like

    def _checked(self, there: dict[str, str]) -> dict[str, str]:
        check_own(self._table, self._columns, there)
        wanted = [name for name in self._columns if name is not None]
        missing = [name for name in wanted if name not in there]
        if missing:
            raise Misconfigured(
                f"the table {self._table} has no column {missing[0]}: run what migration() of this source "
                "prints, or name the column None if it is not to be kept"
            )
        return there

    def _check_index(self, connection: Any) -> None:
        """Warn of an index that serves other columns: rows are still read in order, but by sorting all."""
        found = self._database.index(connection, self._table, index_name(self._table))
        if found and found != index_columns(self._database.kind, self._columns):
            log.warning(
                "the index %s does not serve the queue on %s: run what migration() of this source prints",
                *(index_name(self._table), self._table),
            )

    def _check_times(self, connection: Any) -> None:
        """Refuse an order in which texts of two forms stand, and learn the forms of the other times."""
        queue = self._columns
        samples = self._samples(connection, queue.order)
        forms = mixed(samples)
        if forms:
            raise Misconfigured(
                f"{self._table}.{queue.order} holds times of several forms, such as {forms[0]} and "
                f"{forms[1]}, which do not sort by time: bring them into one by "
                f"{conversion(self._database.kind, self._table, queue.order)}"
            )
        known = self._database.kind != "sqlite" and is_time(self._types[queue.order])
        self.timed = known or any(shape_of(one) for one in samples)
        for name in filter(None, (queue.mark, queue.due)):
            written = self._samples(connection, name, "IS NOT NULL")
            self._shapes[name] = next((shape for one in written if (shape := shape_of(one))), OURS)

    def _samples(self, connection: Any, column: str, marked: str = "IS NULL") -> list[Any]:
        """Give one value of every form that stands in a column, by its length and separator."""
        declared = self._types[column]
        if self._database.kind != "sqlite" and (is_time(declared) or is_number(declared)):
            return []  # the database itself lets nothing else in
        one, mark = self._names(column, self._columns.mark)
        kind = f"typeof({one}), " if self._database.kind == "sqlite" else ""
        sql = (
            f"SELECT MIN({one}) FROM {self._name(self._table)} WHERE {mark} {marked} AND {one} IS NOT NULL "
            f"GROUP BY {kind}LENGTH({one}), SUBSTR({one}, 11, 1) LIMIT 50"
        )
        _, rows = self._database.run(connection, sql)
        return [row[0] for row in rows]

    # ----- marking

    async def tell(self, fates: Sequence[tuple[Record, Fate]]) -> None:
        """Nothing to do: `note` hears more."""

    async def note(self, standings: Sequence[Standing]) -> None:
        """Write into the rows how they stand."""
        known = [one for one in standings if one.fate != "open"]
        if known:
            await current().blocking(self._note, known, linger=LINGER)

    def _note(self, standings: Sequence[Standing]) -> None:
        kept = [one for one in standings if one.fate != "done" and self._shows]
        done = [one for one in standings if one.fate == "done"]
        with self._database.transaction() as connection:
            for some in (done, kept):
                if some:
                    rows = [self._values(one) for one in some]
                    self._database.run_many(connection, self._update(list(rows[0])), self._bound(rows, some))

    @property
    def _shows(self) -> bool:
        queue = self._columns
        return any((queue.attempts, queue.due, queue.error, queue.parked))

    def _values(self, standing: Standing) -> dict[str, Any]:
        """Say what the columns of a row become."""
        queue, done, parked = self._columns, standing.fate == "done", standing.fate == "parked"
        due = current().time() + LOOK_AGAIN if parked else None if done else standing.due
        values: dict[str | None, Any] = {
            queue.attempts: standing.attempt,
            queue.due: None if due is None or not queue.due else self._moment(queue.due, due),
            queue.error: standing.error[:ERROR_LENGTH] or None,
            queue.parked: standing.why if parked else None,
        }
        if done:
            values[queue.mark] = self._moment(queue.mark, current().time())
        return {name: value for name, value in values.items() if name is not None}

    def _update(self, columns: Sequence[str]) -> str:
        changes = ", ".join(f"{self._name(column)} = ?" for column in columns)
        key, mark = self._names(self._columns.id, self._columns.mark)
        # A row that is marked already keeps its mark: the first one says when it was done.
        return f"UPDATE {self._name(self._table)} SET {changes} WHERE {key} = ? AND {mark} IS NULL"

    def _bound(self, rows: Sequence[dict[str, Any]], of: Sequence[Standing]) -> list[list[Any]]:
        key = self._columns.id
        number = is_number(self._types.get(key, ""))
        ids = [int(one.record.id) if number and _is_whole(one.record.id) else one.record.id for one in of]
        return [[*row.values(), name] for row, name in zip(rows, ids, strict=True)]

    def _moment(self, column: str, moment: float) -> Any:
        """Write a time as its column holds times."""
        declared = self._types.get(column, "")
        if is_number(declared):
            return int(moment) if "int" in declared.lower() else moment
        if is_time(declared) and self._database.kind != "sqlite":
            when = datetime.fromtimestamp(moment, UTC)
            return when.replace(tzinfo=None) if self._database.kind == "mariadb" else when
        return self._shapes.get(column, OURS).written(moment)

    # ----- making it a queue

    def migration(self, applied: Applied | None = None) -> list[str]:
        """Give the statements that turn the table into a queue; with `applied`, what was done is marked."""
        with self._database.transaction(write=False) as connection:
            there = self._database.columns(connection, self._table)
            indexed = self._database.index(connection, self._table, index_name(self._table))
        return migration(self._database.kind, self._table, self._columns, there, applied, indexed)

    def migrate(self, applied: Applied | None = None, *, show: Callable[[str], object] = log.info) -> None:
        """Show the statements, then run them, all or none."""
        if self._database.kind == "mariadb":
            raise Misconfigured(
                "MariaDB commits every change of a table by itself, and a failure would leave half of it: "
                "run what migration() gives by hand"
            )
        statements = self.migration(applied)
        for statement in statements:
            show(f"{statement};")
        with self._database.transaction() as connection:
            for statement in statements:
                self._database.run(connection, statement)

    async def aclose(self) -> None:
        """Let go of the connection."""
        await current().blocking(self._database.close)

    def _name(self, name: str) -> str:
        return quoted(self._database.kind, name)

    def _names(self, *names: str) -> list[str]:
        return [self._name(name) for name in names]


def _is_whole(text: str) -> bool:
    return text.removeprefix("-").isdecimal()


def plain(value: Any) -> Any:
    """Make a value of a column one that JSON knows: times as text of UTC, bytes in hexadecimal."""
    match value:
        case None | bool() | int() | float() | str() | list() | dict():
            return value
        case datetime():
            return (value if value.tzinfo else value.replace(tzinfo=UTC)).astimezone(UTC).isoformat()
        case date():
            return value.isoformat()
        case bytes() | bytearray() | memoryview():
            return bytes(value).hex()
        case _:
            return str(value)
