"""The in-memory network of a virtual loop: connections without sockets, and faults on purpose or drawn.

`VirtualLoop` sends every connection here, so that unmodified clients and servers talk through memory. Bytes
arrive after a small latency, always in the order in which they were written. Everything random comes from
the loop's seed. This module opens no socket, reads no clock but the loop's, and knows nothing of HTTP.
"""

from __future__ import annotations

import asyncio
import errno
import socket
import sys
from collections.abc import Callable, Iterable, Iterator
from ipaddress import ip_address
from random import Random
from typing import TYPE_CHECKING, Any, NamedTuple

from onefold.runtime import Runtime, current
from onefold.testing.connection import Address, End, Socket, Wire, reset_by_peer

if TYPE_CHECKING:
    from onefold.testing.virtual import VirtualLoop

__all__ = ["Network"]

Where = str | Address | None
Target = tuple[str | None, int | None]
Factory = Callable[[], asyncio.BaseProtocol]

LOOPBACK = "127.0.0.1"
ANY = ("0.0.0.0", "::")
SERVER_PORTS = 49152
CLIENT_PORTS = 32768
EVERYWHERE: Target = (None, None)


class _Rates(NamedTuple):
    """How likely a new connection meets each fault, and when."""

    chances: tuple[tuple[str, float], ...] = ()
    within: float = 0.0
    stall_for: tuple[float, float] = (0.0, 0.0)


class _Fate(NamedTuple):
    """What was drawn for one connection before it was opened."""

    latency: float
    fault: str | None
    after: float
    seconds: float


