"""Where a first start of whales begins: decided once, and kept in the store.

The beginning is stored before anything is read. A worker that restarts before its first fill, or a second
worker, begins at the same place; so fills between two starts are told. It reads no feed.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import datetime

from onefold.core.cursor import Cursor
from onefold.core.documents import load, named, save
from onefold.core.errors import Misconfigured
from onefold.core.terms import epoch, seconds
from onefold.runtime import current, now
from onefold.worker.settings import Live


def beginning(said: str, now: float) -> float | None:
    """Return the time at which a first start begins; None for everything that the feed shows."""
    if said == "now":
        # Fills carry whole seconds: one that follows within this second carries its beginning.
        return float(math.floor(now))
    if said == "forever":
        return None
    try:
        moment = datetime.fromisoformat(said)
    except ValueError:
        moment = None
    if moment is not None:
        return epoch(moment, "since")
    try:
        return now - seconds(said, "since")
    except Misconfigured:
        raise Misconfigured(
            f"since is {said!r:.60}: write now, a duration like 6h, a time like 2026-05-01T00:00:00Z, "
            "or forever"
        ) from None


class FirstStart:
    """Returns where the first start began; the first worker decides it."""

    def __init__(self, said: str, live: Live, clock: Callable[[], float] = now) -> None:
        self._said = said
        self._live = live
        self._clock = clock
        self._key = named("whales", "since")

    async def __call__(self, cursor: Cursor) -> float | None:
        if cursor.at is not None:
            # It was started before. Without the document an older version did it, which knew no beginning.
            [found] = await self._live.ask(load([self._key]))
            return None if found is None else found.value["since"]
        text = {"said": self._said, "since": beginning(self._said, self._clock())}
        document = await self._live.ask(
            save(
                self._key,
                current().token(),
                lambda stands: None if stands and stands["said"] == self._said else text,
            )
        )
        return text["since"] if document is None else document.value["since"]  # type: ignore[return-value]
