"""An event loop with its own time and its own network, on which equal seeds give equal histories.

Time passes only when every task waits, so an hour of waiting costs nothing. Connections go through memory,
with faults if they are wanted (`onefold.testing.network`). The order of events follows from the program and
the seed alone (`onefold.testing.order`). This module simulates neither threads nor processes nor the wall
clock.
"""

from __future__ import annotations

import asyncio
import gc
import heapq
import selectors
import socket
from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from random import Random
from typing import Any, NoReturn, TypeVar

from onefold.testing import tls
from onefold.testing.network import Network, address_info, refuse_sockets
from onefold.testing.order import STILL, OrderedLoop

__all__ = ["VirtualClock", "VirtualLoop"]

T = TypeVar("T")

COLLECT_EVERY = 100_000
"""Turns of a loop between two collections of garbage."""
TIDY_EVERY = 256
"""Turns of a loop between two times at which it drops cancelled timers and looks for other threads."""
ROUNDS = 10
"""How often the tasks that were left behind are cancelled, if their ends start new ones."""
SHOWN = 20
"""How many tasks an error names."""


class VirtualLoop(OrderedLoop):
    """Runs tasks in its own time, which starts at 0, and on its own network (`loop.network`).

    Clients and servers need no change: asyncio streams, httpx2 and websockets reach every server on the same
    loop, under any host name, in plain or by TLS. Threads, subprocesses and real sockets are not simulated.

    The order of everything follows from the program and the `seed`. With a seed, the shared `random` module,
    `os.urandom`, `secrets` and `uuid4` draw from it as well while the loop runs; without one they are left
    alone, and the network draws from a fixed seed. Loops that belong to one history need different seeds, or
    they draw the same tokens. The bytes of TLS are never drawn from a seed (`onefold.testing.tls`).

    A loop that makes more than `turns` turns without time passing is stopped with an error.
    """

    def __init__(self, seed: int | str | None = None, *, turns: int = 1_000_000) -> None:
        super().__init__(selectors.SelectSelector(), seed)
        self._now = 0.0
        self._turns = 0
        self._turns_now = 0
        """Turns since time passed."""
        self._allowed = turns
        self.network = Network(self, Random(f"network {seed}"))

    # ----- time and life

    def time(self) -> float:
        return self._now

    def run(self, main: Awaitable[T]) -> T:
        """Run something to its end, cancel what it left behind, and close the loop."""
        try:
            return self.live(main)
        finally:
            self.close()

    def live(self, life: Awaitable[T]) -> T:
        """Run something to its end and cancel what it left behind; the loop stays usable."""
        with self.steady():
            try:
                return self.run_until_complete(life)
            finally:
                self._bury()

    async def settled(self) -> None:
        """Wait until nothing else is left to do at this moment, while no time passes; for one task only."""
        while self._is_busy():  # noqa: ASYNC110  (an event would be one more thing to do)
            await asyncio.sleep(0)

    def _is_busy(self) -> bool:
        return bool(self._ready) or bool(self._timers and self._timers[0][0] <= self._now)  # type: ignore[attr-defined]

    def run_forever(self) -> None:
        self._turns_now = 0
        super().run_forever()

    def close(self) -> None:
        if not self.is_closed():
            self.network.close()
            self._timers.clear()
        super().close()

    # ----- turns

    def _run_once(self) -> None:
        """Run everything that is ready; if nothing is, let time pass until the next timer.

        The turn of asyncio asks the system and compares timers in Python. Both cost more than most callbacks.
        """
        ready, timers = self._ready, self._timers  # type: ignore[attr-defined]
        self._turns += 1
        if self._turns % COLLECT_EVERY == 0:
            # The collector is off while the loop runs; a turn has the same number in every run.
            gc.collect()
        if self._turns % TIDY_EVERY == 0:
            self._tidy_up()
        while timers and timers[0][2].cancelled():
            heapq.heappop(timers)
        if not (ready or timers or self._stopping or self._empty_pipe()):  # type: ignore[attr-defined]
            self._everybody_waits()
        if ready or self._stopping or timers[0][0] <= self._now:  # type: ignore[attr-defined]
            self._turns_now += 1
            if self._turns_now > self._allowed:
                self._nobody_waits()
        else:
            self._now = timers[0][0]
            self._turns_now = 0
        while timers and timers[0][0] <= self._now:
            ready.append(heapq.heappop(timers)[2])
        for _ in range(len(ready)):
            handle = ready.popleft()
            if not handle._cancelled:
                handle._run()

    def _tidy_up(self) -> None:
        # What another thread schedules is ready already; the pipe only has to be emptied now and then.
        self._empty_pipe()
        # Most timers limit a wait that ends earlier, so they are cancelled long before their moment.
        self._timers[:] = [one for one in self._timers if not one[2].cancelled()]
        heapq.heapify(self._timers)

    def _empty_pipe(self) -> bool:
        """Take note of wake-ups by other threads; say whether there were any."""
        events = self._selector.select(0)  # type: ignore[attr-defined]
        self._process_events(events)  # type: ignore[attr-defined]
        return bool(events)

    def _everybody_waits(self) -> NoReturn:
        waiting = _named(self.pending())
        raise RuntimeError(f"everybody waits for ever: nothing is scheduled any more; waiting: {waiting}")

    def _nobody_waits(self) -> NoReturn:
        ready = self._ready  # type: ignore[attr-defined]
        owners = [getattr(handle._callback, "__self__", handle._callback) for handle in ready]
        raise RuntimeError(
            f"more than {self._allowed} turns of the loop at {self._now} s, and no time passes; "
            f"running: {_named(owners)}"
        )

    def _bury(self) -> None:
        for _ in range(ROUNDS):
            left = self.pending()
            if not left:
                break
            for task in left:
                task.cancel()
            self.run_until_complete(asyncio.gather(*left, return_exceptions=True))
        else:
            raise RuntimeError(f"tasks start new ones when they are cancelled: {_named(self.pending())}")
        self.run_until_complete(self.shutdown_asyncgens())
        self._asyncgens_shutdown_called = False  # or the generators of a later life would be warned about

    # ----- the network

    async def getaddrinfo(self, host: Any, port: Any, *, flags: int = 0, **options: Any) -> Any:
        return [address_info(self.network, host, port, bool(flags & socket.AI_PASSIVE))]

    async def getnameinfo(self, sockaddr: Any, flags: int = 0) -> Any:
        host, port = sockaddr[:2]
        known = (name for name, place in self.network.names.items() if place == host)
        return next(known, host), str(port)

    async def create_connection(
        self,
        protocol_factory: Callable[[], Any],
        host: str | None = None,
        port: int | None = None,
        *,
        ssl: Any = None,
        sock: Any = None,
        local_addr: Any = None,
        server_hostname: str | None = None,
        **options: Any,
    ) -> tuple[Any, Any]:
        refuse_sockets(sock)
        if host is None and port is None:
            raise ValueError("host and port was not specified and no sock specified")
        STILL.reach_clients()
        connect = partial(
            self.network.connect, host=host or "localhost", port=int(port or 0), local=local_addr
        )
        if not ssl:
            return await connect(protocol_factory)
        name = host if server_hostname is None else server_hostname
        return await tls.connect(
            self, connect, protocol_factory, ssl, server_hostname=name, **_timeouts(options)
        )

    async def create_server(  # type: ignore[override]
        self,
        protocol_factory: Callable[[], Any],
        host: str | Iterable[str] | None = None,
        port: int | None = None,
        *,
        ssl: Any = None,
        sock: Any = None,
        start_serving: bool = True,
        **options: Any,
    ) -> asyncio.AbstractServer:
        refuse_sockets(sock)
        if isinstance(ssl, bool):
            raise TypeError("ssl argument must be an SSLContext or None")
        STILL.reach_clients()
        if ssl:
            protocol_factory = tls.encrypting(
                self, protocol_factory, ssl, server_side=True, **_timeouts(options)
            )
        server = self.network.bind(protocol_factory, host, int(port or 0))
        if start_serving:
            await server.start_serving()
        return server

    def silent_fileno(self) -> int:
        """Return a descriptor that can be polled and is never readable: the sending side of the self-pipe."""
        return self._csock.fileno()  # type: ignore[attr-defined,no-any-return]


