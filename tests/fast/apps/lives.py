"""A worker that dies in the middle of its work as SIGKILL would end it, without a process of its own.

After its death, none of its calls reaches the store, a table or the network, and none is answered. What it
had claimed stays claimed until the lease is over. Its tasks are cancelled, because Python has no other way to
end them; their clean-up code runs, but reaches nothing outside. Nothing here knows an application.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar

import anyio

from onefold.core.terms import Seconds
from onefold.drive import Event
from onefold.runtime import current
from onefold.testing.runtime import VirtualRuntime
from onefold.testing.virtual import VirtualLoop
from onefold.worker import Worker
from tests.fast.virtual import NOW
from tests.waiting import until

T = TypeVar("T")


class Life(VirtualRuntime):
    """The runtime of one worker, which ends when the worker dies."""

    def __init__(self, loop: VirtualLoop) -> None:
        super().__init__(loop, current().token(), NOW)  # no two lives may draw the same tokens
        self.died = asyncio.Event()

    def end(self) -> None:
        """Cut the worker off from everything outside of it."""
        self.died.set()
        self.loop.network.abandon(self)

    async def blocking(self, function: Callable[..., T], *args: Any, linger: Seconds = 0.0) -> T:
        await asyncio.sleep(0)
        await self._wait_if_dead(function)
        result = function(*args)
        await asyncio.sleep(0)
        await self._wait_if_dead(function)
        return result

    async def _wait_if_dead(self, function: Callable[..., Any]) -> None:
        # The dead get no answer. Files are closed all the same, as the system does for a killed process.
        if self.died.is_set() and function.__name__ != "close":
            await asyncio.get_running_loop().create_future()


def run_until_killed(worker: Worker, condition: Callable[[], bool]) -> None:
    """Run a worker until a condition holds, then kill it."""
    _live(worker, lambda life: until(condition))


def run_until_it_dies(worker: Worker, fatal: Callable[[Event], bool]) -> None:
    """Run a worker until the first call on its store that is fatal; the call is not made, or not answered."""

    async def death(life: Life) -> None:
        def see(event: Event) -> None:
            if not life.died.is_set() and fatal(event):
                life.end()

        worker.tap = see
        await until(life.died.is_set)

    _live(worker, death)


def _live(worker: Worker, death: Callable[[Life], Any]) -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        life = worker.runtime = Life(loop)
        work = asyncio.ensure_future(worker.arun())
        try:
            await death(life)
        finally:
            life.end()
            work.cancel()
            with suppress(asyncio.CancelledError):
                await work

    anyio.run(main)


# ----- points of the protocol


def marked(event: Event) -> bool:
    """After an effect was written down as begun, and before it happens."""
    return _is_swap(event, after=True) and any(one.begin for one in event.call.args[0])


def sent(event: Event) -> bool:
    """After an effect happened, and before that is written."""
    changes = event.call.args[0] if _is_swap(event, after=False) else ()
    return any(one.entry is not None and one.entry.state == "done" for one in changes)


def told(event: Event) -> bool:
    """After everything is written but the cursor; an earlier write of it only says how the source does."""
    changes = event.call.args[0] if _is_swap(event, after=False) else ()
    texts = [one.entry.body for one in changes if one.entry and one.key.scope == "onefold.cursors"]
    return any(json.loads(text or "{}").get("at") is not None for text in texts)


def _is_swap(event: Event, *, after: bool) -> bool:
    return event.call.name == "swap" and (event.seconds is not None) is after
