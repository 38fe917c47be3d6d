"""Waiting for a condition that has no event: a process, a file, a worker that goes on by itself.

This is the only place in which tests look again after a pause. On a virtual loop the pause is virtual, so it
costs nothing. A condition that never holds is an error that says what is known. A test that has an event
awaits the event.
"""

from __future__ import annotations

from collections.abc import Callable

import anyio

from onefold.runtime import current

PACE = 0.01
"""Seconds between two looks."""

PATIENCE = 90.0
"""Seconds until a condition counts as never met. No test waits so long unless it fails."""


def wait_for(
    condition: Callable[[], bool],
    seconds: float = PATIENCE,
    *,
    meanwhile: Callable[[], object] = lambda: None,
    story: Callable[[], str] = lambda: "",
) -> None:
    """Block until a condition holds. `meanwhile` is called between looks; `story` tells what is known."""
    runtime = current()
    deadline = runtime.monotonic() + seconds
    while not condition():
        if runtime.monotonic() > deadline:
            raise AssertionError(f"the condition was not met within {seconds:g} s; {story()}")
        meanwhile()
        runtime.wait(PACE)


async def until(condition: Callable[[], bool], seconds: float = PATIENCE) -> None:
    """Await a condition while other tasks run."""
    with anyio.fail_after(seconds):
        while not condition():  # noqa: ASYNC110  (a condition without an event)
            await anyio.sleep(PACE)
