"""A server with TLS: a listener on loopback that ends TLS and passes everything on to a real server.

The certificates in `certificates/` are only for tests, valid until 2120: `local.pem` is for localhost and
127.0.0.1, `other.pem` for other.example, both with their keys and both issued by `authority.pem`.
"""

from __future__ import annotations

import select
import socket
import ssl
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

CERTIFICATES = Path(__file__).parent / "certificates"
AUTHORITY = CERTIFICATES / "authority.pem"

Greeting = Callable[[socket.socket, socket.socket], None]
"""What a client and its server say to each other before TLS begins."""

Served = tuple[threading.Thread, socket.socket, socket.socket]

MARIADB_SSL = 0x0800


def immediately(client: socket.socket, server: socket.socket) -> None:
    """Begin with TLS, as Redis and MongoDB do."""


def postgresql(client: socket.socket, server: socket.socket) -> None:
    """Take the client's request for TLS, and agree."""
    request = _exactly(client, 8)
    assert request == struct.pack("!II", 8, 80877103), "the client asks for TLS before anything else"
    client.sendall(b"S")


def mariadb(client: socket.socket, server: socket.socket) -> None:
    """Show the server's greeting with TLS among its abilities, and take the client's request for it."""
    header, told = _packet(server)
    greeting = bytearray(told)
    at = greeting.index(0, 1) + 1 + 4 + 8 + 1  # behind the version, the thread's number and some salt
    [abilities] = struct.unpack_from("<H", greeting, at)
    struct.pack_into("<H", greeting, at, abilities | MARIADB_SSL)
    client.sendall(header + greeting)
    _packet(client)


@contextmanager
def tls_before(port: int | None, certificate: str, greeting: Greeting = immediately) -> Iterator[int]:
    """Listen with a certificate before the server at a port of this machine; give the listener's own port."""
    assert port
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(CERTIFICATES / f"{certificate}.pem")
    with socket.create_server(("127.0.0.1", 0)) as listener:
        served: list[Served] = []
        taking = threading.Thread(target=_take, args=(listener, port, context, greeting, served))
        taking.start()
        try:
            yield listener.getsockname()[1]
        finally:
            listener.shutdown(socket.SHUT_RDWR)  # wakes the thread that waits for clients
            taking.join()
            for thread, *sockets in served:
                for one in sockets:
                    with suppress(OSError):
                        one.shutdown(socket.SHUT_RDWR)
                thread.join()
                sockets[0].close()


def _take(
    listener: socket.socket,
    port: int,
    context: ssl.SSLContext,
    greeting: Greeting,
    served: list[Served],
) -> None:
    while True:
        try:
            client, _ = listener.accept()
        except OSError:
            return
        server = socket.create_connection(("127.0.0.1", port))
        held = client.dup()  # the client's own is given away when TLS begins
        thread = threading.Thread(target=_serve, args=(client, server, context, greeting))
        served.append((thread, held, server))
        thread.start()


def _serve(client: socket.socket, server: socket.socket, context: ssl.SSLContext, greeting: Greeting) -> None:
    with client, server:
        try:
            greeting(client, server)
            with context.wrap_socket(client, server_side=True) as secure:
                _carry(secure, server)
        except OSError:
            return  # a client that refuses the certificate leaves in the middle of the handshake


def _carry(client: ssl.SSLSocket, server: socket.socket) -> None:
    """Carry bytes both ways until one side ends."""
    while True:
        ready, _, _ = select.select([client, server], [], [], 0 if client.pending() else None)
        for source, target in ((client, server), (server, client)):
            if source in ready or (source is client and client.pending()):
                piece = source.recv(65536)
                if not piece:
                    return
                target.sendall(piece)


def _packet(source: socket.socket) -> tuple[bytes, bytes]:
    header = _exactly(source, 4)
    return header, _exactly(source, int.from_bytes(header[:3], "little"))


def _exactly(source: socket.socket, length: int) -> bytes:
    told = b""
    while len(told) < length:
        piece = source.recv(length - len(told))
        if not piece:
            raise ConnectionResetError("the other side left before TLS began")
        told += piece
    return told
