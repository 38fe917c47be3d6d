"""One connection on the virtual network: two transports, and the bytes that travel between them in memory.

A transport keeps asyncio's promises: flow control, half-closing, errors only through the protocol. What goes
wrong on the way is decided by the network; this module carries it out.
"""

from __future__ import annotations

import asyncio
import errno
import socket
from asyncio.protocols import _feed_data_to_buffered_proto as feed_buffer  # type: ignore[attr-defined]
from collections import deque
from typing import TYPE_CHECKING, Any

from onefold.testing import tls

if TYPE_CHECKING:
    from onefold.testing.network import Network, Server
    from onefold.testing.virtual import VirtualLoop

__all__ = ["Address", "End", "Socket", "Wire", "reset_by_peer"]

Address = tuple[str, int]

WINDOW = 64 * 1024
"""How many bytes one direction carries before the receiver has read some: the buffers of two kernels."""
HIGH_WATER = 64 * 1024
"""How many bytes more may wait at the sender before its protocol is asked to pause."""


def reset_by_peer() -> ConnectionResetError:
    return ConnectionResetError(errno.ECONNRESET, "Connection reset by peer")


class Wire:
    """One connection: two ends, and what the network does to the bytes between them."""

    def __init__(
        self, network: Network, loop: VirtualLoop, address: Address, client: Address, latency: float
    ) -> None:
        self.address = address
        self.latency = latency
        self.owner: object = None
        """The runtime of the worker that opened it."""
        self.vanishes = False
        self.client = End(loop, self, client, address)
        self.server = End(loop, self, address, client)
        self.client.peer, self.server.peer = self.server, self.client
        self._network = network
        self._loop = loop
        self._held = 0.0
        self._planned: asyncio.TimerHandle | None = None

    def plan(self, fault: str, after: float, seconds: float) -> None:
        self._planned = self._loop.call_later(after, self._suffer, fault, seconds)

    def _suffer(self, fault: str, seconds: float) -> None:
        if fault == "cut":
            self.cut()
        elif fault == "half-open":
            self.vanishes = True
        else:
            self._held = self._loop.time() + seconds

    def held_until(self) -> float:
        return max(self._held, self._network.held_until(self.address))

    def heal(self) -> None:
        self._held = 0.0
        for end in (self.client, self.server):
            end.arrive()

    def cut(self) -> None:
        self.client.reset()
        self.server.reset()

    def drop(self) -> None:
        if self._planned is not None:
            self._planned.cancel()
        for end in (self.client, self.server):
            end.drop()
            tls.silence(end.get_protocol())

    def ended(self) -> None:
        """One end is closed and its protocol knows; forget the connection if the other one is closed, too."""
        if self.client.is_over and self.server.is_over:
            if self._planned is not None:
                self._planned.cancel()
            self._network.forget(self)


