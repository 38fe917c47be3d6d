"""Records from JSON lines, in a file or on standard input: one record a line, the line's number its place.

It ends where the lines end, unless it follows a file. A line that is no JSON is set apart with its number; a
last one without an end is waited for a while, because somebody may be writing it. Lines are bounded, and read
in threads. Which file a line is read from, when files are rotated or truncated, is decided in `rotation`.
"""

from __future__ import annotations

import sys
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO

import anyio

from onefold.core.cursor import Cursor
from onefold.core.errors import Misconfigured
from onefold.core.record import Broken, Fate, Page, Record
from onefold.core.rows import Field, named, pick
from onefold.core.terms import Duration, Seconds, seconds
from onefold.core.wire import Unreadable, flaw, parse, quoted
from onefold.runtime import current
from onefold.runtime.threads import LINGER
from onefold.sources.lines import CHUNK, Line, Lines
from onefold.sources.rotation import Step, Trail

LOOKS = 0.05
"""Seconds between two looks for the rest of a line."""


class Patience:
    """How long the end of a line is waited for."""

    def __init__(self, seconds: Seconds) -> None:
        self._seconds = seconds
        self._line = -1
        self._until = 0.0

    def waits(self, trail: Trail) -> bool:
        """Say whether the last line has no end, and somebody may still be writing it."""
        now = anyio.current_time()
        if trail.reached != self._line:
            self._line, self._until = trail.reached, now + self._seconds
        return trail.is_torn and now < self._until


class Replay:
    """Reads JSON lines. `id` names a record, by a field or a function of its body; otherwise its line does.

    A file is read from the line of the cursor on: lines must not change once they were read, but new ones may
    be added at the end, and a last one without an end is waited for as long as `patience`. With `follow` the
    end is looked at that often, for ever.

    A file may be rotated (renamed, or copied and truncated), also while nobody reads. Then the rest of the
    old file is read first, from beside the new one; a rotated file is left when nothing was added to it for
    `patience`. Line numbers go on over all files. Where the old file cannot be found, a gap is shown. Give
    `id` for such a file: a number may change if lines are added to a file after the next one was begun.

    Standard input (`"-"`) is read whole every time: nobody knows whether it is the same; the ledger tells
    repeats apart.
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
        pages = self._read_file(self._file, cursor) if isinstance(self._file, Path) else self._read_stream()
        try:
            async for page in pages:
                yield page
        finally:
            await pages.aclose()

    async def _read_stream(self) -> AsyncGenerator[Page]:
        file, lines = self._stream(), Lines(self._line_limit)
        while chunk := await self._chunk(file):
            whole = lines.take(chunk)
            if whole:
                yield self._page(Step(whole), more=True)
        yield self._page(Step(lines.end()))

    def _stream(self) -> Any:
        # Without a buffer: a stop leaves a thread at the pipe, and its lock would abort the exit.
        return getattr(sys.stdin.buffer, "raw", sys.stdin.buffer) if self._file == "-" else self._file

    async def _chunk(self, file: Any) -> bytes:
        """Read what is there, and wait only if nothing is: a stop leaves a thread at the pipe behind."""
        chunk: bytes = await current().blocking(getattr(file, "read1", file.read), CHUNK)
        return chunk

    async def _read_file(self, path: Path, cursor: Cursor) -> AsyncGenerator[Page]:
        trail = Trail(path, self._line_limit, self._patience, by_number=self._id is None)
        caught_up, torn = False, Patience(self._patience)
        try:
            step = await current().blocking(trail.begin, cursor, linger=LINGER)
            while True:
                if step.lines or step.gap:
                    yield self._page(step, more=trail.is_behind or not caught_up)
                if step.waits and not (caught_up or trail.is_behind or (self.finite and torn.waits(trail))):
                    caught_up = True
                    yield self._page(trail.rest() if self.finite else Step())
                    if self.finite:
                        return
                if step.waits:
                    # A line or a file that is nearly read is looked for soon; new ones as often as is wished.
                    await current().sleep(LOOKS if self._follow is None or trail.is_behind else self._follow)
                step = await current().blocking(trail.step, linger=LINGER)
        finally:
            trail.close()

    def _page(self, step: Step, more: bool = False) -> Page:
        read = [self._record(line, step) for line in step.lines if line.raw.strip()]
        records = [one for one in read if isinstance(one, Record)]
        broken = [one for one in read if isinstance(one, Broken)]
        return Page(records, step.gap, more, broken, step.mark)

    def _record(self, line: Line, step: Step) -> Record | Broken:
        try:
            body = parse(self._text(line))
            wrong = flaw(body)
            if wrong is None:
                return Record(self._name(body, line, step), body, step.late or line.number)
        except Exception as error:  # the function is the caller's, and the line anybody's
            wrong = str(error) if isinstance(error, Unreadable) else f"{type(error).__name__}: {error}"
        wrong += "" if line.is_whole else "; the line has no end"
        where = f"line {line.number - step.base}" + (f" of {step.file}" if step.base else "")
        return Broken(quoted(line.raw.decode("utf-8", "replace")), f"{where}: {wrong}")

    def _name(self, body: Any, line: Line, step: Step) -> str:
        if self._id is not None:
            return named(pick(body, self._id))
        # The number of a late line is that of another line, in the file that follows.
        return str(line.number) if step.late is None else f"{line.number} late"

    def _text(self, line: Line) -> str:
        if line.is_long:
            raise Unreadable(f"it is longer than {self._line_limit} bytes: see line_limit=")
        try:
            return line.raw.decode()
        except UnicodeDecodeError:
            raise Unreadable("it is no UTF-8") from None
