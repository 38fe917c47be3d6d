"""The far side: what really happened outside, in an append-only journal of one line per event.

Only effects write it, and only the account reads it; Onefold knows nothing of it. A line is one write, so a
killed worker leaves a whole line or none. `dedupe` ignores a repeat of a key, `fenced` refuses a stale fence.
"""

from __future__ import annotations

import fcntl
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal, NamedTuple, cast

Word = Literal["arrived", "accepted", "repeated", "refused"]


class Line(NamedTuple):
    """One event of the far side: a request arrived, was carried out, or was turned away."""

    word: Word
    key: int
    fence: int
    pid: int
    attempt: int


class FarSide:
    """Takes requests of workers, in two steps, so that a worker can die between them."""

    def __init__(self, path: Path, *, dedupe: bool = False, fenced: bool = False) -> None:
        self.path = path
        self.dedupe = dedupe
        self.fenced = fenced

    def arrive(self, key: int, fence: int, attempt: int) -> None:
        """Note that a request came in; nothing has happened yet."""
        with self._opened() as journal:
            _write(journal, Line("arrived", key, fence, os.getpid(), attempt))

    def carry_out(self, key: int, fence: int, attempt: int) -> Word:
        """Do it, or turn it away."""
        with self._opened() as journal:
            if self.dedupe or self.fenced:
                fcntl.flock(journal, fcntl.LOCK_EX)  # let go by closing, also by death
            word = self._judge(key, fence)
            _write(journal, Line(word, key, fence, os.getpid(), attempt))
            return word

    def _judge(self, key: int, fence: int) -> Word:
        if not (self.dedupe or self.fenced):
            return "accepted"
        before = self._lines_of(key)
        if self.fenced and any(line.fence > fence for line in before):
            return "refused"
        if self.dedupe and any(line.word == "accepted" for line in before):
            return "repeated"
        return "accepted"

    def lines(self) -> list[Line]:
        """Read the whole journal, in the order in which things happened."""
        if not self.path.exists():
            return []
        return [_read(text) for text in self.path.read_text().splitlines()]

    def _lines_of(self, key: int) -> list[Line]:
        # Picked out of the text first: reading every line would make a long journal slow.
        return [
            _read(text) for text in re.findall(rf"^[a-z]+ {key} .*$", self.path.read_text(), re.MULTILINE)
        ]

    @contextmanager
    def _opened(self) -> Iterator[int]:
        journal = os.open(self.path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            yield journal
        finally:
            os.close(journal)


def _write(journal: int, line: Line) -> None:
    os.write(journal, (" ".join(str(part) for part in line) + "\n").encode())


def _read(text: str) -> Line:
    word, *numbers = text.split()
    key, fence, pid, attempt = map(int, numbers)
    return Line(cast(Word, word), key, fence, pid, attempt)
