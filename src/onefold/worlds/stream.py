"""A stream of events on loopback: a websocket that pushes them, and a route that lists them, of one truth.

The websocket carries no history, like its models outside: who was not subscribed when an event happened is
never told of it. Mischief cuts, stalls, drops, repeats and reorders; the list always tells the truth.
"""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType
from typing import Any

from websockets.asyncio.server import Server, ServerConnection, serve
from websockets.exceptions import ConnectionClosed

from onefold.worlds.journal import Journal
from onefold.worlds.mischief import Mischief, Trick
from onefold.worlds.site import Request, Response, Site

Event = dict[str, Any]

PAGE = 100


class Events:
    """What truly happened, in order. Streams and lists show it; effects are counted beside it."""

    def __init__(self, journal: Journal | None = None) -> None:
        self.journal = journal or Journal()
        self._lock = threading.Lock()
        self._all: list[Event] = []
        self._listeners: list[Callable[[Event], None]] = []

    def happen(self, **facts: Any) -> Event:
        """Let an event happen; whoever listens hears of it at once."""
        with self._lock:
            event = {"id": f"e{len(self._all)}", "at": len(self._all), **facts}
            self._all.append(event)
            self.journal.note("event", id=event["id"])
            for listener in self._listeners:
                listener(event)
        return event

    def listen(self, listener: Callable[[Event], None]) -> None:
        """Be told of every event from now on."""
        with self._lock:
            self._listeners.append(listener)

    def since(self, at: int, limit: int = PAGE) -> list[Event]:
        """List events from a place on, inclusive, oldest first."""
        with self._lock:
            return self._all[max(at, 0) : max(at, 0) + limit]

    def effects(self) -> list[str]:
        """Name the events that were acted upon, once for every time."""
        return [line["id"] for line in self.journal.of("effect")]

    def site(self, mischief: Mischief | None = None) -> Site:
        """Serve the list, and take effects: `GET /events?since=&offset=&limit=`, `POST /effects`."""
        return Site({("GET", "/events"): self._list, ("POST", "/effects"): self._act}, mischief)

    def _list(self, request: Request) -> Response:
        since, offset, limit = (int(request.query.get(name, "0")) for name in ("since", "offset", "limit"))
        return Response(self.since(max(since, 0) + offset, min(limit or PAGE, PAGE)))

    def _act(self, request: Request) -> Response:
        self.journal.note("effect", **request.json())
        return Response({"ok": True}, 201)


class Stream:
    """Pushes events to whoever subscribed, in a thread with an event loop of its own."""

    def __init__(
        self,
        events: Events,
        mischief: Mischief | None = None,
        *,
        backlog: int = 1000,
        hesitates: float = 0.0,
        confirms: bool = True,
        binary: bool = False,
    ) -> None:
        self.events = events
        self.mischief = mischief or Mischief()
        self.journal = events.journal
        self._backlog = backlog
        self._hesitates = hesitates
        self._confirms = confirms
        self._binary = binary
        self._loop = asyncio.new_event_loop()
        self._lines: set[Line] = set()
        self._thread = threading.Thread(target=self._live, name="onefold-stream", daemon=True)
        self._up = threading.Event()
        self._server: Server | None = None
        self.port = 0

    @property
    def url(self) -> str:
        return f"ws://127.0.0.1:{self.port}/feed"

    @property
    def running(self) -> bool:
        """Whether anybody can connect."""
        return not self._loop.is_closed()

    @property
    def connections(self) -> int:
        """How many are subscribed now."""
        return sum(not line.dead for line in list(self._lines))

    def __enter__(self) -> Stream:
        self._thread.start()
        self._up.wait()
        self.events.listen(self._hear)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.running:
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()

    def die(self) -> None:
        """Cut every line and serve nobody any more."""
        self.journal.note("died")
        self.__exit__(None, None, None)

    def spoil(self, trick: Trick) -> None:
        """Do this to every line now."""
        for line in list(self._lines):
            self._loop.call_soon_threadsafe(line.queue.put_nowait, trick)

    # ----- the thread

    def _live(self) -> None:
        self._loop.run_until_complete(self._serve())
        self._up.set()
        self._loop.run_forever()
        self._loop.run_until_complete(self._end())
        self._loop.close()

    async def _serve(self) -> None:
        self._server = await serve(
            self._welcome, "127.0.0.1", 0, ping_interval=None, close_timeout=0.2, max_queue=4
        )
        self.port = self._server.sockets[0].getsockname()[1]

    async def _end(self) -> None:
        assert self._server is not None
        for line in list(self._lines):
            line.connection.transport.abort()
        self._server.close()
        await self._server.wait_closed()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    def _hear(self, event: Event) -> None:
        with suppress(RuntimeError):  # a stream that died hears nothing
            self._loop.call_soon_threadsafe(self._push, event)

    def _push(self, event: Event) -> None:
        for line in self._lines:
            line.push(event)

    async def _welcome(self, connection: ServerConnection) -> None:
        line = Line(connection, self.mischief, self.journal, self._backlog, self._binary)
        self.journal.note("connected")
        try:
            asked = str(await connection.recv())
            await asyncio.sleep(self._hesitates)
            self._lines.add(line)
            self.journal.note("subscribed", message=asked)
            if self._confirms:
                await connection.send(json.dumps({"subscribed": True}))
            await line.run()
        except ConnectionClosed:
            pass  # subscribers leave, and some are cut
        finally:
            self._lines.discard(line)