class End(asyncio.Transport):
    """One side of a connection, as its protocol sees it: a transport whose socket is memory.

    Written bytes wait in `_unsent` until the window has room, travel in `_flight`, and wait in the peer's
    `_inbox` while the peer does not read. Empty bytes in flight mean that the sender has finished.
    """

    _start_tls_compatible = True  # asyncio asks for it before it begins TLS

    def __init__(self, loop: VirtualLoop, wire: Wire, mine: Address, theirs: Address) -> None:
        super().__init__({"sockname": mine, "peername": theirs, "socket": Socket(loop, mine, theirs, self)})
        self.peer: End
        self.server: Server | None = None
        self.is_over = False
        """Whether the protocol has been told that the connection is lost."""
        self._loop = loop
        self._wire = wire
        self._protocol: Any = None
        self._unsent: deque[memoryview] = deque()
        self._unsent_size = 0
        self._unread = 0  # bytes that were sent, and that the peer's protocol has not got yet
        self._flight: deque[tuple[float, bytes]] = deque()
        self._timer: asyncio.TimerHandle | None = None
        self._inbox: deque[bytes] = deque()
        self._low, self._high = HIGH_WATER // 4, HIGH_WATER
        self._writer_waits = False
        self._paused = False
        self._closing = False
        self._lost = False
        self._eof_wanted = False
        self._eof_sent = False
        self._eof_seen = False

    def begin(self, protocol: asyncio.BaseProtocol) -> None:
        """Connect the protocol; bytes that have arrived already are delivered at the next turn."""
        self._protocol = protocol
        protocol.connection_made(self)
        self._loop.call_soon(self._feed)

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self._protocol = protocol

    def get_protocol(self) -> asyncio.BaseProtocol:
        return self._protocol  # type: ignore[no-any-return]

    @property
    def is_idle(self) -> bool:
        """Whether a read would wait: nothing has arrived, and the connection is open."""
        return not (self._inbox or self._closing or self._eof_seen)

    # ----- writing

    def write(self, data: bytes | bytearray | memoryview[Any]) -> None:
        if not isinstance(data, bytes | bytearray | memoryview):
            raise TypeError(f"data must be bytes-like, not {type(data).__name__}")
        if self._eof_wanted:
            raise RuntimeError("Cannot call write() after write_eof()")
        if not data or self._closing:
            return
        copy = memoryview(bytes(data))  # the caller may change a bytearray later
        self._unsent.append(copy)
        self._unsent_size += len(copy)
        self._pump()
        self._hold_writer()

    def can_write_eof(self) -> bool:
        return True

    def write_eof(self) -> None:
        if self._closing or self._eof_wanted:
            return
        self._eof_wanted = True
        self._pump()

    def _pump(self) -> None:
        """Send as much as the window allows; then the end of the stream, if it was asked for."""
        while self._unsent and self._unread < WINDOW:
            piece, room = self._unsent.popleft(), WINDOW - self._unread
            if len(piece) > room:
                self._unsent.appendleft(piece[room:])
                piece = piece[:room]
            self._unsent_size -= len(piece)
            self._unread += len(piece)
            self._launch(bytes(piece))
        if not self._unsent:
            if self._eof_wanted or self._closing:
                self._launch_eof()
            if self._closing:
                self._lose(None)
        self._release_writer()

    def _launch_eof(self) -> None:
        if not self._eof_sent:
            self._eof_sent = True
            self._launch(b"")

    def _launch(self, data: bytes) -> None:
        when = self._loop.time() + self._wire.latency
        self._flight.append((when, data))
        if self._timer is None:
            self._timer = self._loop.call_at(when, self._landed)

    def _landed(self) -> None:
        self._timer = None
        self.arrive()

    def arrive(self) -> None:
        """Hand the peer what has travelled long enough, in order; come back for the rest."""
        now, held = self._loop.time(), self._wire.held_until()
        if self._wire.vanishes:
            self._flight.clear()  # `_unread` stays: nobody confirms these bytes, so the window fills up
        while self._flight and self._flight[0][0] <= now and held <= now:
            self.peer.receive(self._flight.popleft()[1])
        if self._flight:
            if self._timer is not None:
                self._timer.cancel()
            self._timer = self._loop.call_at(max(self._flight[0][0], held), self._landed)

    def get_write_buffer_size(self) -> int:
        return self._unsent_size

    def get_write_buffer_limits(self) -> tuple[int, int]:
        return self._low, self._high

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        if high is None:
            high = HIGH_WATER if low is None else 4 * low
        if low is None:
            low = high // 4
        if not high >= low >= 0:
            raise ValueError(f"high ({high!r}) must be >= low ({low!r}) must be >= 0")
        self._low, self._high = low, high
        self._hold_writer()

    def _hold_writer(self) -> None:
        if self._unsent_size > self._high and not self._writer_waits:
            self._writer_waits = True
            self._protocol.pause_writing()

    def _release_writer(self) -> None:
        if self._writer_waits and self._unsent_size <= self._low and not self._lost:
            self._writer_waits = False
            self._protocol.resume_writing()

    # ----- reading

    def is_reading(self) -> bool:
        return not self._paused and not self._closing

    def pause_reading(self) -> None:
        self._paused = True

    def resume_reading(self) -> None:
        self._paused = False
        if self._inbox:
            self._loop.call_soon(self._feed)

    def receive(self, data: bytes) -> None:
        """Take bytes that have arrived; a closed side answers with a reset, as a kernel does."""
        if self._lost:
            if data:
                self._loop.call_later(self._wire.latency, self.peer.reset)
            return
        if not self._closing:
            self._inbox.append(data)
            self._feed()

    def _feed(self) -> None:
        while self._inbox and self._protocol is not None and not self._paused and not self._closing:
            data = self._inbox.popleft()
            try:
                if data:
                    self.peer.confirm(len(data))
                    self._deliver(data)
                else:
                    self._finish_reading()
            except (SystemExit, KeyboardInterrupt):
                raise
            except BaseException as error:
                self._fail(error)

    def _deliver(self, data: bytes) -> None:
        if isinstance(self._protocol, asyncio.BufferedProtocol):
            feed_buffer(self._protocol, data)
        else:
            self._protocol.data_received(data)

    def confirm(self, size: int) -> None:
        """The peer's protocol has read some bytes; send more."""
        self._unread -= size
        if not self._lost:
            self._pump()

    def _finish_reading(self) -> None:
        self._eof_seen = True
        if not self._protocol.eof_received():
            self.close()

    def _fail(self, error: BaseException) -> None:
        self._loop.call_exception_handler(
            {
                "message": "Fatal error: a protocol failed while it received data",
                "exception": error,
                "transport": self,
                "protocol": self._protocol,
            }
        )
        self._force_close(error)

    # ----- the end

    def is_closing(self) -> bool:
        return self._closing

    def close(self) -> None:
        """Stop reading; send what was written, then the end of the stream."""
        if self._closing:
            return
        self._closing = True
        self._inbox.clear()
        self._pump()

    def abort(self) -> None:
        """Close without sending what is still waiting; bytes on their way still arrive."""
        self._force_close(None)

    def _force_close(self, error: BaseException | None) -> None:  # the TLS of asyncio calls it by this name
        if self._lost:
            return
        self._discard()
        self._launch_eof()
        self._lose(error)

    def reset(self) -> None:
        """Lose the connection with an error, and everything that was on its way from here."""
        if self._lost:
            return
        self.drop()
        self._lose(reset_by_peer())

    def drop(self) -> None:
        """Forget everything and tell nobody."""
        self._discard()
        self._closing = self._eof_sent = True
        self._flight.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _discard(self) -> None:
        self._unsent.clear()
        self._unsent_size = 0
        self._inbox.clear()

    def _lose(self, error: BaseException | None) -> None:
        if self._lost:
            return
        self._closing = self._lost = True
        self._inbox.clear()
        # Never from within a call of the protocol: asyncio promises the same.
        self._loop.call_soon(self._tell, error)

    def _tell(self, error: BaseException | None) -> None:
        try:
            if self._protocol is not None:
                self._protocol.connection_lost(error)
        finally:
            self.is_over = True
            if self.server is not None:
                self.server.detach(self)
            self._wire.ended()


class Socket:
    """Answers what clients ask a socket about: names, options, and whether a read would wait."""

    family = socket.AF_INET
    type = socket.SOCK_STREAM
    proto = socket.IPPROTO_TCP

    def __init__(self, loop: VirtualLoop, mine: Address, theirs: Address | None, end: End | None) -> None:
        self._loop = loop
        self._mine = mine
        self._theirs = theirs
        self._end = end

    def fileno(self) -> int:
        """Return a descriptor that is never readable while the connection is idle, otherwise -1.

        httpcore polls the descriptor of an idle connection before it reuses it. It takes -1 for a connection
        that was closed by the server, and so it is when bytes or the end of the stream have arrived.
        """
        return self._loop.silent_fileno() if self._end is not None and self._end.is_idle else -1

    def getsockname(self) -> Address:
        return self._mine

    def getpeername(self) -> Address:
        if self._theirs is None:
            raise OSError(errno.ENOTCONN, "Transport endpoint is not connected")
        return self._theirs

    def setsockopt(self, *options: object) -> None:
        """Accept any option: memory has none."""

    def getsockopt(self, *options: object) -> int:
        return 0
