"""Runs a server or a worker process beside the benchmark, and ends it by its process id.

It knows nothing about what it runs. The process also ends if the benchmark is killed: a shell waits for the
end of a pipe that only the benchmark holds open.
"""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
END_SECONDS = 15.0
LAST_CHARACTERS = 600

# A shell gives a background process an empty stdin, so that only `cat` reads the pipe.
_GUARD = '"$@" & child=$!; cat >/dev/null; kill "$child" 2>/dev/null; wait "$child"'


@contextmanager
def beside(command: Sequence[str | Path], log: Path, env: Mapping[str, str]) -> Iterator[None]:
    """Run a command with its output in a file, and end it afterwards."""
    with log.open("wb") as output:
        guard = subprocess.Popen(
            ["sh", "-c", _GUARD, "sh", *command],
            cwd=ROOT,
            env=dict(env),
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # an interrupt from the terminal reaches the benchmark only
        )
    try:
        yield
    finally:
        assert guard.stdin is not None
        guard.stdin.close()
        try:
            guard.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(guard.pid, signal.SIGKILL)  # the session that was started for it
            guard.wait()


def last_words(log: Path) -> str:
    """Return the end of what a process has written."""
    text = log.read_text("utf-8", "replace") if log.exists() else ""
    return text.strip()[-LAST_CHARACTERS:] or "it wrote nothing"
