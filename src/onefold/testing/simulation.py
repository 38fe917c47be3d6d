"""Runs pipelines on virtual time, on a network in memory, from a test that is a plain function.

    with Simulation(seed=1) as simulation:
        simulation.serve(answer, "orders.example.com", 80)
        worker = simulation.start(pipeline)
        simulation.run("1h")

It puts the loop, the runtimes, the store and the workers together, and decides nothing about them. Errors of
workers and of stand-ins leave it through the call that lets time pass; it hides none.
"""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import ExitStack
from ssl import SSLContext
from types import TracebackType
from typing import Any, Self, TypeVar

from onefold.core.entry import Change, Reply, Seen, State
from onefold.core.errors import Misconfigured
from onefold.core.flow import Found
from onefold.core.key import Key
from onefold.core.ports import Store
from onefold.core.terms import Duration, Seconds, seconds
from onefold.runtime import using
from onefold.stores.memory import MemoryStore
from onefold.testing.runtime import VirtualRuntime
from onefold.testing.virtual import VirtualLoop
from onefold.worker import Pipeline, Worker

__all__ = ["Simulation"]

T = TypeVar("T")
Serves = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]

_READ: dict[int, tuple[weakref.ref[Any], weakref.ref[Simulation]]] = {}
"""The simulation in which each source was read, by the id of the source."""


class Simulation:
    """Any number of workers on one store, one network and one clock; equal seeds give equal histories.

    Use it as a context manager, in a function that is not `async`. Inside of the block
    `onefold.runtime.now()` is the virtual time of day. Time passes only in `run` and `stop`. Workers that
    still run at the end of the block are killed; the store can be looked at afterwards.
    """

    def __init__(self, seed: int | str = 0, *, store: Store | None = None) -> None:
        _refuse_inside_a_loop()
        self.loop = VirtualLoop(seed)
        """The event loop, for whatever else belongs to the test: `simulation.loop.run_until_complete(…)`."""
        self.network = self.loop.network
        """What connects everything; `cut`, `stall`, `refuse` and the like make it misbehave."""
        self._runtime = VirtualRuntime(self.loop, seed)
        self.store: Store = MemoryStore(self._runtime.time) if store is None else store
        """The ledger of all workers; `Ledger(simulation.store)` lists its entries."""
        self._seed = seed
        self._started = 0
        self._workers: dict[Worker, asyncio.Task[int]] = {}
        self._broken: asyncio.Future[None] = self.loop.create_future()
        self._entered: ExitStack | None = None

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            stack.callback(self.loop.close)
            _refuse_inside_a_loop()
            # For the whole block, so that the test's own code between two steps cannot make runs differ.
            stack.enter_context(self.loop.steady())
            stack.enter_context(using(self._runtime))
            self._entered = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._entered is not None
        with self._entered:
            for worker in list(self._workers):
                self.kill(worker)
            self.loop.live(asyncio.sleep(0))
        unheard = self._broken.exception() if self._broken.done() else None
        if unheard is not None and error is None:
            raise unheard

    # ----- what happens

    def serve(self, handler: Serves, host: str, port: int = 80, *, ssl: SSLContext | None = None) -> None:
        """Start a stand-in for a service: a handler of connections, as `asyncio.start_server` takes it.

        With a context, the stand-in speaks TLS. The connection is closed when the handler returns. A client
        that is gone is not an error.
        """

        async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            try:
                with using(self._runtime):  # not the one of the worker that happens to connect
                    await handler(reader, writer)
            except (ConnectionError, EOFError):
                pass
            except Exception as error:
                self._fail(error)
            finally:
                writer.close()

        self._complete(lambda: asyncio.start_server(handle, host, port, ssl=ssl))

    def start(self, *pipelines: Pipeline, once: bool = False) -> Worker:
        """Start a worker; with `once` it ends when every source was read to its present."""
        self._refuse_outside_the_block()
        self._refuse_memories(pipelines)
        self._started += 1
        name = f"worker {self._started}"
        life = _Life(self.loop, f"{self._seed} {name}")
        worker = Worker(pipelines, store=_View(life, self.store), name=name, once=once, runtime=life)
        task = self.loop.create_task(worker.arun(), name=name)
        task.add_done_callback(lambda ended: self._ended(ended, life))
        self._workers[worker] = task
        return worker

    def run(self, duration: Duration) -> None:
        """Let time pass: seconds, or text like "90s", "15m", "8d"; raise the first error meanwhile."""
        length = seconds(duration, "the time to run")
        self._complete(lambda: asyncio.sleep(length))

    def stop(self, worker: Worker) -> int:
        """Stop a worker as SIGTERM does, and return its exit code; one that has ended returns its code."""
        task = self._task(worker)
        worker.stop()
        self._complete(lambda: asyncio.wait([task]))
        return task.result()

    def kill(self, worker: Worker) -> None:
        """End a worker as SIGKILL or a power failure does: nothing of it reaches store or network any more.

        What it had claimed stays claimed until the lease is over. Its tasks are cancelled, because Python
        has no other way to end them: clean-up code in `finally` runs, but reaches nothing outside.
        """
        task = self._task(worker)
        del self._workers[worker]
        life = worker.runtime
        assert isinstance(life, _Life)
        life.is_dead = True
        self.network.abandon(life)
        task.cancel()

    # ----- errors

    def _task(self, worker: Worker) -> asyncio.Task[int]:
        if worker not in self._workers:
            raise ValueError(f"{worker.name} was killed already, or this simulation did not start it")
        return self._workers[worker]

    def _ended(self, task: asyncio.Task[int], life: _Life) -> None:
        error = None if task.cancelled() else task.exception()
        if error is not None and not life.is_dead:
            self._fail(error)

    def _fail(self, error: BaseException) -> None:
        """Let the call that lets time pass raise this; the first error explains those after it."""
        if not self._broken.done():
            self._broken.set_exception(error)

    def _complete(self, begin: Callable[[], Coroutine[Any, Any, object]]) -> None:
        """Let time pass until something is complete, or until something breaks."""
        self._refuse_outside_the_block()
        _refuse_inside_a_loop()
        self.loop.run_until_complete(self._unless_broken(begin()))

    async def _unless_broken(self, doing: Coroutine[Any, Any, object]) -> None:
        task = self.loop.create_task(doing)
        await asyncio.wait((task, self._broken), return_when=asyncio.FIRST_COMPLETED)
        await self.loop.settled()  # whatever is due at the last moment still happens
        if self._broken.done():
            task.cancel()
            broken, self._broken = self._broken, self.loop.create_future()
            broken.result()
        await task

    def _refuse_outside_the_block(self) -> None:
        if self._entered is None or self.loop.is_closed():
            raise RuntimeError("a simulation runs inside of its block: with Simulation(seed=1) as simulation")

    def _refuse_memories(self, pipelines: Sequence[Pipeline]) -> None:
        """Refuse sources that another simulation read: they remember its clock, and what they saw there."""
        for pipeline in pipelines:
            for name, source in pipeline.sources.items():
                try:
                    mark = weakref.ref(source), weakref.ref(self)
                except TypeError:  # the caller's own class, which forbids it
                    continue
                known, simulation = _READ.get(id(source), (None, None))
                if known and simulation and known() is source and simulation() is not self:
                    raise Misconfigured(
                        f"source {name} of pipeline {pipeline.name} was read in another simulation, and "
                        "remembers it: make the pipeline again for each simulation, in a function or by "
                        "importlib.reload(module)"
                    )
                _READ[id(source)] = mark


