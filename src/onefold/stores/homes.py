"""Where a client is at home: the process, and the event loop, in which its link may be used.

A link is whatever a backend holds to reach its server. Here it is only kept or let go; making, using and
closing it is the backend's.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Generic, TypeVar

from onefold.drive.process import PROCESS

if TYPE_CHECKING:
    import asyncio

L = TypeVar("L")

INHERITED: list[object] = []
"""Links that came with a fork: closing one here could end the parent's session, so they are kept."""


class OfProcess(Generic[L]):
    """A client whose link belongs to one process, and is shared by its threads behind a lock."""

    _link: L | None

    def __init__(self) -> None:
        self._forget()

    def _forget(self) -> None:
        self._process = PROCESS.number
        self._lock = threading.Lock()
        self._link = None

    def _leave_parent(self) -> None:
        """After a fork, let the parent's link and lock be, whatever state they were in."""
        if self._process != PROCESS.number:
            INHERITED.append(self._link)
            self._forget()


class OfLoop(Generic[L]):
    """A client whose link belongs to the event loop that first used it, and which follows to the next."""

    _link: L | None
    _lock: asyncio.Lock

    def __init__(self) -> None:
        self._home: tuple[int, object] = (0, None)
        self._link = None

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
        self._home, self._link, self._lock = home, None, asyncio.Lock()

    def _abandon(self, link: L) -> None:
        """Let go of a link of another loop. Nothing can be awaited for it: that loop may be closed itself."""
