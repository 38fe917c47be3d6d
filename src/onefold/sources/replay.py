"""Records from JSON lines, in a file or on standard input: one record a line, the line's number its place.

It ends where the lines end, unless it follows a file. A line that is no JSON is set apart with its number; a
last one without an end is waited for a while, because somebody may be writing it. Lines are bounded, and read
in threads.
"""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import anyio

from onefold.core.cursor import Cursor
from onefold.core.errors import Misconfigured
from onefold.core.record import At, Broken, Fate, Page, Record
from onefold.core.rows import Field, named, pick
from onefold.core.terms import Duration, Seconds, seconds
from onefold.core.wire import Unreadable, flaw, parse, quoted
from onefold.drive.threads import LINGER, in_thread

CHUNK = 2**16
LOOKS = 0.05
"""Seconds between two looks for the rest of a line."""


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
        self._number = 0
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
        self._number += 1
        line = Line(self._number, self._held, self._is_long, is_whole)
        self._held, self._is_long = b"", False
        return line


class Replay:
    """Reads JSON lines. `id` names a record, by a field or a function of its body; otherwise its line does.

    A file is read from the line of the cursor on: lines must not change once they were read, but new ones may
    be added at the end, and a last one without an end is waited for as long as `patience`. With `follow` the
    end is looked at that often, for ever. Standard input (`"-"`) is read whole every time: nobody knows
    whether it is the same; the ledger tells repeats apart.
    """

    reach = None
    lag: Seconds = 0.0
    timed = False

    def __init__(
        self,
        file: str | Path | BinaryIO,
        *,
        id: Field | None = None,
        patience: Duration = 1,
        follow: Duration | None = None,
        line_limit: int = 2**20,
    ) -> None:
        if line_limit < 1:
            raise Misconfigured(f"line_limit is {line_limit}: write 1 or more, in bytes")
        # The process may change its folder later.
        self._file = Path(file).absolute() if isinstance(file, str | Path) and file != "-" else file
        self._id = id
        self._patience = seconds(patience, "patience")
        self._line_limit = line_limit
        self.repeats = isinstance(file, Path) or (isinstance(file, str) and file != "-")
        self.finite = follow is None
        self._follow = None if follow is None else seconds(follow, "follow")
        if follow is not None and not self.repeats:
            raise Misconfigured("only a file can be followed: name one, or leave follow= out")

    async def tell(self, fates: Sequence[tuple[Record, Fate]]) -> None:
        """A file does not want to know."""

    async def read(self, cursor: Cursor) -> AsyncIterator[Page]:
        """Read to the end of the lines."""
        since = cursor.at if self.repeats and cursor.at is not None else 0
        lines = Lines(self._line_limit)
        file = await self._opened()
        try:
            while chunk := await self._chunk(file):
                whole = lines.take(chunk)
                if whole:
                    yield self._page(whole, since, more=True)
            rest = await self._torn(file, lines) if self._follow is None else []
            yield self._page(rest, since)
            while self._follow is not None:
                await anyio.sleep(self._follow)
                # A line that is still being written is held until it has an end.
                if whole := lines.take(await self._chunk(file)):
                    yield self._page(whole, since)
        finally:
            if self.repeats:
                file.close()

    async def _opened(self) -> BinaryIO:
        if self._file == "-":
            # Without a buffer: a stop leaves a thread at the pipe, and its lock would abort the exit.
            return getattr(sys.stdin.buffer, "raw", sys.stdin.buffer)
        if not isinstance(self._file, str | Path):
            return self._file
        try:
            return await in_thread(Path(self._file).open, "rb", linger=LINGER)
        except OSError as error:
            raise Unreadable(f"{self._file} cannot be read: {error.strerror}") from None

    async def _chunk(self, file: Any) -> bytes:
        """Read what is there, and wait only if nothing is: a stop leaves a thread at the pipe behind."""
        read = getattr(file, "read1", file.read)
        chunk: bytes = await in_thread(read, CHUNK, linger=LINGER if self.repeats else 0.0)
        return chunk

    async def _torn(self, file: BinaryIO, lines: Lines) -> list[Line]:
        """Wait for the end of a last line that is still being written. A pipe that ended says no more."""
        with anyio.move_on_after(self._patience):
            while self.repeats and lines.is_torn:
                await anyio.sleep(LOOKS)
                whole = lines.take(await self._chunk(file))
                if whole:
                    return [*whole, *lines.end()]
        return lines.end()

    def _page(self, lines: Sequence[Line], since: At, more: bool = False) -> Page:
        read = [self._record(line) for line in lines if line.number >= since and line.raw.strip()]
        records = [one for one in read if isinstance(one, Record)]
        return Page(records, more=more, broken=[one for one in read if isinstance(one, Broken)])

    def _record(self, line: Line) -> Record | Broken:
        try:
            body = parse(self._text(line))
            wrong = flaw(body)
            if wrong is None:
                name = str(line.number) if self._id is None else named(pick(body, self._id))
                return Record(name, body, line.number)
        except Exception as error:  # the function is the caller's, and the line anybody's
            wrong = str(error) if isinstance(error, Unreadable) else f"{type(error).__name__}: {error}"
        wrong += "" if line.is_whole else "; the line has no end"
        return Broken(quoted(line.raw.decode("utf-8", "replace")), f"line {line.number}: {wrong}")

    def _text(self, line: Line) -> str:
        if line.is_long:
            raise Unreadable(f"it is longer than {self._line_limit} bytes: see line_limit=")
        try:
            return line.raw.decode()
        except UnicodeDecodeError:
            raise Unreadable("it is no UTF-8") from None
