"""What a test says through the proxy, and hears, by bare sockets."""

import socket

from onefold.testing.proxy import Proxy
from tests.servers.proxy.echo import LONGEST


def dial(proxy: Proxy) -> socket.socket:
    return socket.create_connection(("127.0.0.1", proxy.port), timeout=LONGEST)


def ask(client: socket.socket, line: bytes) -> bytes:
    """Send a line and read until the end of a line, or of the connection."""
    client.sendall(line + b"\n")
    return read_line(client)


def read_line(client: socket.socket) -> bytes:
    reply = b""
    while not reply.endswith(b"\n") and (data := client.recv(65536)):
        reply += data
    return reply.rstrip(b"\n")


def is_reset(client: socket.socket) -> bool:
    """Wait until the connection ends, and say whether it was reset."""
    try:
        return client.recv(1) != b""
    except ConnectionResetError:
        return True


def is_unreachable(proxy: Proxy) -> bool:
    try:
        with dial(proxy) as client:
            return is_reset(client)
    except ConnectionResetError:
        # The reset was there before the client had looked at its connection.
        return True
