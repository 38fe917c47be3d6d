"""One websocket connection, read into a bounded buffer from its first moment on, and watched.

It notices what a socket alone does not tell: that nobody answers any more, that nothing comes any more, that
we are too slow. It knows no record and fetches nothing.
"""

from __future__ import annotations

import asyncio
import math
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from onefold.core.errors import OnefoldError
from onefold.core.redaction import safe_url, scrubbed
from onefold.core.terms import Seconds
from onefold.runtime import current
from onefold.runtime.websocket import Opening

if TYPE_CHECKING:
    from onefold.runtime.websocket import Connection

Message = str | bytes
Confirms = Callable[[Message], bool]

CLOSING = 1.0
"""Seconds that the far side has for saying goodbye."""

BYTES = 32 << 20
"""The most bytes that wait in a buffer, whatever their number."""


class Disconnected(OnefoldError):
    """A connection ended, or is of no use any more. The reader makes another after a pause."""


@dataclass(frozen=True, slots=True)
class Watch:
    """What is watched on a connection, and how much of it is kept."""

    opening: Seconds
    """In which a connection must be open, and then its subscriptions confirmed."""
    ping: Seconds
    silence: Seconds | None
    keepalive: tuple[Seconds, Message] | None
    buffer: int
    largest: int
    waits: bool
    """When the buffer is full: let the far side wait, instead of giving the connection up."""


class Live:
    """An open connection. Everything that comes is buffered at once, so that pongs always get through."""

    def __init__(self, socket: Connection, url: str, watch: Watch, confirms: Confirms | None = None) -> None:
        self.since = self._heard = current().monotonic()
        self._socket = socket
        self._url = url
        self._watch = watch
        self._confirms = confirms
        self._confirmed = 0
        self._buffer: deque[Message] = deque()
        self._bytes = 0
        self._error: Disconnected | None = None
        self._came = asyncio.Event()
        self._room = asyncio.Event()
        watching = [self._pump, self._ping]
        if watch.keepalive:
            watching.append(partial(self._speak, *watch.keepalive))
        self._tasks = [asyncio.create_task(self._guarded(one)) for one in watching]

    @classmethod
    async def connect(
        cls, url: str, headers: Mapping[str, str], watch: Watch, confirms: Confirms | None = None
    ) -> Live:
        """Open a connection; whatever prevents it is told without the secrets of the address."""
        opening = Opening(url, headers, watch.opening, CLOSING, watch.largest)
        try:
            socket = await current().websocket(opening)
        except Exception as error:
            reason = scrubbed(f"{type(error).__name__}: {error}", url)
            raise Disconnected(f"{safe_url(url)} cannot be connected: {reason}") from None
        return cls(socket, url, watch, confirms)

    async def send(self, message: Message) -> None:
        """Send a message of the caller's."""
        try:
            await self._socket.send(message)
        except Exception as error:
            raise self._ended(error) from None

    async def confirmed(self, number: int) -> None:
        """Wait until so many subscriptions were confirmed; the messages that do so stay where they are."""
        try:
            async with asyncio.timeout(self._watch.opening):
                while self._confirmed < number and self._error is None:
                    self._came.clear()
                    await self._came.wait()
        except TimeoutError:
            raise self._because(f"no subscription was confirmed in {self._watch.opening:g} s") from None
        if self._error is not None:
            raise self._error

    async def take(self, most: int, until: float | None = None) -> list[Message]:
        """Wait for messages; none if the time has come first. What was buffered comes before the end."""
        while not self._buffer and self._error is None:
            self._came.clear()
            left = None if until is None else until - current().monotonic()
            if left is not None and left <= 0:
                return []
            with suppress(TimeoutError):
                async with asyncio.timeout(left):
                    await self._came.wait()
        if not self._buffer:
            assert self._error is not None, "an empty buffer ends by an error alone"
            raise self._error
        taken = [self._buffer.popleft() for _ in range(min(most, len(self._buffer)))]
        self._bytes -= sum(map(len, taken))
        self._room.set()
        return taken

    async def close(self) -> None:
        """Let go: say goodbye if somebody listens, and wait for nobody."""
        try:
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)
            with suppress(Exception):
                async with asyncio.timeout(2 * CLOSING):
                    await self._socket.close()
        finally:
            # Whoever is cancelled while it says goodbye leaves no connection behind, either.
            self._socket.transport.abort()

    # ----- what runs beside

    async def _guarded(self, watching: Callable[[], Awaitable[None]]) -> None:
        try:
            await watching()
        except Exception as error:
            if self._error is None:
                self._error = error if isinstance(error, Disconnected) else self._ended(error)
            self._came.set()
            # Nobody reads on, and the far side should know: a back-fill may take long before we close.
            self._socket.transport.abort()
            for task in self._tasks:
                if task is not asyncio.current_task():
                    task.cancel()

    async def _pump(self) -> None:
        while True:
            try:
                async with asyncio.timeout(self._watch.silence):
                    message = await self._socket.recv()
            except TimeoutError:
                raise self._because(f"nothing came for {self._watch.silence:g} s") from None
            if self._is_full(message):
                await self._make_room(message)
            self._heard = current().monotonic()
            self._buffer.append(message)
            self._bytes += len(message)
            self._note_confirmed(message)
            self._came.set()

    def _note_confirmed(self, message: Message) -> None:
        if self._confirms:
            with suppress(Exception):  # what cannot be read confirms nothing
                self._confirmed += bool(self._confirms(message))

    async def _make_room(self, message: Message) -> None:
        if not self._watch.waits:
            raise self._because(f"{len(self._buffer)} messages wait: what is read is too slow for it")
        while self._is_full(message):
            # While we let the far side wait, its pongs wait too.
            self._heard = math.inf
            self._room.clear()
            await self._room.wait()

    def _is_full(self, message: Message) -> bool:
        if not self._buffer:
            return False
        return len(self._buffer) >= self._watch.buffer or self._bytes + len(message) > BYTES

    async def _ping(self) -> None:
        """Notice a far side that does not answer, within two intervals."""
        while True:
            await current().sleep(self._watch.ping)
            pong, sent = await self._socket.ping(), current().monotonic()
            try:
                async with asyncio.timeout(self._watch.ping):
                    await pong
            except TimeoutError:
                # Whoever still sends is there, however busy it or we may be.
                if self._heard < sent:
                    raise self._because(f"no answer to a ping for {self._watch.ping:g} s") from None

    async def _speak(self, every: Seconds, message: Message) -> None:
        while True:
            await current().sleep(every)
            await self._socket.send(message)

    # ----- how it ended

    def _because(self, reason: str) -> Disconnected:
        return Disconnected(f"{safe_url(self._url)}: {reason}")

    def _ended(self, error: Exception) -> Disconnected:
        """Say what a close or a broken line means."""
        received = getattr(error, "rcvd", None)
        sent = getattr(error, "sent", None)
        if received is not None:
            said = f" ({received.reason})" if received.reason else ""
            return self._because(f"closed by the far side with code {received.code}{said}")
        if sent is not None and sent.code == 1009:
            return self._because(f"a message was larger than {self._watch.largest} bytes")
        if sent is not None:
            return self._because(f"given up with code {sent.code} ({sent.reason})")
        return self._because(scrubbed(f"the line was cut: {error}", self._url))
