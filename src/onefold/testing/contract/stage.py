"""Where promises are tried: one empty store of either colour, its clock, and ways to run flows on it.

A promise is a flow, or a function where several callers are needed; it says nothing of colours, threads
or event loops. It must not import pytest: a promise can be tried without it.
"""

from __future__ import annotations

import asyncio
import inspect
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from typing import Any, NamedTuple, TypeVar, cast

from onefold.core.flow import Flow
from onefold.core.ports import AsyncStore, Store
from onefold.drive import AsyncPorts, AsyncWallClock, Event, Ports, WallClock, arun, run
from onefold.testing.clock import FakeClock

T = TypeVar("T")

ENOUGH = 1_500
"""More calls and replies than any promise needs."""

AnyStore = Store | AsyncStore
Open = Callable[[Path, FakeClock], AnyStore]


class NotHere(Exception):
    """A promise is about something that this store does not have; it is neither kept nor broken."""


class Subject(NamedTuple):
    """A kind of store, and how to come by one."""

    open: Open
    """Returns a new, empty store; the folder is empty too."""
    reopen: Open | None = None
    """Returns another handle on the store that was opened in this folder; None if there is no such thing."""
    own_clock: bool = False
    """The store reads a clock that a test cannot set; real time must pass."""
    shared: bool = True
    """Threads may share one handle; not so inside a caller's transaction."""
    max_skew: float = 0.0
    """How far apart the clocks of workers may be, where they stand in for a clock of the store's."""


class Stage(AbstractContextManager["Stage"]):
    """One empty store, for the time of one promise."""

    def __init__(self, subject: Subject, folder: Path) -> None:
        self._subject = subject
        self._folder = folder
        self.clock = FakeClock()
        self.store = subject.open(folder, self.clock)
        self._handles = [self.store]
        self._calls = 0
        self._runner = asyncio.Runner() if inspect.iscoroutinefunction(self.store.get) else None

    def __exit__(self, *raised: object) -> None:
        for handle in self._handles:
            with suppress(Exception):  # it is the promise that is judged, not the tidying
                self.close(handle)
        if self._runner:
            self._runner.close()

    # ----- running flows

    def run(self, flow: Flow[T], store: AnyStore | None = None) -> T:
        """Drive a flow against the store, or another handle on it, in the store's colour."""
        store = store or self.store
        if self._runner:
            return self._runner.run(self._awaited(flow, store))
        return self._blocking(flow, store)

    def together(self, flows: Sequence[tuple[AnyStore, Flow[T]]]) -> list[T]:
        """Drive flows at the same time, each on its handle: in threads, or as tasks of one loop."""
        if self._runner:
            return self._runner.run(self._gathered(flows))
        start = threading.Barrier(len(flows))

        def one(store: AnyStore, flow: Flow[T]) -> T:
            start.wait()
            return self._blocking(flow, store)

        with ThreadPoolExecutor(len(flows)) as pool:
            return list(pool.map(one, *zip(*flows, strict=True)))

    async def _gathered(self, flows: Sequence[tuple[AnyStore, Flow[T]]]) -> list[T]:
        return await asyncio.gather(*(self._awaited(flow, store) for store, flow in flows))

    def _blocking(self, flow: Flow[T], store: AnyStore) -> T:
        clock = WallClock() if self._subject.own_clock else self.clock
        return run(flow, Ports(cast(Store, store), clock, self._count))

    async def _awaited(self, flow: Flow[T], store: AnyStore) -> T:
        clock = AsyncWallClock() if self._subject.own_clock else self.clock.awaited
        return await arun(flow, AsyncPorts(cast(AsyncStore, store), clock, self._count))

    def _count(self, event: Event) -> None:
        """Stop what a wrong store keeps going for ever, like a scan whose pages repeat."""
        self._calls += 1
        if self._calls > ENOUGH:
            raise AssertionError(f"{event.call} was asked again and again: this does not come to an end")

    # ----- handles

    def share(self) -> AnyStore:
        """Return the store, for callers that use it at the same time."""
        if not self._subject.shared:
            raise NotHere("this store belongs to one caller")
        return self.store

    def reopen(self) -> AnyStore:
        """Return another handle on the same entries."""
        if self._subject.reopen is None:
            raise NotHere("this store has one handle only")
        handle = self._subject.reopen(self._folder, self.clock)
        self._handles.append(handle)
        return handle

    def close(self, handle: AnyStore) -> None:
        """Close a handle."""
        closed = handle.close()
        if self._runner and closed is not None:
            self._runner.run(closed)

    # ----- time

    @property
    def max_skew(self) -> float:
        """How far apart the clocks are that the store must reckon with."""
        return self._subject.max_skew

    def near(self, moment: float) -> bool:
        """Say whether a moment is now by the store's clock, as exactly as that can be known from outside."""
        if self._subject.own_clock:
            return abs(moment - time.time()) < 60
        return abs(moment - self.clock()) < 2e-6

    def jump(self, seconds: float) -> None:
        """Set the store's clock forth or back."""
        if self._subject.own_clock:
            raise NotHere("this store's clock cannot be set")
        self.clock.jump(seconds)


# ----- promises

Promise = Callable[[Stage], Any]

PROMISES: list[Promise] = []
"""Every promise, in the order in which a reader meets them."""


def promise(told: Promise) -> Promise:
    """Make a function one of the promises; its name is the sentence."""
    PROMISES.append(told)
    return told


def hold(told: Promise, subject: Subject, folder: Path) -> None:
    """Try one promise on a new store; raise if it is broken, `NotHere` if it is not about this store."""
    with Stage(subject, folder) as stage:
        flow = told(stage)
        if inspect.iscoroutine(flow):
            stage.run(flow)
