"""Removes done entries whose `keep` is over, a bounded number at a time, beside the pipelines of a worker.

All workers of a store share one walk over its done entries: a document says how far it came and when the last
round was, so that more workers do not purge more. Removing is a swap on the version that was seen, and the
store removes only what is done and expired. So a round that races another worker removes nothing wrongly.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from onefold.core.documents import named, save
from onefold.core.entry import Entry
from onefold.core.errors import OnefoldError
from onefold.core.key import Key
from onefold.core.protocol import purge_page
from onefold.core.terms import Seconds
from onefold.drive import AsyncPorts, arun
from onefold.runtime import current
from onefold.worker.tally import Tally

log = logging.getLogger("onefold.worker")

EVERY: Seconds = 10.0
"""Seconds between two rounds of a walk, for all workers together."""

WALK_EVERY: Seconds = 3600.0
"""Seconds between the beginnings of two walks over everything."""

PAGE = 500
"""How many entries are looked at in one call."""

PAGES = 2
"""How many pages a round looks at."""

MOST = 50
"""How many pages a round looks at while at least half of each could be removed."""

TRIES = 3
"""After so many rounds that did not end, the walk begins anew: its place may be what is wrong."""

LONGEST = 40_000
"""How long the text of a place may be; with a longer one the walk begins anew."""

DOCUMENT = named("purges", "walk")


def taken(stands: Any, token: str, by: str, now: float) -> dict[str, Any] | None:
    """Say what the walk's document becomes when a worker takes the next round; None if none is due.

    A time in the future was written by a clock that is wrong, and holds nobody up.
    """
    text = stands or {}
    if 0 <= now - text.get("at", float("-inf")) < EVERY:
        return None
    tries = text.get("tries", 0) + 1
    after = text.get("after") if tries <= TRIES else None
    begun = text.get("begun", float("-inf"))
    if text.get("is_over") and 0 <= now - begun < WALK_EVERY:
        return None
    anew = after is None
    return {
        "at": now, "by": by, "token": token, "after": after,
        "begun": now if anew else begun, "tries": 0 if anew else tries, "is_over": False,
    }  # fmt: skip


def reached(stands: Any, token: str, after: str | None) -> dict[str, Any] | None:
    """Say what the document becomes when a round has ended; None if another worker has gone on meanwhile."""
    if (stands or {}).get("token") != token:
        return None
    is_kept = after is not None and len(after) <= LONGEST
    return {**stands, "after": after if is_kept else None, "tries": 0, "is_over": after is None}


class Purging:
    """Takes its turn in the walk for as long as a worker runs."""

    def __init__(self, worker: str, tallies: Mapping[str, Tally], stopping: Callable[[], bool]) -> None:
        self._worker = worker
        self._tallies = tallies
        self._stopping = stopping

    async def attend(self, ports: AsyncPorts) -> None:
        """Look whether a round is due, until cancelled."""
        while True:
            if not self._stopping():
                try:
                    await self.round(ports)
                except OnefoldError as error:  # old entries take up room, and do no harm until the next round
                    log.warning("old entries could not be removed now: %s", error)
            await current().sleep(EVERY * current().uniform(1.0, 1.5))

    async def round(self, ports: AsyncPorts) -> int:
        """Look at some entries, if it is time; return how many were removed."""
        token, now = current().token(), current().time()
        walk = await arun(
            save(DOCUMENT, token, lambda stands: taken(stands, token, self._worker, now)), ports
        )
        if walk is None or walk.value.get("token") != token:
            return 0
        removed, after = await self._pages(walk.value["after"], ports)
        await arun(save(DOCUMENT, current().token(), lambda stands: reached(stands, token, after)), ports)
        if removed:
            log.info("removed %d done entries whose keep is over", removed)
        return removed

    async def _pages(self, after: str | None, ports: AsyncPorts) -> tuple[int, str | None]:
        removed = 0
        for number in range(MOST):
            gone, after = await arun(purge_page(None, after, PAGE), ports)
            self._count(gone)
            removed += len(gone)
            is_rich = len(gone) * 2 >= PAGE
            if after is None or self._stopping() or (number + 1 >= PAGES and not is_rich):
                break
        return removed, after

    def _count(self, gone: Sequence[tuple[Key, Entry]]) -> None:
        """Count what was removed under the pipeline and the source that it came from."""
        for (scope, source), number in Counter((key.scope, entry.source) for key, entry in gone).items():
            tally = self._tallies.get(scope.removesuffix(".each"))
            if tally is not None:
                tally.add("purged", source if source in tally.sources else tally.sources[0], number)
