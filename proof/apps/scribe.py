"""Writes signals into files as other people's programs do: in halves, over again, and with rotations.

Files get their times of writing from the clock that is given, so that nothing depends on the real one. The
journal has a line for every signal that was written whole. It knows nothing of what reads the files.
"""

from __future__ import annotations

import gzip
import json
import os
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple

from onefold.worlds.journal import Journal

Rotation = Literal["numbered", "dated", "copied"]

Signal = Mapping[str, Any]


class Torn(NamedTuple):
    """A line whose end is not written yet."""

    file: int
    written: bytes
    rest: bytes
    signal: Signal
    is_given_up: bool
    """Whether the writer died over it: then its next life writes the whole signal again."""


class Scribe:
    """One file under one name, and those that had this name before."""

    def __init__(self, path: Path, clock: Callable[[], float]) -> None:
        self.journal = Journal()
        self.lines: list[list[bytes]] = [[]]
        """What was written, line by line, in the order of the files."""
        self._path = path
        self._clock = clock
        self._paths = [path]
        self._torn: Torn | None = None
        self._last = 0

    @property
    def is_torn(self) -> bool:
        return self._torn is not None

    def create(self) -> None:
        """Make the file, if it is not there."""
        if not self._path.exists():
            self._append(len(self._paths) - 1, b"")

    # ----- lines

    def write(self, signal: Signal) -> None:
        """Write a signal, after what was left torn."""
        self.mend()
        self._put(_line(signal))
        self._note(signal)

    def garbage(self, raw: bytes) -> None:
        """Write a line that is no signal."""
        self.mend()
        self._put(raw)

    def tear(self, signal: Signal, share: float, is_given_up: bool) -> None:
        """Write the first part of a signal."""
        self.mend()
        raw = _line(signal)
        cut = max(round(share * len(raw)), 1)
        self._torn = Torn(len(self._paths) - 1, raw[:cut], raw[cut:], signal, is_given_up)
        self._append(self._torn.file, raw[:cut])

    def mend(self) -> None:
        """Write the rest of a torn line, where it began; or the whole signal again, on a line of its own."""
        torn, self._torn = self._torn, None
        if torn is None:
            return
        if not torn.is_given_up:
            self._append(torn.file, torn.rest + b"\n")
            self.lines[torn.file].append(torn.written + torn.rest)
            self._note(torn.signal)
            return
        self.lines[torn.file].append(torn.written)
        if torn.file == len(self._paths) - 1:
            self._append(torn.file, b"\n")
        self.write(torn.signal)

    def _put(self, raw: bytes) -> None:
        file = len(self._paths) - 1
        self._append(file, raw + b"\n")
        self.lines[file].append(raw)

    def _note(self, signal: Signal) -> None:
        self.journal.note("signal", **signal)

    def _append(self, file: int, raw: bytes) -> None:
        with self._paths[file].open("ab") as out:
            out.write(raw)
        self._touch(self._paths[file])

    def _touch(self, path: Path) -> None:
        # No two writes have the same time: of files with one time nobody could say which came first.
        self._last = max(round(self._clock() * 1e9), self._last + 1_000)
        os.utime(path, ns=(self._last, self._last))

    # ----- files

    def rotate(self, kind: Rotation, create: bool) -> bool:
        """Give the name to a new file; False if there is none to rotate.

        A writer goes on with a torn line in the old file, if it was renamed.
        """
        if not self._path.exists():
            return False
        if kind == "copied":
            self.mend()
        self._make_room(kind)
        rotated = self._path.with_name(self._rotated_name(kind))
        if kind == "copied":
            shutil.copy(self._path, rotated)
            os.truncate(self._path, 0)
            self._touch(rotated)
            self._touch(self._path)
        else:
            self._path.rename(rotated)
        self._paths[-1:] = [rotated, self._path]
        self.lines.append([])
        if create:
            self.create()
        return True

    def repeat(self, number: int) -> None:
        """Begin the present file with the first lines of the one before."""
        if not self.is_torn:
            for raw in self.lines[-2][:number]:
                self._put(raw)

    def pack(self) -> None:
        """Pack the file that was rotated last, as logrotate does some time later; its time stays."""
        file = len(self._paths) - 2
        if file < 0 or self._paths[file].suffix == ".gz" or (self._torn and self._torn.file == file):
            return
        plain = self._paths[file]
        packed = plain.with_name(plain.name + ".gz")
        written = plain.stat().st_mtime_ns
        packed.write_bytes(gzip.compress(plain.read_bytes(), mtime=0))
        os.utime(packed, ns=(written, written))
        plain.unlink()
        self._paths[file] = packed

    def _make_room(self, kind: Rotation) -> None:
        """Number the rotated files anew: the newest is number 1."""
        if kind == "dated":
            return
        for index, old in enumerate(self._paths[:-1]):
            number = len(self._paths) - index
            new = old.with_name(f"{self._path.name}.{number}" + (".gz" if old.suffix == ".gz" else ""))
            old.rename(new)
            self._paths[index] = new

    def _rotated_name(self, kind: Rotation) -> str:
        return f"{self._path.name}-{round(self._clock())}" if kind == "dated" else f"{self._path.name}.1"


def _line(signal: Signal) -> bytes:
    return json.dumps(signal, ensure_ascii=False).encode()
