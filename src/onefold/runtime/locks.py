"""How long to wait for another connection's lock on an SQLite file, by the clock of the current runtime.

It is a busy handler for SQLite: ledgers and tables use it alike. It takes no lock and opens no file.
"""

from __future__ import annotations

from onefold.core.terms import Seconds
from onefold.runtime import current

PAUSE: Seconds = 0.001
"""Between two tries to get a lock that another connection has."""


class LockWait:
    """Waits for a lock of another connection, for a bounded time.

    SQLite's own handler sleeps by the clock of the machine, also in a simulation. It pauses for up to 100 ms
    between two tries, and misses the moments in which a busy writer leaves the file free.
    """

    def __init__(self, longest: Seconds) -> None:
        self._longest = longest
        self._until = 0.0

    def __call__(self, tries: int) -> bool:
        """Pause, and let SQLite try again; False when the time is over. Each lock counts its tries from 0."""
        now = current().monotonic()
        if tries == 0:
            self._until = now + self._longest
        if now >= self._until:
            return False
        current().wait(PAUSE)
        return True
