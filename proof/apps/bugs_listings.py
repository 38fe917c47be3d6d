"""Mistakes in listings, and in the pages, tables and chat that it uses. Histories of listings find them.

This module must not import `onefold` at its top (see `proof.sim.bug.Swap`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from proof.sim.bug import Bug, Swap


def _bug(name: str, sentence: str, module: str, qualname: str, replacement: Callable[..., Any]) -> Bug:
    return Bug(f"listings-{name}", sentence, (Swap(f"onefold.{module}", qualname, replacement),), "listings")


def _filters_read_once(original: Any, self: Any) -> Any:
    if not hasattr(self, "_read"):
        self._read = original(self)
    return self._read[0], []


def _not_split(original: Any, self: Any, tasks: Any, age: Any) -> Any:
    try:
        return self._transact(tasks, age)
    except Exception:
        return original(self, tasks, age) if len(tasks) == 1 else {one.key.id: "open" for one in tasks}


def _looked_by_the_clock(original: Any, self: Any, filters: Any, since: Any, after: Any, cursor: Any) -> Any:
    records, broken, following = original(self, filters, since, after, cursor)
    now = self._clock()
    looked = [one._replace(at=now) if one.body is None else one for one in records]
    return looked, broken, following


def _written_down_too_early(original: Any, self: Any, standings: Any) -> Any:
    return original(self, [one._replace(fate="done") for one in standings])


def _ended_by_a_short_page(original: Any, self: Any, paging: Any, count: int) -> Any:
    return self._stop("end") if count < paging.limit else original(self, paging, count)


async def _retried(original: Any, self: Any, chat: str, text: str) -> Any:
    from onefold.core.errors import Refused
    from onefold.runtime.http import NoAnswer

    told = await original(self, chat, text)
    return Refused(str(told)) if isinstance(told, NoAnswer) else told


def _by_price(original: Any, record: Any) -> Any:
    parts = original(record)
    return parts and (*parts, str(record.body["listing"]["price"]))


BUGS: tuple[Bug, ...] = (
    _bug(
        # Migration 0007 of the seed had a unique key of site and item.
        "new-price-ignored",
        "The version of a row does not say what the row says: a new price is taken for a repeat.",
        "apps.listings.sites",
        "version",
        lambda original, row, site, refresh: "1",
    ),
    _bug(
        "users-share-a-key",
        "The key of a match does not name the chat: only one user hears of a flat.",
        "apps.listings.matching",
        "match_parts",
        lambda original, record: (original(record) or ())[1:] or None,
    ),
    _bug(
        "told-again-at-every-price",
        "The key of a match names the price: a user hears of the same flat again when it changes.",
        "apps.listings.matching",
        "match_parts",
        _by_price,
    ),
    _bug(
        # Trap 39: the cursor of the seed was the worker's clock.
        "cursor-of-the-clock",
        "The notifier's cursor is the time at which it looked, not that of the last listing it saw.",
        "apps.listings.matching",
        "Matches._page",
        _looked_by_the_clock,
    ),
    _bug(
        # Trap 42: a filter made after the cursor saw nothing.
        "window-forgotten",
        "The notifier begins at its cursor: a new filter sees nothing that came before it.",
        "apps.listings.matching",
        "start",
        lambda original, cursor, lag=0.0: original(cursor, 0.0),
    ),
    _bug(
        "filters-read-once",
        "A worker reads the filters when it starts, and never again.",
        "apps.listings.matching",
        "Matches._filters",
        _filters_read_once,
    ),
    _bug(
        "switched-off-filter-matches",
        "A filter that is switched off still matches.",
        "apps.listings.filters",
        "is_enabled",
        lambda original, row: original(row) or True,
    ),
    _bug(
        # Trap 43: sent, then recorded, or the other way round.
        "written-down-before-it-was-sent",
        "A match is written into notifications_sent whatever became of its message.",
        "apps.listings.matching",
        "Matches.note",
        _written_down_too_early,
    ),
    _bug(
        # Trap 45: fifty poison rows stopped the queue of the seed.
        "poison-row-keeps-its-batch",
        "A transaction that fails is not split: rows beside a broken one are never processed.",
        "worker.joined",
        "JoinedDelivery._together",
        _not_split,
    ),
    _bug(
        "late-version-wins",
        "An older version of a flat that is processed later replaces the newer one.",
        "apps.listings.writing",
        "upsert",
        lambda original, columns: original(columns).partition(" WHERE old.version_at")[0],
    ),
    _bug(
        "short-page-taken-for-the-last",
        "A site that shows fewer rows than it was asked for is read no further.",
        "core.paging",
        "Chain._go_on",
        _ended_by_a_short_page,
    ),
    _bug(
        "lookback-forgotten",
        "A site is read down to the cursor: a flat that it shows late is missed.",
        "sources.poll",
        "start",
        lambda original, cursor, lag=0.0: original(cursor, 0.0),
    ),
    _bug(
        "lost-answer-of-the-chat-retried",
        "A message whose answer was lost is sent again.",
        "sinks.chat",
        "Chat._message",
        _retried,
    ),
)