class Network:
    """The network of one `VirtualLoop`, found as `loop.network`.

    A server may be started on any host name; the name is then known to everybody on the loop. `names` maps
    each name to its IP address. Add a name to give a server a second one, remove a name to make it unknown::

        await asyncio.start_server(answer, "feed.test", 80)
        loop.network.names["mirror.test"] = loop.network.names["feed.test"]

    Faults are acts that happen now, on everything or on one place: `"feed.test"` means all ports of a host,
    `"feed.test:80"` or `("feed.test", 80)` one of them. `set_rates` draws faults for new connections instead.
    """

    def __init__(self, loop: VirtualLoop, random: Random) -> None:
        self.names: dict[str, str] = {"localhost": LOOPBACK}
        """The IP address behind each host name."""
        self.latency: tuple[float, float] = (0.0002, 0.002)
        """Bounds in seconds of how long bytes travel one way; drawn once for each new connection."""
        self._loop = loop
        self._random = random
        self._servers: dict[Address, Server] = {}
        self._wires: dict[Wire, None] = {}  # a dict, because it keeps the order in which they were opened
        self._closed: dict[Target, str] = {}
        self._stalls: dict[Target, float] = {}
        self._rates: dict[Target, _Rates] = {}
        self._abandoned: list[Runtime] = []
        self._hosts = 0
        self._server_port = SERVER_PORTS
        self._client_port = CLIENT_PORTS

    @property
    def connections(self) -> int:
        """The number of connections of which at least one side is open."""
        return len(self._wires)

    # ----- faults

    def cut(self, where: Where = None) -> int:
        """Reset connections now: both sides get ConnectionResetError. Return how many were open."""
        wires = list(self._at(where))
        for wire in wires:
            wire.cut()
        return len(wires)

    def stall(self, seconds: float, where: Where = None) -> None:
        """Hold all bytes for some seconds, then deliver them in order; even those of new connections."""
        target, until = self._target(where), self._loop.time() + seconds
        self._stalls[target] = max(until, self._stalls.get(target, 0.0))

    def half_open(self, where: Where = None) -> int:
        """Let the bytes of open connections vanish from now on; neither side is told. Return how many."""
        wires = list(self._at(where))
        for wire in wires:
            wire.vanishes = True
        return len(wires)

    def abandon(self, owner: Runtime, silently: bool = False) -> None:
        """End all connections of a worker that died, and let it open no other: by its runtime.

        A kill closes connections, so services hear of it; if the machine is lost, they hear nothing.
        """
        self._abandoned.append(owner)
        for wire in [one for one in self._wires if one.owner is owner]:
            if silently:
                wire.vanishes = True
            else:
                wire.cut()

    def refuse(self, where: Where = None) -> None:
        """Refuse new connections with ConnectionRefusedError until healed; open connections go on."""
        self._closed[self._target(where)] = "refuse"

    def black_hole(self, where: Where = None) -> None:
        """Answer new connections with silence until healed; an attempt made meanwhile never succeeds."""
        self._closed[self._target(where)] = "black hole"

    def heal(self, where: Where = None) -> None:
        """End `refuse`, `black_hole` and `stall` for the place they were called with, or everywhere.

        Held bytes are delivered. What was cut or is half-open stays so, and `set_rates` stays in force.
        """
        target = self._target(where)
        rules: dict[Target, Any]
        for rules in (self._closed, self._stalls):
            for one in list(rules):
                if target in (one, EVERYWHERE):
                    del rules[one]
        for wire in list(self._at(where)):
            wire.heal()

    def set_rates(
        self,
        where: Where = None,
        *,
        refuse: float = 0.0,
        black_hole: float = 0.0,
        cut: float = 0.0,
        stall: float = 0.0,
        half_open: float = 0.0,
        within: float = 30.0,
        stall_for: tuple[float, float] = (1.0, 30.0),
    ) -> None:
        """Set how likely each fault is for a new connection; a connection meets at most one.

        A connection is cut, stalled or half-open from a moment within its first `within` seconds; a stall
        lasts as long as `stall_for` allows. Rates of one port come before those of its host, and those of a
        host before the general ones. Without any rate, new connections have no faults.
        """
        chances = (
            ("refuse", refuse), ("black hole", black_hole), ("cut", cut), ("stall", stall),
            ("half-open", half_open),
        )  # fmt: skip
        if min(chance for _, chance in chances) < 0 or sum(chance for _, chance in chances) > 1:
            raise ValueError("the rates of faults must not be negative, and at most 1 together")
        self._rates[self._target(where)] = _Rates(chances, within, stall_for)

    def _at(self, where: Where) -> Iterator[Wire]:
        target = self._target(where)
        return (wire for wire in self._wires if target in _targets(wire.address))

    def _target(self, where: Where) -> Target:
        if where is None:
            return EVERYWHERE
        if isinstance(where, str):
            host, port = _split(where)
            return self.resolve(host), port
        return self.resolve(where[0]), where[1]

    def _draw(self, address: Address) -> _Fate:
        """Draw what happens to a new connection: always four numbers, so that a rate shifts no other draw."""
        draws = self._random
        latency, roll = draws.uniform(*self.latency), draws.random()
        moment, length = draws.random(), draws.random()
        rates = next((self._rates[one] for one in _targets(address) if one in self._rates), _Rates())
        low, high = rates.stall_for
        fault = None
        for name, chance in rates.chances:
            roll -= chance
            if roll < 0:
                fault = name
                break
        return _Fate(latency, fault, moment * rates.within, low + length * (high - low))

    # ----- names

    def resolve(self, host: str) -> str:
        """Return the IP address of a host; raise socket.gaierror if nothing has this name."""
        try:
            return str(ip_address(host))
        except ValueError:
            pass
        try:
            return self.names[host.lower()]
        except KeyError:
            host.encode("idna")  # a text that cannot be a name is a UnicodeError, as it is for the system
            text = f"Name or service not known: no server on the virtual network is called {host!r}"
            raise socket.gaierror(socket.EAI_NONAME, text) from None

    def _named(self, host: str) -> str:
        """Return the IP address of a host that somebody serves; a new name gets an address of its own."""
        try:
            return self.resolve(host)
        except socket.gaierror:
            self._hosts += 1
            high, low = divmod(self._hosts, 256)
            return self.names.setdefault(host.lower(), f"10.0.{high}.{low}")

    # ----- connecting and serving, which the loop calls

    async def connect(
        self, factory: Factory, host: str, port: int, local: Address | None = None
    ) -> tuple[asyncio.Transport, asyncio.BaseProtocol]:
        """Open a connection to the server at a host and port, one round trip from now."""
        address, owner = (self.resolve(host), port), current()
        fate = self._draw(address)
        await asyncio.sleep(fate.latency)
        if any(one is owner for one in self._abandoned):
            await self._loop.create_future()
        closed = next((self._closed[one] for one in _targets(address) if one in self._closed), fate.fault)
        if closed == "black hole":
            await self._loop.create_future()
        server = self._listening(address)
        if server is None or closed == "refuse":
            await asyncio.sleep(fate.latency)
            raise ConnectionRefusedError(errno.ECONNREFUSED, f"Connect call failed {address}")
        wire = self._accepted(server, address, local, fate)
        try:
            await asyncio.sleep(fate.latency)
            if wire.client.is_closing():
                raise reset_by_peer()
            protocol = factory()
        except BaseException:  # perhaps the client gave up while the server's answer was on its way
            wire.client.abort()
            raise
        wire.client.begin(protocol)
        return wire.client, protocol

    def _listening(self, address: Address) -> Server | None:
        host, port = address
        places = [address]
        if ip_address(host).is_loopback:
            places += [(wildcard, port) for wildcard in ANY]
        found = (self._servers.get(place) for place in places)
        return next((server for server in found if server and server.is_serving()), None)

    def _accepted(self, server: Server, address: Address, local: Address | None, fate: _Fate) -> Wire:
        self._client_port += 1
        client = (local[0] if local else LOOPBACK, self._client_port)
        wire = Wire(self, self._loop, address, client, fate.latency)
        wire.owner = current()
        self._wires[wire] = None
        if fate.fault in ("cut", "stall", "half-open"):
            wire.plan(fate.fault, fate.after, fate.seconds)
        server.accept(wire.server)
        return wire

    def bind(self, factory: Factory, host: str | Iterable[str] | None, port: int) -> Server:
        """Reserve addresses for a server, which does not listen yet; port 0 takes the next free port."""
        hosts = [host or ANY[0]] if host is None or isinstance(host, str) else list(host)
        places = [self._named(one) for one in hosts]
        port = port or self._free_port(places)
        server = Server(self._loop, self, factory, [(place, port) for place in dict.fromkeys(places)])
        for address in server.addresses:
            if address in self._servers:
                raise OSError(errno.EADDRINUSE, f"address already in use: {address}")
        self._servers.update((address, server) for address in server.addresses)
        return server

    def _free_port(self, places: list[str]) -> int:
        self._server_port += 1
        while any((place, self._server_port) in self._servers for place in places):
            self._server_port += 1
        return self._server_port

    def release(self, server: Server) -> None:
        """Free the addresses of a server that has closed."""
        for address in server.addresses:
            self._servers.pop(address, None)

    def forget(self, wire: Wire) -> None:
        """Drop a connection that is closed on both sides."""
        self._wires.pop(wire, None)

    def held_until(self, address: Address) -> float:
        """Return the moment until which bytes from and to an address are held."""
        if not self._stalls:
            return 0.0
        return max(self._stalls.get(target, 0.0) for target in _targets(address))

    def close(self) -> None:
        """Drop every connection and server without telling anybody: the loop has ended."""
        for wire in list(self._wires):
            wire.drop()
        self._wires.clear()
        self._servers.clear()


