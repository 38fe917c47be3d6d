"""Shows who is to hear of what: listings against filters, both as they stand in their tables.

A round begins `window` before the cursor, so that a filter which is new, edited or switched on again sees
what came that long before it. What was sent is written into `notifications_sent`, for people and for other
programs; that nothing is sent twice is the ledger's to know.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from onefold.apps.listings.filters import Filter, filter_of, is_enabled, listing_of, matches
from onefold.apps.listings.writing import Tables
from onefold.core.cursor import Cursor, start
from onefold.core.record import Broken, Page, Record, Standing
from onefold.core.terms import Seconds
from onefold.runtime import now
from onefold.sources.table import plain
from onefold.tables.times import at

log = logging.getLogger("onefold.apps")

CHANNEL = "telegram"
PAGE = 500
SET_ASIDE = 10_000
"""How many broken rows are remembered."""

Place = tuple[Any, Any]


class Matches:
    """Shows matches, each named by its chat and its listing."""

    def __init__(self, tables: Tables, window: Seconds, clock: Callable[[], float] = now) -> None:
        self._tables = tables
        self._window = window
        self._clock = clock
        self._gone: dict[str, str] = {}
        self._set_aside: set[Broken] = set()

    def pages(self, cursor: Cursor) -> Iterator[Page]:
        """Show what waits to be told, oldest first; the very first round begins with the window."""
        since = start(cursor, self._window)
        begin = self._clock() - self._window if since is None else since
        filters, broken = self._filters()
        after: Place | None = None
        while True:
            records, odd, after = self._page(filters, begin, after, cursor)
            news = [one for one in (*broken, *odd) if one not in self._set_aside]
            yield Page(records, more=after is not None, broken=news)
            self._note_set_aside(news)
            broken = []
            if after is None:
                return

    def _note_set_aside(self, taken: Sequence[Broken]) -> None:
        """Remember what the worker has taken, so that no round complains of it again."""
        if len(self._set_aside) > SET_ASIDE:
            self._set_aside.clear()  # then each is complained of once more
        self._set_aside.update(taken)

    # ----- filters

    def _filters(self) -> tuple[list[Filter], list[Broken]]:
        """Read the filters that are switched on, of users that can be reached."""
        self._note_gone()
        sql = (
            "SELECT f.*, u.telegram_chat_id, u.blocked_at FROM filters AS f "
            "JOIN users AS u ON u.id = f.user_id ORDER BY f.user_id, f.id"
        )
        with self._tables.database.transaction(write=False) as connection:
            rows = self._tables.run(connection, sql)
        good, broken = list[Filter](), list[Broken]()
        for row in rows:
            if row["blocked_at"] is not None:
                continue
            try:
                good += [filter_of(row)] if is_enabled(row) else []
            except (ValueError, TypeError) as error:
                broken.append(Broken(f"filters id={row['id']} {error}", f"{error}: it matches nothing"))
        return good, broken

    def gone(self, chat: str, reason: str) -> None:
        """Hear that a chat is not to be had; it is written down at the next round."""
        self._gone[chat] = reason

    def _note_gone(self) -> None:
        """Write down which chats are not to be had, so that nobody writes to them again."""
        chats, self._gone = list(self._gone), {}
        if not chats:
            return
        with self._tables.database.transaction() as connection:
            now = self._tables.moment(connection, "users", "blocked_at", self._clock())
            for chat in chats:
                log.warning("chat %s is not to be had: its user is left out until blocked_at is NULL", chat)
                sql = "UPDATE users SET blocked_at = ? WHERE telegram_chat_id = ? AND blocked_at IS NULL"
                self._tables.run(connection, sql, now, chat)

    # ----- matches

    def _page(
        self, filters: Sequence[Filter], since: float, after: Place | None, cursor: Cursor
    ) -> tuple[list[Record], list[Broken], Place | None]:
        with self._tables.database.transaction(write=False) as connection:
            rows = self._listings(connection, since, after)
            sent = self._sent(connection, rows)
        records, broken = list[Record](), list[Broken]()
        for row in rows:
            try:
                records += matched(filters, listing_of(row), sent)
            except ValueError as error:  # it is nobody's, and the others of the page go on
                broken.append(Broken(f"listings id={row['id']} {error}", f"{error}: nobody hears of it"))
        last = rows[-1] if rows else None
        if last is not None and (cursor.at is None or _at(last) > cursor.at):
            # Nobody is told of this one. It says how far we looked, also where nobody looks for anything:
            # whoever begins to look later sees the window.
            records.append(Record("looked", None, _at(last)))
        full = last is not None and len(rows) == PAGE
        return records, broken, (last["noticed_at"], last["id"]) if full and last else None

    def _listings(self, connection: Any, since: float, after: Place | None) -> list[dict[str, Any]]:
        begin: Place = after or (self._tables.moment(connection, "listings", "noticed_at", since), 0)
        sql = (
            "SELECT l.*, s.name AS source_name FROM listings AS l JOIN sources AS s ON s.id = l.source_id "
            f"WHERE (l.noticed_at, l.id) > (?, ?) ORDER BY l.noticed_at, l.id LIMIT {PAGE}"
        )
        return self._tables.run(connection, sql, *begin)

    def _sent(self, connection: Any, rows: Sequence[Mapping[str, Any]]) -> set[tuple[int, int]]:
        if not rows:
            return set()
        sql = (
            "SELECT n.user_id, n.listing_id FROM notifications_sent AS n "
            "JOIN listings AS l ON l.id = n.listing_id WHERE l.noticed_at >= ? AND l.noticed_at <= ?"
        )
        ends = rows[0]["noticed_at"], rows[-1]["noticed_at"]
        return {(one["user_id"], one["listing_id"]) for one in self._tables.run(connection, sql, *ends)}

    # ----- what was sent

    def note(self, standings: Sequence[Standing]) -> None:
        """Write down what was sent; what was not written down is, when it is shown again."""
        done = [one.record.body for one in standings if one.fate == "done" and one.record.body]
        if done:
            self._note_sent(done)

    def _note_sent(self, sent: Sequence[Mapping[str, Any]]) -> None:
        sql = (
            "INSERT INTO notifications_sent (user_id, listing_id, filter_id, sent_at, channel) "
            "VALUES (?, ?, ?, ?, ?) ON CONFLICT (user_id, listing_id) DO NOTHING"
        )
        with self._tables.database.transaction() as connection:
            now = self._tables.moment(connection, "notifications_sent", "sent_at", self._clock())
            for one in sent:
                found = one["user"], one["listing"]["id"], one["filter_id"], now, CHANNEL
                self._tables.run(connection, sql, *found)

    def close(self) -> None:
        """Let go of the connection."""
        self._tables.database.close()


def matched(filters: Sequence[Filter], row: Mapping[str, Any], sent: set[tuple[int, int]]) -> list[Record]:
    """Say whom a listing is for: every user once, by the first of their filters that fits."""
    found: dict[str, Record] = {}
    for one in filters:
        if one.chat not in found and (one.user, row["id"]) not in sent and matches(one, row):
            found[one.chat] = _record(one, row)
    return list(found.values())


def _record(one: Filter, row: Mapping[str, Any]) -> Record:
    listing = {name: plain(value) for name, value in row.items() if name != "tags"}
    name = f"{one.chat}/{row['source_name']}/{row['source_item_id']}"
    body = {"chat": one.chat, "user": one.user, "filter_id": one.id, "filter": one.name, "listing": listing}
    return Record(name, body, _at(row))


def _at(row: Mapping[str, Any]) -> float:
    return float(at(row["noticed_at"]) or 0.0)


def match_parts(record: Record) -> tuple[str, ...] | None:
    """Name a match: the chat, and the listing as its site names it. Ids of rows may be used again."""
    if record.body is None:
        return None
    listing = record.body["listing"]
    return record.body["chat"], listing["source_name"], listing["source_item_id"]
