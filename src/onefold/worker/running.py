"""A worker: runs any number of pipelines until it is told to stop, and stops cleanly.

On SIGTERM and SIGINT it reads and claims nothing more, lets running effects end within a grace time, gives
back what was not started, and says by its exit code how that went.
"""

from __future__ import annotations

import logging
import os
import signal
import socket
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

import anyio
import anyio.abc

from onefold.core.errors import Misconfigured, OnefoldError
from onefold.core.ports import AsyncStore
from onefold.core.terms import Duration, seconds
from onefold.drive import AsyncHeart, AsyncMerged, AsyncPorts, Tap, arun
from onefold.runtime import Runtime, current
from onefold.stores import aconnect
from onefold.stores.locate import announce, locate, refuse_empty, working_folder
from onefold.worker.acting import Acting
from onefold.worker.endpoints import pools
from onefold.worker.leaving import Leaving
from onefold.worker.leftover import Leftover, leftover
from onefold.worker.pipeline import Pipeline
from onefold.worker.purging import Purging
from onefold.worker.reading import Reader
from onefold.worker.recovery import Recovery
from onefold.worker.tally import Tally

log = logging.getLogger("onefold.worker")

FINE, FAILED, NEEDS_A_PERSON, INTERRUPTED = 0, 1, 3, 130

Beside = Callable[[AsyncPorts], Coroutine[Any, Any, None]]
"""Something that runs beside the pipelines for as long as they do, and is then cancelled."""


