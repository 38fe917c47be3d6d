"""The command as processes of their own: run to the end, on a terminal, or as a worker that is waited for.

It asserts nothing.
"""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from tests.waiting import PATIENCE, wait_for


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


class Working:
    """A worker as a process; its log goes to a file, and can be waited for."""

    def __init__(self, folder: Path, *words: str, stdin: int = subprocess.DEVNULL) -> None:
        self._log = folder / f"log-{len(list(folder.glob('log-*')))}.txt"
        with self._log.open("w") as log:
            self.process = subprocess.Popen(
                command("run", *words),
                stdin=stdin,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env={**os.environ, "PYTHONUNBUFFERED": "1"},
            )

    @property
    def log(self) -> str:
        return self._log.read_text()

    def until(self, condition: Callable[[], bool]) -> None:
        """Wait for something; a worker that ends before it is an error."""
        wait_for(condition, PATIENCE, meanwhile=self._still_lives, story=lambda: self.log)

    def _still_lives(self) -> None:
        assert self.process.poll() is None, f"the worker ended: {self.log}"

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def end(self) -> tuple[int, str]:
        """Wait for the end; return the exit code and what was printed."""
        try:
            printed, _ = self.process.communicate(timeout=PATIENCE)
        finally:
            self.kill()
        return self.process.returncode, printed

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(PATIENCE)
        if self.process.stdout:
            self.process.stdout.close()
