"""A ledger with entries in every state, written at known times, and ways to run the command on it.

It asserts nothing.
"""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from click.testing import CliRunner, Result

from onefold import Key, Ledger, Refused, Terms
from onefold.cli.root import onefold
from onefold.stores.sqlite import SqliteStore
from tests.waiting import PATIENCE as PATIENCE

AT = datetime(2026, 1, 1, tzinfo=UTC)


class Effect(Exception):
    """What a staged effect raises."""


def ledger(path: Path | str = "onefold.db", at: datetime = AT) -> Ledger:
    """Open a ledger whose store's clock stands still."""
    return Ledger(SqliteStore(path, clock=at.timestamp))


def in_doubt(book: Ledger, key: Key) -> None:
    def effect() -> None:
        raise Effect

    with suppress(Effect):
        book.call(key, effect)


def failed(book: Ledger, key: Key, attempts: int = 1) -> None:
    def effect() -> None:
        raise Refused("not today")

    with suppress(Refused):
        book.call(key, effect, terms=Terms(attempts=attempts, backoff=("1d", "1d")))


def waiting(book: Ledger, key: Key) -> None:
    failed(book, key, attempts=2)


def held(book: Ledger, key: Key) -> None:
    book.claim(key)


def by_hand(book: Ledger, key: Key) -> None:
    book.claim(key).park()


def beyond_memory(book: Ledger, key: Key) -> None:
    book.claim(key, terms=Terms(keep="1d"), at=datetime.now(UTC) - timedelta(days=2))


def done(book: Ledger, key: Key, receipt: Any = None, keep: str = "forever") -> None:
    book.call(key, lambda: receipt, terms=Terms(keep=keep))


def one_of_each(book: Ledger) -> None:
    """Fill a ledger with one entry of every kind."""
    kinds: list[tuple[Callable[[Ledger, Key], None], str]] = [
        (in_doubt, "A-17"),
        (failed, "A-18"),
        (by_hand, "A-19"),
        (beyond_memory, "A-20"),
        (waiting, "A-21"),
        (held, "A-22"),
        (done, "A-23"),
    ]
    for make, name in kinds:
        make(book, Key("charges", name))


class Cli:
    """The command, run inside this process; standard input is no terminal."""

    def __call__(self, *words: str) -> Result:
        return CliRunner().invoke(onefold, list(words))

    def json(self, *words: str) -> Any:
        return json.loads(self("--json", *words).stdout)

    def lines(self, *words: str) -> list[Any]:
        return [json.loads(line) for line in self("--json", *words).stdout.splitlines()]


def command(*words: str) -> list[str]:
    return [sys.executable, "-m", "onefold", *words]


def process(*words: str) -> subprocess.CompletedProcess[str]:
    """Run the command as a process of its own, to its end."""
    return subprocess.run(
        command(*words),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE,
    )


class Terminal:
    """The command on a terminal of its own: what it shows can be waited for, and answers can be typed."""

    def __init__(self, *words: str) -> None:
        self.shown = ""
        self._ours, theirs = os.openpty()
        self._process = subprocess.Popen(command(*words), stdin=theirs, stdout=theirs, stderr=theirs)
        os.close(theirs)

    def wait_for(self, text: str) -> str:
        """Read until a text was shown; return all that was."""
        deadline = time.monotonic() + PATIENCE
        while text not in self.shown:
            left = deadline - time.monotonic()
            if left <= 0 or not self._read(left):
                self._process.kill()
                raise AssertionError(f"{text!r} was not shown, but: {self.shown}")
        return self.shown

    def type(self, text: str) -> None:
        os.write(self._ours, text.encode())

    def interrupt(self) -> int:
        """Interrupt it, read to the end and return the exit code."""
        self._process.send_signal(signal.SIGINT)
        while (heard := self._read(PATIENCE / 6)) is not False:
            # In the moment before Python begins to read a line, an interrupt is noticed only after that line.
            # Nobody is interrupted twice who is only slow to end: that would end it by the signal.
            if heard is None:
                self._process.send_signal(signal.SIGINT)
        return self.end()

    def end(self) -> int:
        """Read to the end and return the exit code."""
        while self._read(PATIENCE):
            pass
        os.close(self._ours)
        return self._process.wait(PATIENCE)

    def _read(self, seconds: float) -> bool | None:
        """Take in what is shown; None if nothing was in time, False if the other end is closed."""
        if not select.select([self._ours], [], [], seconds)[0]:
            return None
        try:
            text = os.read(self._ours, 65536).decode(errors="replace")
        except OSError:
            return False
        self.shown += text
        return bool(text)
