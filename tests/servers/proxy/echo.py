"""A server that repeats every line it hears, over real sockets, and keeps a record of what reached it."""

import contextlib
import socket
import threading
from queue import Queue
from types import TracebackType
from typing import NamedTuple, Self

from tests.waiting import PATIENCE

LONGEST = PATIENCE
"""Seconds after which a test that waits for something is a failure; nothing here waits for time to pass."""


class End(NamedTuple):
    """How one connection ended for the server."""

    left: bytes
    """What came after the last whole line."""
    reset: bool


class Echo:
    def __init__(self, port: int = 0) -> None:
        self._lines: Queue[bytes] = Queue()
        self._ends: Queue[End] = Queue()
        self._listener = socket.create_server(("127.0.0.1", port))
        self.port: int = self._listener.getsockname()[1]
        self._thread = threading.Thread(target=self._accept)
        self._serving: list[threading.Thread] = []

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._thread.join(LONGEST)
        self._listener.close()
        for each in self._serving:
            each.join(LONGEST)

    def line(self) -> bytes:
        """Wait for the next line that was heard."""
        return self._lines.get(timeout=LONGEST)

    def end(self) -> End:
        """Wait for the end of the next connection."""
        return self._ends.get(timeout=LONGEST)

    @property
    def silent(self) -> bool:
        """Whether no line was heard since the last one that was asked for."""
        return self._lines.empty()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                self._serving.append(threading.Thread(target=self._serve, args=[connection]))
                self._serving[-1].start()

    def _serve(self, connection: socket.socket) -> None:
        left, reset = b"", False
        try:
            while data := connection.recv(65536):
                *whole, left = (left + data).split(b"\n")
                for line in whole:
                    self._lines.put(line)
                    connection.sendall(line + b"\n")
        except ConnectionError:
            reset = True
        connection.close()
        self._ends.put(End(left, reset))
