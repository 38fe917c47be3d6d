"""How far a download is, in one line on a terminal; where there is none, nothing is written."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import TextIO

from onefold.core.coverage import TileState
from onefold.core.tiles import IN, Series
from onefold.runtime import now

EVERY = 0.5
"""Seconds between two lines, at least."""


class Progress:
    """Counts the tiles of this run."""

    def __init__(
        self,
        wanted: Sequence[tuple[Series, int, int | None]],
        clock: Callable[[], float] = now,
        stream: TextIO | None = None,
    ) -> None:
        self._wanted = wanted
        self._clock = clock
        self._stream = stream or sys.stderr
        self._told = 0.0
        self.filled = 0
        self.open = 0
        self.bars = 0

    def tell(self, state: TileState, bars: int) -> None:
        """Take in that a tile was asked for, and show how far it is."""
        self.filled += state in IN
        self.open += state not in IN
        self.bars += bars
        now = self._clock()
        if self._stream.isatty() and now - self._told >= EVERY:
            self._told = now
            self._stream.write(f"\r\x1b[2K{self.line(now)}")
            self._stream.flush()

    def line(self, now: float) -> str:
        """Write how far it is."""
        total = sum(_tiles(series, since, until, now) for series, since, until in self._wanted)
        later = f", {self.open:,} asked for again later" if self.open else ""
        return f"candles: {self.filled:,} of {total:,} tiles in this run, {self.bars:,} bars{later}"


def _tiles(series: Series, since: int, until: int | None, now: float) -> int:
    last = min(until or int(now), int(now))
    return max(-(-last // series.step) - since // series.step, 0)
