"""Where a client is at home: the process, and the event loop, in which its link may be used.

A link is whatever a backend holds to reach its server. Here it is only kept or let go; making, using and
closing it is the backend's.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Generic, TypeVar

from onefold.runtime.process import PROCESS

if TYPE_CHECKING:
    import asyncio

L = TypeVar("L")

INHERITED: list[object] = []
"""Links that came with a fork: closing one here could end the parent's session, so they are kept."""


class OfProcess(Generic[L]):
    """A client whose link belongs to one process, and is shared by its threads behind a lock."""

    _link: L | None
    _busy: bool
    """Whether a call uses the link. If it is set when the next call begins, the last call did not end.

    A signal's exception can interrupt a driver in the middle of an answer, and a second one the code that
    would close the connection then. A link in an unknown state could give an old answer to a new question.
    """

    def __init__(self) -> None:
        self._renewals: dict[int, threading.Lock] = {}
        self._forget()

    def _forget(self) -> None:
        self._lock = threading.Lock()
        self._link = None
        self._busy = False
        self._process = PROCESS.number  # last: another thread that reads it uses the lock

    def _leave_parent(self) -> None:
        """After a fork, let the parent's link and lock be, whatever state they were in."""
        if self._process != PROCESS.number:
            # A lock for each process: a thread of the parent may have held a common one during the fork.
            with self._renewals.setdefault(PROCESS.number, threading.Lock()):
                if self._process != PROCESS.number:
                    INHERITED.append(self._link)
                    self._forget()


class OfLoop(Generic[L]):
    """A client whose link belongs to the event loop that first used it, and which follows to the next."""

    _link: L | None
    _lock: asyncio.Lock
    _busy: bool
    """Whether a call uses the link, as in `OfProcess`."""

    def __init__(self) -> None:
        self._home: tuple[int, object] = (0, None)
        self._link = None
        self._busy = False

    def _come_home(self) -> None:
        """Be at home in this process and on this event loop; a link of another is let go."""
        import asyncio  # here, so that whoever never waits in a loop starts sooner

        home = PROCESS.number, asyncio.get_running_loop()
        if self._home == home:
            return
        if self._link is not None and self._home[0] != PROCESS.number:
            INHERITED.append(self._link)
        elif self._link is not None:
            self._abandon(self._link)
        self._home, self._link, self._lock, self._busy = home, None, asyncio.Lock(), False

    def _abandon(self, link: L) -> None:
        """Let go of a link of another loop. Nothing can be awaited for it: that loop may be closed itself."""
