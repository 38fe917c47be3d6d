"""Processes that are meant to die: forked from one that has everything imported, each watched through a pipe.

The end of a pipe is the proof of a death, and what the child said before is still in it. The process that
forks must have no threads and must not hold a store open: SQLite's locks do not survive that.
"""

from __future__ import annotations

import os
import select
import signal
import time
from collections.abc import Callable, Iterable, Sequence
from types import TracebackType

LIFETIME = 60
"""Seconds after which a child that was forgotten ends by itself."""

ENDING = (signal.SIGINT, signal.SIGTERM)
"""What ends a run before its time."""

Report = Callable[..., None]
"""Say a word and what belongs to it to whoever forked this process."""


class Child:
    """A forked process: what it said, and how it ended."""

    def __init__(self, pid: int, pipe: int) -> None:
        self.pid = pid
        self.pipe = pipe
        self.born = time.monotonic()
        self.said: list[tuple[str, ...]] = []
        self.status: int | None = None
        """The exit code, or minus the signal that killed it; None while it lives."""
        self._rest = b""

    def hear(self, heard: bytes) -> None:
        """Take in what came through the pipe; a line cut off by death is not heard."""
        *lines, self._rest = (self._rest + heard).split(b"\n")
        self.said += [tuple(line.decode().split("\t")) for line in lines]

    def words(self, word: str) -> list[tuple[str, ...]]:
        """Return what belongs to each saying of a word."""
        return [line[1:] for line in self.said if line[0] == word]

    @property
    def killed(self) -> bool:
        return self.status == -signal.SIGKILL

    @property
    def complaint(self) -> str | None:
        """Say why this end was nobody's plan; None if it was."""
        if failure := self.words("failed"):
            return f"worker {self.pid} failed: {failure[0][0]}"
        if self.status in (None, 0, -signal.SIGKILL):
            return None
        return f"worker {self.pid} ended by itself with status {self.status}"


class Children:
    """All living children; leaving the with-block ends and reaps every one of them."""

    def __init__(self) -> None:
        self._alive: dict[int, Child] = {}

    def __enter__(self) -> Children:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for child in self._alive.values():
            os.kill(child.pid, signal.SIGKILL)
        while self._alive:
            self.watch(None)

    def __len__(self) -> int:
        return len(self._alive)

    def start(self, body: Callable[[Report], None], lifetime: int = LIFETIME) -> Child:
        """Fork a process that does this and ends."""
        pipe, into = os.pipe()
        # Who is told to end meanwhile would hear of it in what Python runs after a fork, where an exception
        # is told and goes no further; or before the child is known, which would then be left behind.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, ENDING)
        try:
            pid = os.fork()
            if pid == 0:
                os.close(pipe)
                _live(body, into, lifetime, before)
            os.close(into)
            child = self._alive[pipe] = Child(pid, pipe)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        return child

    def watch(self, seconds: float | None) -> list[Child]:
        """Wait until somebody says something or ends, but no longer than this; return those that ended."""
        ready, _, _ = select.select(list(self._alive), [], [], seconds)
        return [child for pipe in ready if (child := self._listen(pipe)).status is not None]

    def until_ended(self, children: Sequence[Child]) -> None:
        """Wait until all of these have ended."""
        while any(child.status is None for child in children):
            self.watch(None)

    def until_stopped(self, child: Child) -> bool:
        """Wait until a child has stopped itself; False if it ended instead."""
        _, status = os.waitpid(child.pid, os.WUNTRACED)
        if os.WIFSTOPPED(status):
            return True
        child.status = os.waitstatus_to_exitcode(status)
        self.until_heard(child)
        return False

    def until_heard(self, child: Child) -> None:
        """Take in the last words of a child that has been reaped."""
        while child.pipe in self._alive:
            self._listen(child.pipe)

    def _listen(self, pipe: int) -> Child:
        child = self._alive[pipe]
        heard = os.read(pipe, 65536)
        child.hear(heard)
        if not heard:
            del self._alive[pipe]
            os.close(pipe)
            if child.status is None:
                child.status = os.waitstatus_to_exitcode(os.waitpid(child.pid, 0)[1])
        return child


def _live(body: Callable[[Report], None], into: int, lifetime: int, heard: Iterable[int]) -> None:
    """Be the child: do the work, say why if it failed, and never come back into the parent's code."""

    def report(*words: object) -> None:
        os.write(into, "\t".join(str(word) for word in words).replace("\n", " ").encode() + b"\n")

    status = 1
    try:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # an interrupted parent ends its children itself
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, heard)
        signal.alarm(lifetime)
        body(report)
        status = 0
    except BaseException as error:
        report("failed", f"{type(error).__name__}: {error}")
    finally:
        os._exit(status)
