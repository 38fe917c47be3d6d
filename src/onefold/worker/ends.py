"""Collects how effects ended, so that what ends together is written in one round trip.

It knows when to speak, and nothing of what an end means or how it is written.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from onefold.worker.crew import Crew
from onefold.worker.work import Attempt

End = Callable[[Sequence[Attempt], Sequence[Any]], Awaitable[None]]


class Ends:
    """What ended and was not said yet."""

    def __init__(self, crew: Crew, end: End) -> None:
        self._crew = crew
        self._end = end
        self._unsaid: list[tuple[Attempt, Any]] = []
        self._saying = False

    def add(self, chunk: Sequence[Attempt], results: Sequence[Any]) -> None:
        """Have it said how effects ended, together with whatever ends meanwhile; nobody waits for it here."""
        self._unsaid += zip(chunk, results, strict=True)
        if not self._saying:
            self._saying = True
            self._crew.start(self._all())

    async def _all(self) -> None:
        try:
            while self._unsaid:
                await self.say()
        finally:
            self._saying = False

    async def say(self) -> None:
        """Say what is left to be said."""
        unsaid, self._unsaid = self._unsaid, []
        if unsaid:
            await self._end([one for one, _ in unsaid], [result for _, result in unsaid])