def _targets(address: Address) -> tuple[Target, Target, Target]:
    """Name the places that an address belongs to, the smallest first."""
    return address, (address[0], None), EVERYWHERE


def _split(where: str) -> tuple[str, int | None]:
    """Read `host` or `host:port`; an IPv6 address with a port has to be given as a pair."""
    host, colon, port = where.partition(":")
    return (host, int(port)) if colon and ":" not in port else (where, None)


class Server(asyncio.AbstractServer):
    """A server on the virtual network; it behaves like the one of this version of asyncio."""

    def __init__(
        self, loop: VirtualLoop, network: Network, factory: Factory, addresses: list[Address]
    ) -> None:
        self.addresses = addresses
        self._loop = loop
        self._network = network
        self._factory = factory
        self._ends: dict[End, None] = {}
        self._serving = False
        self._closed = False
        self._waiters: list[asyncio.Future[None]] = []
        self._forever: asyncio.Future[None] | None = None

    @property
    def sockets(self) -> tuple[Socket, ...]:
        if self._closed:
            return ()
        return tuple(Socket(self._loop, address, None, None) for address in self.addresses)

    def get_loop(self) -> asyncio.AbstractEventLoop:
        return self._loop

    def is_serving(self) -> bool:
        return self._serving

    def listen(self) -> None:
        if self._closed:
            raise RuntimeError(f"server {self!r} is closed")
        self._serving = True

    async def start_serving(self) -> None:
        self.listen()
        await asyncio.sleep(0)

    async def serve_forever(self) -> None:
        if self._forever is not None:
            raise RuntimeError(f"server {self!r} is already being awaited on serve_forever()")
        self.listen()
        self._forever = self._loop.create_future()
        try:
            await self._forever
        except asyncio.CancelledError:
            self.close()
            await self.wait_closed()
            raise
        finally:
            self._forever = None

    def accept(self, end: End) -> None:
        """Give a new connection its protocol."""
        end.server = self
        self._ends[end] = None
        try:
            end.begin(self._factory())
        except Exception as error:
            self._loop.call_exception_handler(
                {"message": "Error on transport creation for incoming connection", "exception": error}
            )
            end.abort()

    def detach(self, end: End) -> None:
        self._ends.pop(end, None)
        self._wake()

    def close(self) -> None:
        if self._closed:
            return
        self._closed, self._serving = True, False
        self._network.release(self)
        if self._forever is not None and not self._forever.done():
            self._forever.cancel()
        self._wake()

    def close_clients(self) -> None:
        for end in list(self._ends):
            end.close()

    def abort_clients(self) -> None:
        for end in list(self._ends):
            end.abort()

    async def wait_closed(self) -> None:
        # Until Python 3.11, asyncio waits for no connection once close() was called.
        if self._closed and (sys.version_info < (3, 12) or not self._ends):
            return
        waiter = self._loop.create_future()
        self._waiters.append(waiter)
        await waiter

    def _wake(self) -> None:
        if not self._closed or self._ends:
            return
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(None)
        self._waiters.clear()


def address_info(network: Network, host: object, port: object, passive: bool) -> tuple[Any, ...]:
    """Return one row as `socket.getaddrinfo` does."""
    name = host.decode() if isinstance(host, bytes) else host
    place = network.resolve(str(name)) if name else (ANY[0] if passive else LOOPBACK)
    try:
        number = int(port) if port else 0  # type: ignore[call-overload]
    except ValueError:
        raise socket.gaierror(socket.EAI_SERVICE, f"service names are unknown here: {port!r}") from None
    family = socket.AF_INET6 if ":" in place else socket.AF_INET
    rest = (0, 0) if family == socket.AF_INET6 else ()
    return family, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", (place, number, *rest)


def refuse_sockets(sock: object) -> None:
    """Complain about a socket: the virtual network makes its connections itself."""
    if sock is not None:
        raise NotImplementedError("the virtual network takes no sockets: give a host and a port")
