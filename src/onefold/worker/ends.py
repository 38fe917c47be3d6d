"""Collects how effects ended, so that what ends together is written in one round trip.

It knows when to speak, and nothing of what an end means or how it is written.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import anyio.lowlevel

from onefold.worker.work import Attempt


class Ends:
    """What ended and was not said yet."""

    def __init__(self, end: Callable[[Sequence[Attempt], Sequence[Any]], Awaitable[None]]) -> None:
        self._end = end
        self._unsaid: list[tuple[Attempt, Any]] = []
        self._saying = False

    async def add(self, chunk: Sequence[Attempt], results: Sequence[Any]) -> None:
        """Say how effects ended, together with whatever ends meanwhile; whoever comes first says it."""
        self._unsaid += zip(chunk, results, strict=True)
        if self._saying:
            return
        self._saying = True
        try:
            await anyio.lowlevel.checkpoint()
            while self._unsaid:
                await self.say()
        finally:
            self._saying = False

    async def say(self) -> None:
        """Say what is left to be said."""
        unsaid, self._unsaid = self._unsaid, []
        if unsaid:
            await self._end([one for one, _ in unsaid], [result for _, result in unsaid])
