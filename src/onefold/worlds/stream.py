"""A stream of events: a websocket that pushes them, and a route that lists them, both from one list.

The websocket carries no history, like its models outside: who was not subscribed when an event happened is
never told of it. Mischief cuts, stalls, drops, repeats and reorders; the list always tells the truth.
"""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable
from typing import Any

from websockets.asyncio.server import ServerConnection, serve
from websockets.exceptions import ConnectionClosed

from onefold.worlds.journal import Journal
from onefold.worlds.mischief import Mischief, Trick
from onefold.worlds.serving import Listening, StandIn
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


class Stream(StandIn):
    """Pushes events to every subscriber."""

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
        super().__init__()
        self.events = events
        self.mischief = mischief or Mischief()
        self.journal = events.journal
        self._backlog = backlog
        self._hesitates = hesitates
        self._confirms = confirms
        self._binary = binary
        # Not a set: events must be pushed in the order in which subscribers came.
        self._lines: dict[Line, None] = {}
        events.listen(self._hear)

    @property
    def url(self) -> str:
        return f"ws://{self.address}/feed"

    @property
    def connections(self) -> int:
        """How many are subscribed now."""
        return sum(not line.dead for line in list(self._lines))

    def die(self) -> None:
        """Cut every connection and serve nobody any more."""
        self.journal.note("died")
        if self._background:
            self.__exit__(None, None, None)
        else:
            self._hang_up()

    def spoil(self, trick: Trick) -> None:
        """Do this to every connection now."""
        for line in list(self._lines):
            self._soon(line.queue.put_nowait, trick)

    # ----- on the loop

    async def _listen(self, **where: Any) -> Listening:
        return await serve(self._welcome, ping_interval=None, close_timeout=0.2, max_queue=4, **where)

    def _hear(self, event: Event) -> None:
        self._soon(self._push, event)

    def _push(self, event: Event) -> None:
        for line in self._lines:
            line.push(event)

    async def _welcome(self, connection: ServerConnection) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._track(task, connection.transport)
        self.journal.note("connected")
        line = self._line(connection)
        try:
            await self._attend(line)
        except ConnectionClosed:
            pass  # subscribers leave, and some are cut
        finally:
            self._lines.pop(line, None)

    def _line(self, connection: ServerConnection) -> Line:
        return Line(connection, self.mischief, self.journal, self._backlog, self._binary)

    async def _attend(self, line: Line) -> None:
        asked = str(await line.connection.recv())
        await asyncio.sleep(self._hesitates)
        self._lines[line] = None
        self.journal.note("subscribed", message=asked)
        if self._confirms:
            await line.connection.send(json.dumps({"subscribed": True}))
        await line.run()


class Line:
    """One subscriber."""

    def __init__(
        self, connection: ServerConnection, mischief: Mischief, journal: Journal, backlog: int, binary: bool
    ) -> None:
        self.connection = connection
        self.queue: asyncio.Queue[Event | Trick | None] = asyncio.Queue()
        """What is to be done next; None once the subscriber has left."""
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
        """Serve the subscriber until it leaves or is cut."""
        hearing = asyncio.ensure_future(self._hear())
        hearing.add_done_callback(lambda _: self.queue.put_nowait(None))
        try:
            while (item := await self.queue.get()) is not None:
                await self._do(item)
        finally:
            hearing.cancel()
            left = (hearing, self._closing) if self._closing else (hearing,)
            await asyncio.gather(*left, return_exceptions=True)

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