class Worker:
    """Runs pipelines. `run` blocks until a signal or the end of all sources; `arun` is the same, awaited."""

    tap: Tap | None = None
    """Called with every call on the store; set it before running."""

    leaving: Leaving | None = None
    """Keeps the promise of a signal to end in time; set it before running if the process is yours to end."""

    def __init__(
        self,
        pipelines: Sequence[Pipeline],
        *,
        store: str | AsyncStore | None = None,
        grace: Duration = "30s",
        name: str | None = None,
        once: bool = False,
        purge: bool = True,
        beside: Sequence[Beside] = (),
        runtime: Runtime | None = None,
    ) -> None:
        names = [pipeline.name for pipeline in pipelines]
        if not names:
            raise Misconfigured("a worker without pipelines has nothing to do: give it at least one")
        if len(set(names)) != len(names):
            raise Misconfigured(f"two pipelines have one name: {', '.join(sorted(names))}")
        self.pipelines = tuple(pipelines)
        self.runtime = runtime or current().another()
        """What everything in this worker waits, draws and connects by; a simulation gives another."""
        self.name = name or f"{socket.gethostname()}:{os.getpid()}"
        self.tallies = {one.name: Tally(one.sources) for one in pipelines}
        self.leftovers: dict[str, Leftover] = {}
        """What each pipeline left open in the store; counted when all sources have ended by themselves."""
        self.readers: list[Reader] = []
        self.once = once
        """Whether to end when every source was read to its present."""
        self.beside = [*(pool.attend for pool in pools(pipelines)), *beside]
        if purge and any(one.terms.keep is not None for one in pipelines):
            self.beside.append(Purging(self.name, self.tallies, self._is_stopping).attend)
        self._hurry: anyio.CancelScope | None = None
        if isinstance(store, str):
            refuse_empty(store, "the URL of the store")
        self._store = store
        self._folder = working_folder()  # now: a process may change it before it runs
        self._grace = seconds(grace, "grace")
        self._stop: anyio.Event | None = None
        self._asked = False
        self._signal: int | None = None

    def run(self) -> int:
        """Run until told to stop; return the exit code that tells how it went.

        What it counts is written to the store every few seconds, as `onefold run` does.
        """
        from onefold.worker.observing import Observation

        self.beside.append(Observation(self).attend)
        return anyio.run(self.arun, True)

    def stop(self) -> None:
        """Ask the worker to stop: nothing more is read or claimed. Before it runs, it stops as it begins."""
        self._asked = True
        if self._stop is not None:
            self._stop.set()

    @property
    def stopping(self) -> bool:
        return self._stop is not None and self._stop.is_set()

    @property
    def ready(self) -> bool:
        """Whether every source was read up to its present, and none is failing."""
        failing = any(tally.errors for tally in self.tallies.values())
        return bool(self.readers) and not failing and all(reader.caught_up for reader in self.readers)

    async def arun(self, signals: bool = False) -> int:
        """Run until told to stop."""
        self._stop = anyio.Event()
        if self._asked:
            self._stop.set()
        self._signal = None
        self.leftovers = {}
        async with self.runtime.running():
            merged = AsyncMerged(self._connected())
            ports = AsyncPorts(merged, tap=self.tap)
            try:
                await self._all(ports, signals)
            finally:
                self._asked = False
                with anyio.move_on_after(5, shield=True):
                    await self._close_ends()
                    await merged.close()
        return self._code()

    async def _close_ends(self) -> None:
        """Let sources and sinks go of their connections, which belong to this event loop."""
        for pipeline in self.pipelines:
            for end in (*pipeline.sources.values(), pipeline.sink, pipeline.undo):
                close = getattr(end, "aclose", None)
                if close is None:
                    continue
                try:
                    await close()
                except Exception as error:  # one that cannot be closed must not keep the others open
                    log.warning("%s: %s was not closed: %s", pipeline.name, type(end).__name__, error)

    def _connected(self) -> AsyncStore:
        if self._store is not None and not isinstance(self._store, str):
            return self._store
        located = locate(self._store, self._folder)
        announce(located)
        return aconnect(located.url)

    async def _all(self, ports: AsyncPorts, signals: bool) -> None:
        heart = AsyncHeart(lambda: ports)
        async with anyio.create_task_group() as beside:
            if signals:
                beside.start_soon(self._listen)
            for accompanies in self.beside:
                beside.start_soon(accompanies, ports)
            with anyio.CancelScope() as hurry:
                self._hurry = hurry
                beside.start_soon(self._bound, hurry)
                await self._pipelines(ports, heart)
            beside.cancel_scope.cancel()

    async def _pipelines(self, ports: AsyncPorts, heart: AsyncHeart) -> None:
        readings: list[anyio.CancelScope] = []
        self.readers = []
        stop = self._stop
        assert stop is not None
        recoveries: list[Recovery] = []
        async with anyio.create_task_group() as ending:
            ending.start_soon(self._end_reading, readings)
            async with anyio.create_task_group() as recovering:
                async with anyio.create_task_group() as reading:
                    for pipeline in self.pipelines:
                        tally = self.tallies[pipeline.name]
                        acting = Acting(pipeline, ports, heart, tally, self._is_stopping)
                        recoveries.append(Recovery(acting, ports, stop))
                        recovering.start_soon(recoveries[-1].run)
                        for name in pipeline.sources:
                            reader = Reader(acting, name, ports, self.name, self._is_stopping, self.once)
                            self.readers.append(reader)
                            readings.append(anyio.CancelScope())
                            reading.start_soon(reader.run, readings[-1])
                # Every source has ended, or we are stopping: what is due in entries is done before the end.
                for recovery in recoveries:
                    recovery.finish()
            if not self.stopping:
                await self._note_leftovers(ports)
            self.stop()

    async def _note_leftovers(self, ports: AsyncPorts) -> None:
        """Count what this run leaves open: cron looks at nothing but the exit code and the last line."""
        try:
            for pipeline in self.pipelines:
                self.leftovers[pipeline.name] = await arun(leftover(pipeline.name), ports)
        except OnefoldError as error:
            log.warning("what is parked or waits could not be counted: %s", error)

    def _is_stopping(self) -> bool:
        return self.stopping

    async def _end_reading(self, readings: Sequence[anyio.CancelScope]) -> None:
        assert self._stop is not None
        await self._stop.wait()
        for reading in readings:
            reading.cancel()

    async def _bound(self, hurry: anyio.CancelScope) -> None:
        """Give what is under way a grace time after the stop, and no more."""
        assert self._stop is not None
        await self._stop.wait()
        await current().sleep(self._grace)
        log.warning("still at work after %.0f s of grace: what is under way is cut off", self._grace)
        hurry.cancel()

    async def _listen(self) -> None:
        with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as received:
            async for number in received:
                name, again = signal.Signals(number).name, self._signal is not None
                log.info("%s: %s", name, "at once" if again else f"stopping within {self._grace:.0f} s")
                self._signal = int(number)
                if self.leaving:
                    self.leaving.promise(0.0 if again else self._grace, FAILED)
                self.stop()
                if again and self._hurry:
                    self._hurry.cancel()

    def _code(self) -> int:
        in_doubt = any(tally.total("in-doubt") for tally in self.tallies.values())
        if in_doubt or any(left.parked for left in self.leftovers.values()):
            return NEEDS_A_PERSON
        if self.once and any(tally.errors for tally in self.tallies.values()):
            return FAILED
        return INTERRUPTED if self._signal == signal.SIGINT else FINE
