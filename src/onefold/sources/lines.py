"""Cuts bytes into lines, and holds no more of one line than its limit. It reads nothing by itself."""

from __future__ import annotations

from typing import NamedTuple

CHUNK = 2**16


class Line(NamedTuple):
    """A line as it was read: its number, its bytes, cut where it is too long, and whether it has an end."""

    number: int
    raw: bytes
    is_long: bool = False
    is_whole: bool = True


class Lines:
    """Cuts chunks into lines, and holds no more of one than the limit."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self.number = 0
        """How many lines were cut so far."""
        self._held = b""
        self._is_long = False

    @property
    def is_torn(self) -> bool:
        """Whether a line has begun that has no end yet."""
        return bool(self._held)

    def take(self, chunk: bytes) -> list[Line]:
        """Return the lines that end in a chunk."""
        *ends, rest = chunk.split(b"\n")
        lines = []
        for end in ends:
            self._hold(end)
            lines.append(self._line(True))
        self._hold(rest)
        return lines

    def end(self) -> list[Line]:
        """Return what is left, which has no end."""
        return [self._line(False)] if self.is_torn else []

    def _hold(self, part: bytes) -> None:
        self._is_long = self._is_long or len(self._held) + len(part) > self._limit
        self._held = (self._held + part)[: self._limit]

    def _line(self, is_whole: bool) -> Line:
        self.number += 1
        line = Line(self.number, self._held, self._is_long, is_whole)
        self._held, self._is_long = b"", False
        return line
