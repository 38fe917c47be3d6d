"""Ends the servers of a test process that died without ending them, and removes their folders.

One watching process per test process reads a pipe: it learns which servers run, and when the pipe ends it
kills what is left. So `kill -9` of a test run leaves nothing behind. It knows nothing of any server, and must
stay importable without anything installed.
"""

import atexit
import contextlib
import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterable
from pathlib import Path
from typing import IO

__all__ = ["forget", "watch"]


class _Watcher:
    """The pipe to the watching process; a forked child of the tests makes its own at first use."""

    def __init__(self) -> None:
        self._asking = threading.Lock()
        self._owner = 0
        self._process: subprocess.Popen[str] | None = None

    def tell(self, line: str) -> None:
        with self._asking:
            print(line, file=self._pipe(), flush=True)

    def _pipe(self) -> IO[str]:
        if self._process is None or self._owner != os.getpid():
            # A session of its own: Ctrl-C ends the tests, and only then the watcher does its work.
            command = [sys.executable, "-E", "-S", __file__]
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, text=True, start_new_session=True
            )
            self._owner = os.getpid()
            atexit.register(self._end, self._process)
        assert self._process.stdin
        return self._process.stdin

    def _end(self, process: subprocess.Popen[str]) -> None:
        if self._owner == os.getpid() and process.stdin:
            process.stdin.close()
            process.wait()


_watcher = _Watcher()


def watch(pid: int, folder: Path) -> None:
    """Have the process group `pid` killed and `folder` removed if this process dies."""
    _watcher.tell(f"watch {pid} {folder}")


def forget(pid: int) -> None:
    """The process has ended and was waited for: from now on its number may be somebody else's."""
    _watcher.tell(f"forget {pid}")


def bury(lines: Iterable[str]) -> None:
    """Follow what is told until the pipe ends, then end what is left."""
    left: dict[int, str] = {}
    for line in lines:
        word, pid, *folder = line.rstrip("\n").split(" ", 2)
        if word == "watch":
            left[int(pid)] = folder[0]
        else:
            left.pop(int(pid), None)
    for group, folder_left in left.items():
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(group, signal.SIGKILL)
        shutil.rmtree(folder_left, ignore_errors=True)


if __name__ == "__main__":
    bury(sys.stdin)
