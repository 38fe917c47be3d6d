"""A port of this machine: taken at once, so that a port in use is noticed early, and served later.

It knows no protocol. What is answered on the port is the caller's to say.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable

Answer = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


class Listener:
    """A port that is taken; nobody is answered before `serve`."""

    def __init__(self, host: str, port: int) -> None:
        self._socket = socket.create_server(
            (host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET
        )
        self._socket.setblocking(False)

    @property
    def address(self) -> tuple[str, int]:
        """The host and the port; the port is the real one, also if any was asked for."""
        host, port = self._socket.getsockname()[:2]
        return host, port

    async def serve(self, answer: Answer, longest: int) -> None:
        """Answer every connection until cancelled; a line of a request has at most `longest` bytes."""
        async with await asyncio.start_server(answer, sock=self._socket, limit=longest) as server:
            await server.serve_forever()

    def close(self) -> None:
        """Give the port back."""
        self._socket.close()
