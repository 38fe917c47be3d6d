"""Ends the process when that was promised, whatever still runs in it.

The interpreter waits for threads of the user's at its exit, and a thread cannot be interrupted. Only the
owner of the process may use this: `onefold run`, never a library call. It writes nothing to the store: a
claim whose effect still runs stays as that of a killed worker does.
"""

from __future__ import annotations

import atexit
import logging
import os
import sys
import threading
from collections.abc import Callable
from contextlib import suppress

from onefold.core.terms import Seconds
from onefold.runtime import monotonic

log = logging.getLogger("onefold.worker")

LAST = 15.0
"""Seconds after the grace time for last words, for closing connections and for the last counts."""

SHORTEST = 2.0
"""Seconds that the interpreter has for its exit, if nothing is left of the grace time."""

FLUSH = 1.0
"""Seconds for what was printed and logged; a thread that hangs may hold a lock that this needs."""


class Leaving:
    """The promise of a process to end. Without a stop there is none, and nothing is cut off."""

    def __init__(
        self, end: Callable[[int], object] = os._exit, clock: Callable[[], float] = monotonic
    ) -> None:
        self._end = end
        self._clock = clock
        self._timer: threading.Timer | None = None
        self._graced = 0.0

    @property
    def is_promised(self) -> bool:
        return self._timer is not None

    def promise(self, grace: Seconds, code: int) -> None:
        """Promise an end after the grace time, with this code if nobody knows a better one until then."""
        self._graced = self._clock() + grace
        self._within(grace + LAST, code)

    def last(self, code: int, is_hung: bool) -> None:
        """Keep the promise, after everything was said: threads of the user's have the rest of the grace time.

        If calls of ours hang, the process ends immediately: the interpreter would end such threads in the
        middle of foreign code, which may abort it.
        """
        if is_hung:
            with suppress(Exception):
                atexit._run_exitfuncs()
            self._leave(code)
        else:
            self._within(max(self._graced - self._clock(), SHORTEST), code)

    def _within(self, limit: Seconds, code: int) -> None:
        timer = threading.Timer(limit, self._leave, (code, f"still running {limit:.0f} s later"))
        timer.daemon = True
        if self._timer is not None:
            self._timer.cancel()
        self._timer = timer
        timer.start()

    def _leave(self, code: int, reason: str = "") -> None:
        flushing = threading.Thread(target=_flush, args=(reason,), daemon=True)
        flushing.start()
        flushing.join(FLUSH)
        self._end(code)


def _flush(reason: str) -> None:
    if reason:
        names = [one.name for one in threading.enumerate() if not one.daemon]
        log.error("%s, the process ends now; threads: %s", reason, ", ".join(names))
    logging.shutdown()
    for stream in (sys.stdout, sys.stderr):
        with suppress(Exception):
            stream.flush()
