"""Bugs of workers, sources and applications, which histories of workers must show.

This module must not import `onefold` at its top (see `Swap`).
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from proof.sim.bug import Bug, Edit, Swap

DOWNLOAD = "onefold.apps.candles.download"
FILLING = "onefold.apps.candles.filling"
ACTING = "onefold.worker.acting"
CURSOR = "onefold.core.cursor"
PAGING = "onefold.core.paging"
POLL = "onefold.sources.poll"
PROGRESS = "onefold.worker.progress"
TRADES = "onefold.apps._polymarket"


def worker_bug(name: str, sentence: str, module: str, old: str, new: str) -> Bug:
    """Plant a bug by one replacement of text."""
    return Bug(name, sentence, (Edit(module, old, new),), "worker")


def worker_swap(name: str, sentence: str, module: str, qualname: str, replacement: Callable[..., Any]) -> Bug:
    """Plant a bug by one replacement of a function."""
    return Bug(name, sentence, (Swap(module, qualname, replacement),), "worker")


def one_too_far(original: Callable[..., float | None], *args: Any, **named: Any) -> float | None:
    """Start behind the place at which the next page must start."""
    at = original(*args, **named)
    return None if at is None else at + 1


WORKERS: tuple[Bug, ...] = (
    worker_bug(
        "cursor-advanced-before-completion",
        "The cursor moves when a page was read, not when it was accounted for.",
        PROGRESS,
        "        ticket = Ticket(places, self._turn, mark)\n",
        "        ticket = Ticket(places, self._turn, mark)\n"
        '        self.cursor = advance(self.cursor, [(at, "done") for at, _ in places])\n',
    ),
    worker_swap(
        "open-page-passed-by-a-later-one",
        "What a page left open holds back only that page, not the ones behind it.",
        PROGRESS,
        "Track._fates",
        lambda original, track, ticket: list(original(track, ticket))[: len(ticket.places)],
    ),
    worker_swap(
        "cursor-greater-instead-of-greater-or-equal",
        "Reading goes on behind the cursor instead of at it.",
        CURSOR,
        "start",
        one_too_far,
    ),
    worker_bug(
        "tie-dropped-at-page-edge",
        "A chain of pages ends at the first page that reaches the cursor, in the middle of a tie.",
        PAGING,
        "    return stop is not None and bool(records) and all(one.at < stop for one in records[-TAIL:])\n",
        "    return stop is not None and bool(records) and all(one.at <= stop for one in records[-TAIL:])\n",
    ),
    worker_bug(
        "walk-hands-on-from-its-top",
        "A walk back hands a page on before it has come to the cursor, which then passes the older half.",
        POLL,
        "                yield Page((), more=True, mark=Mark(None, trail.written(cursor.at)))\n",
        "                yield Page(wanted, more=True, mark=Mark(None, trail.written(cursor.at)))\n",
    ),
    worker_bug(
        "removed-log-ignored",
        "A record that takes another back is passed over.",
        ACTING,
        "        await self._retract(retracting, fates)\n",
        '        fates.update((key.id, "done") for key, _ in retracting)\n',
    ),
    worker_swap(
        "key-without-log-index",
        "All fills of one transaction share a key.",
        TRADES,
        "fill_parts",
        lambda original, row: original(row)[:1],
    ),
    worker_swap(
        "dedupe-by-payload-instead-of-key",
        "Two looks at one fill are two fills, if the title changed in between.",
        TRADES,
        "fill_parts",
        # The original still refuses rows that are no fills.
        lambda original, row: original(row) and (json.dumps(row, sort_keys=True),),
    ),
    Bug(
        "coverage-marked-before-rows-are-stored",
        "A tile is in when its bars were published, whatever the sink has of them.",
        (Edit(FILLING, "    if confirmed < shown:\n", "    if False:\n"),),
        "tiles",
    ),
    Bug(
        "empty-page-ends-the-range",
        "A page without rows is taken for the last one.",
        (
            Edit(
                DOWNLOAD,
                "            url = after(url, page.following, asked)\n",
                "            url = after(url, page.following, asked) if page.rows else None\n",
            ),
        ),
        "tiles",
    ),
)
