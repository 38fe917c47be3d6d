"""What makes two runs of a virtual loop alike: hashes by creation, counted garbage collection, drawn numbers.

asyncio, anyio and websockets keep tasks, futures, scopes and connections in sets, and cancel or wake them in
the order of the set. That order follows the hashes, which by default are memory addresses, so it depends on
everything the process did before. While an ordered loop runs, hashes are creation numbers. Equality stays
identity, so every set holds what it held before. The process is put back afterwards.

Three things stay the program's own business: sets of strings, which follow PYTHONHASHSEED, sets of its own
objects that are hashed by address, and futures that it makes with `asyncio.Future()` instead of by the loop.
"""

from __future__ import annotations

import asyncio
import gc
import heapq
import math
import os
import random
import selectors
import sys
import threading
import time
import weakref
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from contextvars import Context
from typing import Any

import anyio._backends._asyncio as backend

__all__ = ["OrderedLoop"]

INHERITED = object()
"""Stands for an attribute that a class does not define itself."""


class OrderedLoop(asyncio.SelectorEventLoop):
    """An event loop that numbers what it makes; with a seed, it also draws the process's random numbers."""

    def __init__(self, selector: selectors.BaseSelector, seed: int | str | None) -> None:
        super().__init__(selector)
        self.entropy = None if seed is None else random.Random(f"entropy {seed}")
        """Where `os.urandom` draws from while this loop runs."""
        self._shared: Any = None if seed is None else random.Random(f"shared {seed}").getstate()
        self._numbers = 0
        self._depth = 0
        self._asyncgens: Any = _InOrder()
        self._timers: list[tuple[float, int, asyncio.TimerHandle]] = []
        """A heap. Timers for the same moment fire in the order in which they were set; asyncio leaves that to
        its heap. In real time, two timers are never set at the same moment, so programs expect this order."""

    def number(self) -> int:
        """Return the next creation number of this loop."""
        self._numbers += 1
        return self._numbers

    def create_future(self) -> asyncio.Future[Any]:
        return _Future(loop=self)

    def create_task(  # type: ignore[override]
        self, coro: Coroutine[Any, Any, Any], *, name: str | None = None, **options: Any
    ) -> asyncio.Task[Any]:
        if self.get_task_factory() is not None:
            return super().create_task(coro, name=name, **options)
        if self.is_closed():
            coro.close()
            raise RuntimeError("Event loop is closed")
        number = self.number()
        # asyncio's own names count all tasks of the process, so they would depend on earlier runs.
        return _Task(coro, number, loop=self, name=name or f"Task-{number}", **options)

    def call_at(  # type: ignore[override]
        self, when: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        if self.is_closed():
            raise RuntimeError("Event loop is closed")
        timer = asyncio.TimerHandle(when, callback, args, self, context)
        heapq.heappush(self._timers, (when, self.number(), timer))
        return timer

    def pending(self) -> list[asyncio.Task[Any]]:
        """List the unfinished tasks in the order in which they were created."""
        return sorted(_all_tasks(self), key=hash)

    def run_forever(self) -> None:
        with self.steady():
            super().run_forever()

    @contextmanager
    def steady(self) -> Iterator[None]:
        """Hold everything still that would make two runs differ; may be entered again within."""
        if self._depth:
            yield
            return
        self._depth += 1
        outside = random.getstate()
        STILL.enter()
        try:
            if self._shared is not None:
                random.setstate(self._shared)
            yield
        finally:
            if self._shared is not None:
                self._shared = random.getstate()
                random.setstate(outside)
            STILL.leave()
            self._depth -= 1


class _Task(asyncio.Task[Any]):
    """A task whose hash is its creation number."""

    def __init__(self, coro: Coroutine[Any, Any, Any], number: int, **options: Any) -> None:
        self._number = number  # first, because asyncio puts a new task into a set
        super().__init__(coro, **options)

    def __hash__(self) -> int:
        return self._number


class _Future(asyncio.Future[Any]):
    """A future whose hash is its creation number."""

    def __init__(self, *, loop: OrderedLoop) -> None:
        self._number = loop.number()
        super().__init__(loop=loop)

    def __hash__(self) -> int:
        return self._number


class _Scope(backend.CancelScope):
    """A cancel scope of anyio whose hash is its creation number.

    The number needs a slot, so this class takes the place of anyio's; a new `__hash__` alone would not do.
    """

    __slots__ = ("_number",)

    def __init__(self, deadline: float = math.inf, shield: bool = False) -> None:
        self._number = _next_number(self)
        super().__init__(deadline, shield)

    def __hash__(self) -> int:
        return self._number


class _Event(backend.Event):
    """An event of anyio whose hash is its creation number; memory streams keep events in sets."""

    __slots__ = ("_number",)

    def __init__(self) -> None:
        self._number = _next_number(self)
        super().__init__()

    def __hash__(self) -> int:
        return self._number


def _running() -> OrderedLoop | None:
    loop = asyncio._get_running_loop()
    return loop if isinstance(loop, OrderedLoop) else None


def _next_number(thing: object) -> int:
    """Number an object on an ordered loop; elsewhere, as in another thread, it keeps the hash it had."""
    loop = asyncio._get_running_loop()
    return loop.number() if isinstance(loop, OrderedLoop) else object.__hash__(thing)


def _numbered(thing: Any) -> int:
    """Hash an object by a number that it gets when it is hashed for the first time."""
    found: int | None = getattr(thing, "_number_on_loop", None)
    if found is None:
        found = thing._number_on_loop = _next_number(thing)
    return found


class _InOrder:
    """The async generators of a loop in the order in which they were started; asyncio has a WeakSet here."""

    def __init__(self) -> None:
        self._found: dict[int, weakref.ref[Any]] = {}

    def add(self, generator: Any) -> None:
        key = id(generator)
        self._found[key] = weakref.ref(generator, lambda _: self._found.pop(key, None))

    def discard(self, generator: Any) -> None:
        self._found.pop(id(generator), None)

    def clear(self) -> None:
        self._found.clear()

    def __len__(self) -> int:
        return len(self._found)

    def __iter__(self) -> Iterator[Any]:
        return iter([one for found in list(self._found.values()) if (one := found()) is not None])


class _Time:
    """The module `time` as httpcore sees it: on an ordered loop, idle connections expire by the loop's time.

    By the real clock, a slow machine would open more connections than a fast one.
    """

    def __getattr__(self, name: str) -> Any:
        return getattr(time, name)

    def monotonic(self) -> float:
        loop = _running()
        return time.monotonic() if loop is None else loop.time()


_all_tasks = asyncio.all_tasks
_urandom = os.urandom


def _tasks_in_order(loop: asyncio.AbstractEventLoop | None = None) -> set[asyncio.Task[Any]]:
    """Return `asyncio.all_tasks`, filled in order: where hashes collide, the order of a set depends on it."""
    found = _all_tasks(loop)
    if not isinstance(loop or _running(), OrderedLoop):
        return found
    ordered: set[asyncio.Task[Any]] = set()
    ordered.update(sorted(found, key=hash))
    return ordered


def _drawn_bytes(size: int) -> bytes:
    """Return `os.urandom`, drawn from the seed of the running loop if it has one."""
    loop = _running()
    return _urandom(size) if loop is None or loop.entropy is None else loop.entropy.randbytes(size)


class _Still:
    """The changes in the process while ordered loops run: made with the first loop, undone with the last.

    Each change looks at the loop of the calling thread, so other threads only notice that no garbage is
    collected. The collector is off because it would end abandoned generators, and so wake tasks, at moments
    that depend on what else the process has allocated. The loop collects garbage at counted turns instead.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._runs = 0
        self._collecting = False
        self._before: list[tuple[Any, str, Any]] = []

    def enter(self) -> None:
        with self._lock:
            self._runs += 1
            if self._runs > 1:
                return
            self._collecting = gc.isenabled()
            gc.disable()
            self._change(backend, "CancelScope", _Scope)
            self._change(backend, "Event", _Event)
            for owner in (asyncio, asyncio.tasks, backend):
                self._change(owner, "all_tasks", _tasks_in_order)
            self._change(asyncio.tasks._GatheringFuture, "__hash__", _numbered)  # type: ignore[attr-defined]
            self._change(os, "urandom", _drawn_bytes)
            self._change(random, "_urandom", _drawn_bytes)  # what `secrets` asks
        self.reach_clients()

    def reach_clients(self) -> None:
        """Change the clients that are imported by now; they may be imported after the loop has started."""
        with self._lock:
            for name in ("httpcore2._async.http11", "httpcore2._async.http2"):
                if module := sys.modules.get(name):
                    self._change(module, "time", _Time())
            if module := sys.modules.get("websockets.asyncio.connection"):
                self._change(module.Connection, "__hash__", _numbered)

    def leave(self) -> None:
        with self._lock:
            self._runs -= 1
            if self._runs:
                return
            while self._before:
                owner, name, value = self._before.pop()
                if value is INHERITED:
                    delattr(owner, name)
                else:
                    setattr(owner, name, value)
            if self._collecting:
                gc.enable()

    def _change(self, owner: Any, name: str, value: Any) -> None:
        if not any(known is owner and known_name == name for known, known_name, _ in self._before):
            self._before.append((owner, name, vars(owner).get(name, INHERITED)))
            setattr(owner, name, value)


STILL = _Still()
