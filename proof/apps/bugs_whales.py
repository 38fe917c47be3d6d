"""Mistakes in whales, and in the feed, the fan-out and the chat that it uses. Histories of whales find them.

This module must not import `onefold` at its top (see `proof.sim.bug.Swap`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from proof.sim.bug import Bug, Swap


def _bug(name: str, sentence: str, module: str, qualname: str, replacement: Callable[..., Any]) -> Bug:
    return Bug(name, sentence, (Swap(f"onefold.{module}", qualname, replacement),), "whales")


async def _retried(original: Any, self: Any, chat: str, text: str) -> Any:
    from onefold.core.errors import Refused
    from onefold.runtime.http import NoAnswer

    told = await original(self, chat, text)
    return Refused(str(told)) if isinstance(told, NoAnswer) else told


async def _read_once(original: Any, self: Any) -> Any:
    return self._value if self._asked is not None else await original(self)


def _moved_when_read(original: Any, self: Any, places: Any, mark: Any = None) -> Any:
    from onefold.core.cursor import advance

    self.cursor = advance(self.cursor, [(at, "done") for at, _ in places])
    return original(self, places, mark)


BUGS: tuple[Bug, ...] = (
    _bug(
        "whales-cursor-moved-when-a-page-was-read",
        "The cursor moves when a page was read, not when its records are accounted for.",
        "worker.progress",
        "Track.enter",
        _moved_when_read,
    ),
    _bug(
        "whales-lookback-forgotten",
        "Each round begins at the cursor, and misses what the feed shows late.",
        "core.cursor",
        "start",
        lambda original, cursor, lag=0.0: original(cursor, 0.0),
    ),
    _bug(
        "whales-alike-fills-share-a-key",
        "Fills that look exactly alike are taken for one.",
        "apps._polymarket",
        "fill_parts",
        lambda original, row: (*original(row)[:-1], "0"),
    ),
    _bug(
        "whales-fills-of-a-transaction-share-a-key",
        "All fills of one transaction are taken for one.",
        "apps._polymarket",
        "fill_parts",
        lambda original, row: (original(row)[0], original(row)[-1]),
    ),
    _bug(
        "whales-subscribers-share-a-key",
        "The key of an alert does not name its subscriber: only one of them hears of a fill.",
        "worker.work",
        "named_for",
        lambda original, key, name: original(key, ""),
    ),
    _bug(
        "whales-lost-answer-of-the-chat-retried",
        "A message whose answer was lost is sent again.",
        "sinks.chat",
        "Chat._message",
        _retried,
    ),
    _bug(
        "whales-subscribers-read-once",
        "A worker never notices that a subscriber was added.",
        "worker.settings",
        "Setting.value",
        _read_once,
    ),
    _bug(
        "whales-walk-ends-at-the-cursor",
        "A walk back ends at the page that reaches the cursor, not as far behind it as fills may come late.",
        "core.paging",
        "is_behind",
        lambda original, records, stop: original(records, None if stop is None else stop + 15),
    ),
)