def _timeouts(options: dict[str, Any]) -> dict[str, Any]:
    """Pick those options of a connection or a server that TLS has to keep to."""
    return {name: options.get(name) for name in ("ssl_handshake_timeout", "ssl_shutdown_timeout")}


def _missing(name: str) -> Callable[..., NoReturn]:
    def missing(self: VirtualLoop, *args: object, **options: object) -> NoReturn:
        raise NotImplementedError(
            f"a virtual loop has no {name}: its network is memory, without real sockets"
        )

    return missing


for _name in (
    "add_reader", "add_writer", "connect_accepted_socket", "create_datagram_endpoint",
    "create_unix_connection", "create_unix_server", "sendfile", "sock_accept", "sock_connect", "sock_recv",
    "sock_recv_into", "sock_recvfrom", "sock_recvfrom_into", "sock_sendall", "sock_sendfile", "sock_sendto",
):  # fmt: skip
    setattr(VirtualLoop, _name, _missing(_name))


class VirtualClock:
    """The clock of a process on a virtual loop, awaited; it starts wherever the loop's does."""

    def __init__(self, loop: VirtualLoop) -> None:
        self._loop = loop

    async def monotonic(self) -> float:
        return self._loop.time()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


def _named(things: Iterable[Any]) -> str:
    names = [one.get_name() if isinstance(one, asyncio.Task) else repr(one) for one in things]
    shown = ", ".join(names[:SHOWN])
    return f"{shown} and {len(names) - SHOWN} more" if len(names) > SHOWN else shown or "nothing"