def _refuse_inside_a_loop() -> None:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    raise RuntimeError(
        "a simulation runs an event loop of its own, but another one is running here: "
        "use it in a plain function (def test_…, not async def)"
    )


class _Life(VirtualRuntime):
    """The runtime of one worker. After its death no blocking call is made for it, not even on the store."""

    is_dead = False

    async def blocking(self, function: Callable[..., T], *args: Any, linger: Seconds = 0.0) -> T:
        await asyncio.sleep(0)
        await self._alive()
        result = function(*args)
        await asyncio.sleep(0)
        await self._alive()
        return result

    async def _alive(self) -> None:
        if self.is_dead:
            await asyncio.get_running_loop().create_future()


class _View:
    """The store as one worker sees it. It outlives the workers, so none of them closes it."""

    def __init__(self, life: _Life, store: Store) -> None:
        self._life = life
        self._store = store

    async def get(self, keys: Sequence[Key]) -> Sequence[Seen]:
        return await self._life.blocking(self._store.get, keys)

    async def swap(self, changes: Sequence[Change]) -> Sequence[Reply]:
        return await self._life.blocking(self._store.swap, changes)

    async def scan(
        self, scope: str | None, states: Sequence[State], due: bool, after: str | None, limit: int
    ) -> tuple[Sequence[Found], str | None]:
        return await self._life.blocking(self._store.scan, scope, states, due, after, limit)

    async def close(self) -> None:
        pass
