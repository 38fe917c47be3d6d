"""What an `AsyncLedger` keeps for each event loop, so that one ledger serves several loops and threads.

The queue of group commit, heartbeats and most connections belong to one event loop: a future is never woken
from another one. Stores that run in threads or in memory belong to none and are shared. Nothing here waits,
and nothing locks: a fork in the wrong moment would leave a lock taken for ever.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from onefold.core.errors import Misconfigured
from onefold.core.ports import AsyncStore
from onefold.core.sightings import Sightings
from onefold.drive import AsyncHeart, AsyncPorts, Inline, OneThread, Threaded
from onefold.runtime.process import PROCESS
from onefold.stores import aconnect
from onefold.stores.locate import Located, announce, locate, refuse_empty, working_folder

Loop = asyncio.AbstractEventLoop
Wrap = Callable[[AsyncStore, Sightings], AsyncPorts]

_OF_NO_LOOP = (Inline, OneThread, Threaded)
"""Stores that keep nothing of an event loop."""


class Home:
    """The part of a ledger that belongs to one event loop."""

    def __init__(self, loop: Loop, store: AsyncStore, wrap: Wrap, sightings: Sightings) -> None:
        self.loop = loop
        self.process = PROCESS.number
        self.store = store
        self.sightings = sightings
        self.ports = wrap(store, sightings)
        self.heart = AsyncHeart(lambda: self.ports)
        self.in_use = True
        """Whether its loop used the ledger since it last closed it."""

    @property
    def ended(self) -> bool:
        """Whether nothing runs here any more: the loop was closed, or stayed behind at a fork."""
        return self.loop.is_closed() or self.process != PROCESS.number


class Homes:
    """The homes of a ledger, by event loop; each is made when its loop first uses the ledger."""

    def __init__(self, store: str | AsyncStore | None, create: bool, wrap: Wrap) -> None:
        if isinstance(store, str):
            refuse_empty(store, "the URL of the store")
        self._store = store
        self._folder = working_folder()  # now: a process may change it before first use
        self._create = create
        self._wrap = wrap
        self._homes: dict[Loop, Home] = {}
        self._ended: list[Home] = []
        self._located: list[Located] = []
        # Appending and popping are atomic, so of two threads one gets the store, or both get the first.
        self._shared: list[AsyncStore] = []
        self._unused: list[AsyncStore] = []
        if isinstance(store, _OF_NO_LOOP):
            self._shared.append(store)
        elif store is not None and not isinstance(store, str):
            self._unused.append(store)

    def here(self) -> Home:
        """Return the home of the running event loop."""
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            raise _not_asyncio() from None
        home = self._homes.get(loop)
        if home is None or home.process != PROCESS.number:
            home = self._homes[loop] = self._move_in(loop)
        home.in_use = True
        return home

    def to_close(self) -> list[AsyncStore]:
        """Return the stores that the running loop may close: its own, and those of loops that have ended.

        A shared store is closed by the last loop: closing it earlier would break the calls of the others.
        """
        try:
            own = self._homes.get(asyncio.get_running_loop())
        except RuntimeError:
            raise _not_asyncio() from None
        if own is not None:
            own.in_use = False
        self._sweep()
        left = [home.store for home in (own, *self._ended) if home is not None]
        if not self._shared:
            return left
        return left[:1] if not any(home.in_use for home in list(self._homes.values())) else []

    def _move_in(self, loop: Loop) -> Home:
        self._sweep()
        try:
            former = self._ended.pop()
        except IndexError:
            return Home(loop, self._another(), self._wrap, Sightings())
        # Not its queue, in which calls may wait for ever, nor its heartbeat: the effects there have ended.
        return Home(loop, former.store, self._wrap, former.sightings)

    def _sweep(self) -> None:
        for home in list(self._homes.values()):
            if home.ended and self._homes.pop(home.loop, None) is home:
                self._ended.append(home)

    def _another(self) -> AsyncStore:
        if self._shared:
            return self._shared[0]
        if self._store is None or isinstance(self._store, str):
            return self._opened()
        try:
            return self._unused.pop()
        except IndexError:
            raise Misconfigured(
                f"this AsyncLedger was given a {type(self._store).__name__}, which another event loop uses: "
                "give the ledger a URL, which it can open for each loop, or make a ledger for each loop"
            ) from None

    def _opened(self) -> AsyncStore:
        # Located once: another loop must find the same store, whatever the working directory is by then.
        found = locate(self._store if isinstance(self._store, str) else None, self._folder)
        self._located.append(found)
        if self._create and self._located[0] is found:
            announce(found)
        store = aconnect(self._located[0].url, self._create)
        if not isinstance(store, _OF_NO_LOOP):
            return store
        self._shared.append(store)
        return self._shared[0]


def _not_asyncio() -> Misconfigured:
    return Misconfigured(
        "an AsyncLedger works on asyncio only, and no event loop of asyncio runs here: "
        "under trio, call a Ledger in a thread (trio.to_thread.run_sync)"
    )
