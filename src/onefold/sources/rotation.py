"""Finds the files that follow each other under one name: rotated, truncated, copied or replaced.

A file is recognised by its content: the digest of the lines that were read from it. Device and inode only
help to find it under another name. Lines are numbered over all files: the first line of a file comes after
the last line of the one before. Everything here blocks, and runs in threads. What a line means is not known.
"""

from __future__ import annotations

import gzip
import os
import re
import stat
import zlib
from collections import deque
from collections.abc import Iterable, Sequence
from contextlib import closing
from hashlib import blake2b
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from onefold.core.cursor import Cursor
from onefold.core.record import Gap, Mark
from onefold.core.terms import Seconds
from onefold.core.wire import Unreadable
from onefold.runtime import current
from onefold.sources.lines import CHUNK, Line, Lines

TAIL = 1024
"""Bytes before the place of reading that are compared at every look."""

_ROTATED = re.compile(r"[.\-_]\d[\dTZ.:_\-]*")
"""What a rotation adds to a name: a number, or a date."""


class Place(msgspec.Struct, frozen=True):
    """How far a file was read, and what tells it from other files. It is stored with the cursor."""

    base: int
    """Lines of the files before this one."""
    lines: int
    """Whole lines that were read of this one."""
    size: int
    """Bytes of these lines."""
    digest: str
    head: str
    """Digest of the first line alone."""
    device: int
    inode: int
    written: int
    """When the file had last been written to as it was read, in nanoseconds since 1970."""

    @property
    def reached(self) -> int:
        """The number of the last line that was read."""
        return self.base + self.lines


def placed(mark: Any) -> Place | None:
    """Read a mark; None if there is none, as in a cursor of an earlier version."""
    try:
        return None if mark is None else msgspec.convert(mark, Place)
    except msgspec.ValidationError:
        return None


class Changed(Exception):
    """A file no longer holds what was read of it: it was truncated, or written anew."""


class Damaged(Exception):
    """A packed file cannot be unpacked further."""


