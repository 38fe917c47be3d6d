"""What truly happened in a stand-in, one line per event, in memory and if wanted in a file.

An account is counted from journals alone. Nothing of Onefold writes or reads them.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any


class Journal:
    """An append-only list of events; every line is on its way to the disk before the world answers."""

    def __init__(self, file: str | Path | None = None) -> None:
        self._lock = threading.Lock()
        self._lines: list[dict[str, Any]] = []
        self._file = open(file, "a", encoding="utf-8") if file else None  # noqa: SIM115  (closed in close)

    def note(self, kind: str, **facts: Any) -> None:
        """Write an event down."""
        line = {"kind": kind, **facts}
        with self._lock:
            self._lines.append(line)
            if self._file:
                self._file.write(json.dumps(line) + "\n")
                self._file.flush()

    def of(self, kind: str) -> list[dict[str, Any]]:
        """Return the events of one kind, in the order in which they happened."""
        with self._lock:
            return [line for line in self._lines if line["kind"] == kind]

    def lines(self) -> list[dict[str, Any]]:
        """Return everything, in the order in which it happened."""
        with self._lock:
            return list(self._lines)

    def close(self) -> None:
        if self._file:
            self._file.close()


def read(file: str | Path) -> Iterator[dict[str, Any]]:
    """Read a journal from its file."""
    with open(file, encoding="utf-8") as lines:
        yield from map(json.loads, lines)
