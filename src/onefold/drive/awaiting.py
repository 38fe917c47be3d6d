"""Blocking stores, for awaiting: in threads of a pool, in one thread, or directly where they never block.

They hand calls on and add nothing: no retry, no queue, no decision.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, TypeVar
from weakref import WeakKeyDictionary

from onefold.core.entry import Change, Reply, Seen, State
from onefold.core.flow import Found
from onefold.core.key import Key
from onefold.core.ports import Store
from onefold.runtime import current
from onefold.runtime.process import PROCESS

if TYPE_CHECKING:
    import asyncio

    import anyio

T = TypeVar("T")

THREADS = 40
"""How many calls of a store run at the same time, for each event loop."""

Job = tuple["asyncio.AbstractEventLoop", "asyncio.Future[Any]", Callable[..., Any], tuple[Any, ...]]
"""Where the answer goes, and what to call."""


class Threaded:
    """A blocking store for awaiting: calls run in threads, to their end, even if the caller is cancelled."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self._limits: WeakKeyDictionary[asyncio.AbstractEventLoop, anyio.CapacityLimiter] = (
            WeakKeyDictionary()
        )

    async def get(self, keys: Sequence[Key]) -> Sequence[Seen]:
        return await self._in_thread(self.store.get, keys)

    async def swap(self, changes: Sequence[Change]) -> Sequence[Reply]:
        return await self._in_thread(self.store.swap, changes)

    async def scan(
        self, scope: str | None, states: Sequence[State], due: bool, after: str | None, limit: int
    ) -> tuple[Sequence[Found], str | None]:
        return await self._in_thread(self.store.scan, scope, states, due, after, limit)

    async def close(self) -> None:
        await self._in_thread(self.store.close)

    async def _in_thread(self, function: Callable[..., T], *args: Any) -> T:
        import anyio.to_thread

        runtime = current()
        if runtime.inline:
            return await runtime.blocking(function, *args)
        return await anyio.to_thread.run_sync(function, *args, limiter=self._limiter())

    def _limiter(self) -> anyio.CapacityLimiter:
        """Return this store's own limit of threads on the running loop.

        anyio's default limit is shared with everything in the program that blocks in threads. When effects
        took all of it, heartbeats waited for the very effects whose leases they had to renew.
        """
        import asyncio

        import anyio

        loop = asyncio.get_running_loop()
        limiter = self._limits.get(loop)
        if limiter is None:
            limiter = self._limits[loop] = anyio.CapacityLimiter(THREADS)
        return limiter


class Inline:
    """A store that never blocks for long, for awaiting: memory, or the caller's own connection."""

    def __init__(self, store: Store) -> None:
        self.store = store

    async def get(self, keys: Sequence[Key]) -> Sequence[Seen]:
        return self.store.get(keys)

    async def swap(self, changes: Sequence[Change]) -> Sequence[Reply]:
        return self.store.swap(changes)

    async def scan(
        self, scope: str | None, states: Sequence[State], due: bool, after: str | None, limit: int
    ) -> tuple[Sequence[Found], str | None]:
        return self.store.scan(scope, states, due, after, limit)

    async def close(self) -> None:
        self.store.close()


class OneThread:
    """A blocking store that does one thing at a time, for awaiting: all calls run in one thread of its own.

    Handing work to this thread costs about a third less than to a pool. Calls run to their end, even if
    the caller is cancelled. The thread starts with the first call and ends with `close`, or with the object.
    """

    def __init__(self, store: Store) -> None:
        self.store = store
        self._process = -1
        self._starting = _Guard()
        self._jobs: SimpleQueue[Job | None]
        self._end_thread: Callable[[], object]

    async def get(self, keys: Sequence[Key]) -> Sequence[Seen]:
        return await self._in_its_thread(self.store.get, keys)

    async def swap(self, changes: Sequence[Change]) -> Sequence[Reply]:
        return await self._in_its_thread(self.store.swap, changes)

    async def scan(
        self, scope: str | None, states: Sequence[State], due: bool, after: str | None, limit: int
    ) -> tuple[Sequence[Found], str | None]:
        return await self._in_its_thread(self.store.scan, scope, states, due, after, limit)

    async def close(self) -> None:
        await self._in_its_thread(self.store.close)
        if current().inline:
            return
        with self._starting.lock():
            self._process = -1
            self._end_thread()

    async def _in_its_thread(self, function: Callable[..., T], *args: Any) -> T:
        import asyncio

        runtime = current()
        if runtime.inline:
            return await runtime.blocking(function, *args)
        loop = asyncio.get_running_loop()
        done: asyncio.Future[T] = loop.create_future()
        with self._starting.lock():  # of another loop, which may be closing the store: no job after the end
            if self._process != PROCESS.number:
                self._start_thread()
            self._jobs.put((loop, done, function, args))
        try:
            return await asyncio.shield(done)
        except asyncio.CancelledError:
            await _finish(done)
            raise

    def _start_thread(self) -> None:
        # A forked child has none of its parent's threads, and nobody answers its queue there.
        self._jobs = SimpleQueue()
        self._process = PROCESS.number
        thread = threading.Thread(target=_work, args=(self._jobs,), name="onefold-store", daemon=True)
        thread.start()
        self._end_thread = weakref.finalize(self, self._jobs.put, None)


class _Guard:
    """A lock that is new in a forked child, where nobody may be left to release the old one."""

    def __init__(self) -> None:
        self._process = PROCESS.number
        self._lock = threading.Lock()

    def lock(self) -> threading.Lock:
        if self._process != PROCESS.number:
            self._lock, self._process = threading.Lock(), PROCESS.number
        return self._lock


async def _finish(done: asyncio.Future[Any]) -> None:
    """Wait for a call whose caller was cancelled: its thread cannot be interrupted.

    A caller that went on meanwhile would not see what the call writes.
    """
    import asyncio

    import anyio

    with anyio.CancelScope(shield=True):
        while not done.done():
            with suppress(asyncio.CancelledError):
                await asyncio.wait([done])
    done.exception()  # read it, or asyncio reports that nobody did


def _work(jobs: SimpleQueue[Job | None]) -> None:
    while (job := jobs.get()) is not None:
        loop, done, function, args = job
        try:
            answer = partial(done.set_result, function(*args))
        except BaseException as error:
            answer = partial(done.set_exception, error)
        with suppress(RuntimeError):  # the loop is closed, and nobody waits any more
            loop.call_soon_threadsafe(answer)
        del job, done, function, args, answer  # keep nothing alive while waiting for the next job
