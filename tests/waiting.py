"""Waiting for a condition of the outside: a process, a file, a socket has no event that a test could await.

This is the only place in which tests look again after a pause. A condition that never holds is an error,
with what is to be said about it. Whoever has an event awaits that.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import anyio

PACE = 0.01
"""Seconds between two looks."""

PATIENCE = 90.0
"""Seconds for a machine that has much else to do; what holds is seen at once."""


def wait_for(
    condition: Callable[[], bool],
    seconds: float = PATIENCE,
    *,
    meanwhile: Callable[[], object] = lambda: None,
    story: Callable[[], str] = lambda: "",
) -> None:
    """Look until it is so. `meanwhile` is done after each look; `story` says what is known if it never is."""
    looks, deadline = threading.Event(), time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"it did not come to that within {seconds:g} s; {story()}")
        meanwhile()
        looks.wait(PACE)


async def until(condition: Callable[[], bool], seconds: float = PATIENCE) -> None:
    """The same, while other tasks run."""
    with anyio.fail_after(seconds):
        while not condition():  # noqa: ASYNC110  (a condition of the outside has no event)
            await anyio.sleep(PACE)