class Tape:
    """An open file, read from its start."""

    def __init__(self, path: Path, limit: int, base: int = 0) -> None:
        self.path = path
        self.base = base
        self.lines = Lines(limit)
        self._file = _open(path)
        status = os.fstat(self._file.fileno())
        self.is_plain = stat.S_ISREG(status.st_mode) and not _is_packed(path)
        """Whether it can grow, and be read at any place."""
        self.identity = (status.st_dev, status.st_ino)
        self.seen = status.st_mtime_ns
        """When it had last been written to while it still held what was read of it."""
        self._hash = blake2b(digest_size=16)
        self._position = 0
        self._tail = b""
        self._whole = (0, 0, "", "")

    def take(self) -> list[Line] | None:
        """Return the lines that ended since the last look; None at the end of the file."""
        try:
            # A packed file that is damaged shows what comes before only if less than all is asked for.
            chunk = self._file.read1(CHUNK) if _is_packed(self.path) else self._file.read(CHUNK)
        except (OSError, EOFError, zlib.error) as error:
            if _is_packed(self.path):
                raise Damaged(str(error)) from None
            raise Unreadable(f"{self.path} cannot be read: {error}") from None
        written = self.written
        # Look after reading: a file that was truncated and filled before is noticed, and its chunk dropped.
        if not self._is_as_it_was():
            raise Changed
        self.seen = written
        if not chunk:
            return None
        lines = self.lines.take(chunk)
        self._note(chunk)
        return self._numbered(lines)

    def rest(self) -> list[Line]:
        """Return a last line that has no end."""
        return self._numbered(self.lines.end())

    def begins_with(self, place: Place) -> bool:
        """Say whether this file holds the lines that were read; to be asked before anything is read."""
        digest, left = blake2b(digest_size=16), place.size
        if not left:
            return True
        if self.is_plain and os.fstat(self._file.fileno()).st_size < left:
            return False
        try:
            while left and (chunk := self._file.read(min(CHUNK, left))):
                digest.update(chunk)
                left -= len(chunk)
            self._file.seek(0)
        except (OSError, EOFError, zlib.error):
            return False
        return not left and digest.hexdigest() == place.digest

    def holds(self, other: Tape) -> bool:
        """Say whether this file begins with all of another one; to be asked before either is read."""
        digest, size = blake2b(digest_size=16), 0
        try:
            while chunk := other._file.read(CHUNK):
                digest.update(chunk)
                size += len(chunk)
            other._file.seek(0)
        except (OSError, EOFError, zlib.error):
            return False
        return self.begins_with(Place(0, 0, size, digest.hexdigest(), "", 0, 0, 0))

    def is_packed_copy(self, read: Tape) -> bool:
        """Say whether this is the same file as one that was read, packed since; to be asked before reading.

        Whoever packs a file keeps its time. Content alone does not tell: two files may begin with the same
        lines.
        """
        return not self.is_plain and self.written == read.written and self.begins_with(read.place())

    def first_and_count(self) -> tuple[str, int]:
        """Return the digest of the first line and the number of lines; to be asked before reading."""
        beside = Tape(self.path, 1)
        with closing(beside):
            while beside.take() is not None:
                pass
            beside.rest()
            return beside._whole[3], beside.lines.number

    def place(self) -> Place:
        """Say how far this file was read, by whole lines."""
        lines, size, digest, head = self._whole
        return Place(self.base, lines, size, digest, head, *self.identity, self.seen)

    @property
    def is_untouched(self) -> bool:
        """Whether nothing was read of it."""
        return self._position == 0

    @property
    def written(self) -> int:
        """When it was last written to."""
        return os.fstat(self._file.fileno()).st_mtime_ns

    def close(self) -> None:
        self._file.close()

    def _is_as_it_was(self) -> bool:
        if not self.is_plain:
            return True
        start = self._position - len(self._tail)
        return os.pread(self._file.fileno(), len(self._tail), start) == self._tail

    def _note(self, chunk: bytes) -> None:
        """Take a chunk into the digest; only whole lines count, because the last one may still grow."""
        first, last = chunk.find(b"\n") + 1, chunk.rfind(b"\n") + 1
        head = self._whole[3]
        if last:
            if not head:
                until_first = self._hash.copy()
                until_first.update(chunk[:first])
                head = until_first.hexdigest()
            self._hash.update(chunk[:last])
            self._whole = (self.lines.number, self._position + last, self._hash.hexdigest(), head)
        self._hash.update(chunk[last:])
        self._position += len(chunk)
        self._tail = (self._tail + chunk)[-TAIL:]

    def _numbered(self, lines: Iterable[Line]) -> list[Line]:
        return [line._replace(number=self.base + line.number) for line in lines]


class Step(NamedTuple):
    """What one look showed."""

    lines: Sequence[Line] = ()
    base: int = 0
    """Lines of earlier files: a line's number in its own file is its number minus this."""
    file: str = ""
    mark: Mark | None = None
    gap: Gap | None = None
    late: int | None = None
    """For lines that came into a file after it was left: the number after which they are shown."""
    waits: bool = False
    """Whether nothing more is to be had now."""


