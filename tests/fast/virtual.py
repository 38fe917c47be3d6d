"""The event loop of a fast test: one virtual loop with one network, for everything that the test runs.

`anyio.run`, `asyncio.run` and `asyncio.new_event_loop` get this loop, so time and network go on from one run
to the next within a test. Stand-ins in a plain `with` serve on it, and workers take their time from it.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from onefold.runtime import using
from onefold.testing.runtime import VirtualRuntime
from onefold.testing.virtual import VirtualLoop
from onefold.worlds import serving

NOW = 1_795_000_000.0
"""The time of day at which every fast test begins: later than every record of the tests."""


class TestLoop(VirtualLoop):
    """A virtual loop that outlives its runs. Every run closes its loop at its end; this loop stays open."""

    __test__ = False

    def close(self) -> None:
        self._asyncgens_shutdown_called = False  # or the generators of the next run would be warned about

    async def shutdown_default_executor(self, *args: float) -> None:
        """Keep the threads for the next run."""

    def end(self) -> None:
        """Close the loop at the end of its test."""
        super().close()


@contextmanager
def virtual() -> Iterator[TestLoop]:
    """Make one virtual loop the event loop of this thread, within the block. Other threads get real ones."""
    loop = TestLoop(0)
    real, main = asyncio.events.new_event_loop, threading.current_thread()

    def new_event_loop() -> asyncio.AbstractEventLoop:
        return loop if threading.current_thread() is main else real()

    with ExitStack() as stack:
        stack.callback(loop.end)
        stack.enter_context(loop.steady())
        stack.enter_context(using(VirtualRuntime(loop, began=NOW)))
        stack.enter_context(serving.on(loop))
        for owner in (asyncio, asyncio.events):
            stack.callback(setattr, owner, "new_event_loop", real)
            owner.new_event_loop = new_event_loop  # type: ignore[attr-defined]
        yield loop