class Line:
    """One subscriber."""

    def __init__(
        self, connection: ServerConnection, mischief: Mischief, journal: Journal, backlog: int, binary: bool
    ) -> None:
        self.connection = connection
        self.queue: asyncio.Queue[Event | Trick] = asyncio.Queue()
        self._mischief = mischief
        self._journal = journal
        self._backlog = backlog
        self._binary = binary
        self._held_back: Event | None = None
        self._closing: asyncio.Task[None] | None = None
        self.dead = False

    def push(self, event: Event) -> None:
        """Queue an event; who lets too many of them wait is closed, as servers do."""
        if self.dead:
            return
        self.queue.put_nowait(event)
        if self.queue.qsize() > self._backlog and self._closing is None:
            self._journal.note("trick", trick="slow")
            self._closing = asyncio.ensure_future(self.connection.close(1008, "slow consumer"))

    async def run(self) -> None:
        hearing = asyncio.ensure_future(self._hear())
        try:
            while True:
                await self._do(await self._next(hearing))
        finally:
            hearing.cancel()

    async def _hear(self) -> None:
        async for message in self.connection:
            self._journal.note("heard", message=str(message))

    async def _do(self, item: Event | Trick) -> None:
        trick = item if isinstance(item, str) else self._mischief.draw()
        if trick is not None:
            self._journal.note("trick", trick=trick)
        await self._spoil(trick)
        if not isinstance(item, str):
            await self._tell(item, trick)

    async def _next(self, hearing: asyncio.Future[None]) -> Event | Trick:
        """Take the next thing to do, unless the subscriber leaves."""
        getting = asyncio.ensure_future(self.queue.get())
        try:
            await asyncio.wait((getting, hearing), return_when=asyncio.FIRST_COMPLETED)
            if not getting.done():
                await self.connection.send("")  # raises: it is closed
            return await getting
        finally:
            getting.cancel()

    async def _spoil(self, trick: Trick | None) -> None:
        match trick:
            case "cut-before":
                self.connection.transport.abort()
            case "stall":
                await asyncio.sleep(self._mischief.stall)
            case "garbage":
                await self.connection.send("<html>oops")
            case "half-open":
                self.dead = True
                self.connection.transport.pause_reading()
                await self.connection.wait_closed()

    async def _tell(self, event: Event, trick: Trick | None) -> None:
        if trick == "drop":
            return
        if trick == "swap" and self._held_back is None:
            self._held_back = event
            return
        for _ in range(2 if trick == "repeat" else 1):
            await self._send(event)
        if self._held_back is not None:
            held_back, self._held_back = self._held_back, None
            await self._send(held_back)

    async def _send(self, event: Event) -> None:
        text = json.dumps(event)
        await self.connection.send(text.encode() if self._binary else text)