class Trail:
    """Reads the files of one name in order, the one that has the name now as the last."""

    def __init__(self, path: Path, limit: int, patience: Seconds, by_number: bool) -> None:
        self._path = path
        self._limit = limit
        self._patience = patience
        self._by_number = by_number
        """Whether lines are named by their numbers: then a file that was edited must keep them."""
        self._tape: Tape
        self._next: deque[Tape] = deque()
        self._late: Tape | None = None
        self._left: Tape | None = None
        """The file that was read before this one; unless it is packed, it is the same as `_late`."""
        self._quiet_since: float | None = None
        self._opened: list[Tape] = []
        self.since = 0
        """The first line that is wanted."""

    @property
    def is_behind(self) -> bool:
        """Whether a later file than the one that is being read is known."""
        return bool(self._next)

    @property
    def is_torn(self) -> bool:
        """Whether the last line has no end yet."""
        return self._tape.lines.is_torn

    @property
    def reached(self) -> int:
        """The number of the last line that was read."""
        return self._tape.base + self._tape.lines.number

    def close(self) -> None:
        """Close all files."""
        for tape in self._opened:
            tape.close()

    # ----- where to begin

    def begin(self, cursor: Cursor) -> Step:
        """Open the file of the cursor and those after it; return the gap, if one is missing."""
        self.since = 0 if cursor.at is None else int(cursor.at)
        self._tape = present = self._open(self._path)
        place = placed(cursor.mark)
        if not present.is_plain:
            return Step()
        if place is None:
            return self._begin_unmarked(present)
        return self._resolve(place, present)

    def _begin_unmarked(self, present: Tape) -> Step:
        """Go on from a cursor of an earlier version, which has a number of lines and nothing else."""
        if not self.since or present.first_and_count()[1] >= self.since:
            return Step()
        present.base = self.since + 1
        reason = f"{self._path} has fewer lines than the {self.since} that were read: it was truncated or"
        return Step(gap=_gap(self.since, f"{reason} replaced; lines after {self.since} may be missing"))

    # ----- reading

    def step(self) -> Step:
        """Return the next lines; or what is missing; or that there is nothing to show now."""
        tape, before = self._tape, self._tape.place()
        try:
            lines = tape.take()
        except Changed:
            return self._find_again()
        except Damaged as error:
            return self._pass_over(error)
        if tape.seen != before.written and self._has_the_name(tape) and self._turn_back(tape, before):
            return Step()
        if lines is not None:
            self._quiet_since = None
            return self._shown(tape, lines)
        if self._next:
            return self._leave()
        return self._late_step() or self._look()

    def rest(self) -> Step:
        """Return a last line that has no end, where nobody writes it on."""
        return self._shown(self._tape, self._tape.rest())

    def _shown(self, tape: Tape, lines: Sequence[Line]) -> Step:
        place = tape.place()
        mark = Mark(tape.base + 1, msgspec.to_builtins(place)) if tape.is_plain and place.lines else None
        return Step([one for one in lines if one.number >= self.since], tape.base, tape.path.name, mark)

    def _leave(self) -> Step:
        """Turn to the next file, once the present one is quiet: its writer may hold it open for a while."""
        tape, now = self._tape, current().monotonic()
        self._quiet_since = self._quiet_since or now
        if len(self._next) == 1 and tape.is_plain and now - self._quiet_since < self._patience:
            return Step(waits=True)
        step = self._shown(tape, tape.rest())
        self._quiet_since = None
        self._tape = self._next.popleft()
        self._tape.base = tape.base + tape.lines.number
        self._let_go(self._late)
        self._late = tape if tape.is_plain else None
        self._left = tape
        return step

    def _pass_over(self, error: Damaged) -> Step:
        """Leave a damaged file with a gap: waiting does not mend it, and would hold up the next one."""
        tape, reached = self._tape, max(self.reached, self.since)
        self._left, self._tape = tape, self._next.popleft()
        self._tape.base = reached + 1
        return Step(gap=_gap(reached, f"{tape.path} is damaged after line {tape.lines.number}: {error}"))

    def _late_step(self) -> Step | None:
        """Return lines that a writer put into the file that was left."""
        late, tape = self._late, self._tape
        if late is None:
            return None
        try:
            lines = late.take()
        except Changed:  # it was read to its end before
            self._late = None
            return None
        if lines is None:
            return None
        if tape.is_untouched:  # nothing is in the new file yet: the old one was left too early
            self._tape, self._late, self._left = late, None, None
            self._next.appendleft(tape)
            return self._shown(late, lines)
        return Step(lines, late.base, late.path.name, late=self.reached)

    def _look(self) -> Step:
        """Look whether the name belongs to another file by now."""
        if not self._tape.is_plain or self._has_the_name(self._tape) is not False:
            return Step(waits=True)
        self._follow(self._tape, self._open(self._path))
        return Step()

    def _has_the_name(self, tape: Tape) -> bool | None:
        """Say whether a file has the name; None if it was renamed, and the new one is not there yet."""
        try:
            status = os.stat(self._path)
        except FileNotFoundError:
            return None
        return (status.st_dev, status.st_ino) == tape.identity

    def _find_again(self) -> Step:
        """Go on after a file was truncated or written anew: what it held may be in a copy."""
        place = self._tape.place()
        self.since = max(self.since, place.reached + 1)
        present = self._open(self._path)
        for tape in (*self._next, self._tape):
            self._let_go(tape)
        self._next.clear()
        return self._resolve(place, present)

    def _turn_back(self, tape: Tape, before: Place) -> bool:
        """Turn to the copy of a file that was truncated unnoticed; False if there is none.

        Nothing in the file tells if no line had been read of it, or if it begins with the same lines again.
        """
        copy = self._copy(tape, before)
        if copy is None:
            return False
        self.since = max(self.since, before.reached + 1)
        present = self._open(self._path)
        self._let_go(tape)
        copy.base, self._tape = tape.base, copy
        self._follow(copy, present)
        return True

    def _copy(self, tape: Tape, before: Place) -> Tape | None:
        """Open the first rotated file since a look that begins with what had been read by then."""
        left = self._left
        known = [one.identity for one in (tape, left) if one]
        for entry in _since(self._beside(), before.written):
            if not self._is_rotated(entry.name) or _identity(entry) in known:
                continue
            copy = self._try_open(Path(entry.path))
            if copy and copy.begins_with(before) and not (left and copy.is_packed_copy(left)):
                present = self._open(self._path)
                is_backup = present.holds(copy)
                self._let_go(present)
                if not is_backup:
                    return copy
            self._let_go(copy)
        return None

    # ----- finding files

    def _resolve(self, place: Place, present: Tape) -> Step:
        """Find the file that was read and those after it; return a gap where it is gone."""
        found = self._find(place, present) if place.size else None
        if found:
            found.base = place.base
            self._tape = found
            if found is not present:
                self._follow(found, present)
            return Step()
        reached = max(place.reached, self.since - 1)
        if self._by_number and place.head == present.first_and_count()[0]:
            # Renumbered, its lines would be acted upon again.
            present.base, self._tape = place.base, present
            return Step(gap=_gap(reached, f"{self._path} was changed before line {reached + 1}"))
        self._next = self._later(place.written, None, present)
        self._tape = self._next.popleft()
        if self._next and not place.size:  # of the old file no line was read, and the next one is here
            self._tape.base = reached
            return Step()
        self._tape.base = reached + 1
        reason = f"{self._path} was truncated or replaced, and no file beside it begins with the lines that"
        return Step(gap=_gap(reached, f"{reason} were read: lines after {reached} may be missing"))

    def _follow(self, tape: Tape, present: Tape) -> None:
        """Queue the files that came after one that is being read, and the present one."""
        self._next = self._later(tape.written, tape, present)

    def _later(self, written: int, tape: Tape | None, present: Tape) -> deque[Tape]:
        """Open the files that came after a time, in their order, and put the present one behind them."""
        # The file that was left may have been written to later than its successor, which was empty.
        known = [one for one in (tape, self._left) if one]
        skipped = {present.identity, *(one.identity for one in known)}
        later: list[Tape] = []
        for one in self._rotated():
            # A known file may be packed by now: its lines would be shown once more.
            is_known = one.identity in skipped or any(one.is_packed_copy(read) for read in known)
            if is_known or one.written < written:
                self._let_go(one)
            else:
                later.append(one)
        return deque([*sorted(later, key=lambda one: one.written), present])

    def _find(self, place: Place, present: Tape) -> Tape | None:
        """Find the file that was read: of several that begin with its lines, the first one since then.

        Later files may begin with the same lines. Were one of them taken, those before it would be lost.
        """
        own = (place.device, place.inode)
        is_present = present.begins_with(place)
        beside = self._beside()
        later = _since(beside, place.written)
        if is_present:
            likely = [one for one in later if _written(one) < present.written and self._is_rotated(one.name)]
        else:  # a time may be wrong, as of a file that was restored
            near = [one for one in beside if _identity(one) == own or one.name.startswith(self._path.stem)]
            likely = sorted(near, key=lambda one: later.index(one) if one in later else len(later))
        for entry in likely:
            tape = self._try_open(Path(entry.path))
            # What the present file holds, too, is a backup of it.
            if tape and tape.begins_with(place) and not (is_present and present.holds(tape)):
                return tape
            self._let_go(tape)
        return present if is_present else None

    def _rotated(self) -> list[Tape]:
        """Open the files beside this one whose names say that they are earlier ones of it."""
        names = {entry.name for entry in self._beside()}
        chosen = [name for name in names if self._is_rotated(name)]
        # While a file is being packed it is there twice.
        chosen = [name for name in chosen if not (name.endswith(".gz") and name[:-3] in names)]
        opened = (self._try_open(self._path.with_name(name)) for name in sorted(chosen))
        return [tape for tape in opened if tape]

    def _is_rotated(self, name: str) -> bool:
        plain = name.removesuffix(".gz")
        own, stem, suffix = self._path.name, self._path.stem, self._path.suffix
        if plain.startswith(own) and _ROTATED.fullmatch(plain[len(own) :]):
            return True
        inner = plain[len(stem) : len(plain) - len(suffix)]
        return plain.startswith(stem) and plain.endswith(suffix) and bool(_ROTATED.fullmatch(inner))

    def _beside(self) -> list[os.DirEntry[str]]:
        try:
            with os.scandir(self._path.parent) as entries:
                beside = [one for one in entries if one.name != self._path.name and one.is_file()]
                return sorted(beside, key=lambda one: one.name)
        except OSError as error:
            raise Unreadable(f"{self._path.parent} cannot be listed: {error.strerror}") from None

    def _open(self, path: Path) -> Tape:
        try:
            tape = Tape(path, self._limit)
        except OSError as error:
            raise Unreadable(f"{path} cannot be read: {error.strerror}") from None
        self._opened.append(tape)
        return tape

    def _try_open(self, path: Path) -> Tape | None:
        """Open a file beside ours; one that is gone by now, or that we may not read, is none of ours."""
        try:
            return self._open(path)
        except Unreadable:
            return None

    def _let_go(self, tape: Tape | None) -> None:
        if tape:
            tape.close()
            self._opened.remove(tape)


def _identity(entry: os.DirEntry[str]) -> tuple[int, int] | None:
    try:
        status = entry.stat()
    except OSError:  # it was renamed meanwhile
        return None
    return status.st_dev, status.st_ino


def _written(entry: os.DirEntry[str]) -> int:
    try:
        return entry.stat().st_mtime_ns
    except OSError:
        return 0


def _since(entries: Iterable[os.DirEntry[str]], written: int) -> list[os.DirEntry[str]]:
    """Return the files that were written to since a time, the earliest first."""
    return sorted((one for one in entries if _written(one) >= written), key=_written)


def _gap(reached: int, reason: str) -> Gap:
    """Write a gap; it takes a number of its own, so that a later gap is another one."""
    return Gap(reached, reached + 1, reason)


def _is_packed(path: Path) -> bool:
    return path.suffix == ".gz"


def _open(path: Path) -> Any:
    # Unbuffered: a buffer would hold what the file had before it was truncated.
    return gzip.open(path) if _is_packed(path) else path.open("rb", buffering=0)
