"""One busy history on a virtual loop: task groups, races, timeouts, web requests and websockets under faults.

`digest(seed)` tells the whole history in one word.
"""

import asyncio
import contextlib
import hashlib
import random
from collections.abc import AsyncIterator
from typing import Any

import anyio
import httpx2
from websockets.asyncio.client import connect
from websockets.asyncio.server import ServerConnection, broadcast, serve
from websockets.exceptions import ConnectionClosed

from onefold.testing.virtual import VirtualLoop
from tests.fast.testing.serving import Site, client, echo


class Story:
    """Everything that happens in one history, in order."""

    def __init__(self, seed: int) -> None:
        self.loop = VirtualLoop(seed)
        self.lines: list[str] = []

    def say(self, *words: object) -> None:
        self.lines.append(f"{self.loop.time()!r} {' '.join(map(str, words))}")

    def tell(self) -> list[str]:
        self.loop.run(self.main())
        return self.lines

    async def main(self) -> None:
        await Site(self.answer).serve()
        self.loop.network.set_rates(cut=0.2, stall=0.2, refuse=0.2, half_open=0.2, within=10)
        async with anyio.create_task_group() as group:
            for part in (self.cancelled_groups, self.races, self.streams, self.requests, self.feeds):
                group.start_soon(part)
        self.leave_behind()

    async def answer(self, request: bytes, body: bytes) -> bytes:
        await asyncio.sleep(random.random())
        return await echo(request, body)

    async def cancelled_groups(self) -> None:
        """Cancel groups whose tasks have groups and scopes of their own, all at the same moment."""
        for number in range(6):
            with anyio.move_on_after(1 + random.random()):
                async with anyio.create_task_group() as group:
                    for child in range(10):
                        group.start_soon(self.parent, f"{number}.{child}", name=f"child {number}.{child}")
            self.say("group", number)

    async def parent(self, name: str) -> None:
        try:
            async with anyio.create_task_group() as group:
                for child in range(3):
                    group.start_soon(self.sleeper, f"{name}.{child}")
                with anyio.CancelScope():
                    await self.sleeper(f"{name}.own")
        finally:
            self.say("parent ends", name)

    async def sleeper(self, name: str) -> None:
        try:
            await anyio.sleep(random.choice((0.5, 1.5, 60)))
        except anyio.get_cancelled_exc_class():
            self.say("cancelled", name)
            raise

    async def races(self) -> None:
        """Race sets of tasks, futures and gatherings, and read the sets."""
        for number in range(10):
            futures: list[Any] = [self.loop.create_future() for _ in range(12)]
            gathered = [asyncio.gather(*futures[at : at + 3]) for at in range(0, 12, 3)]
            timers = [asyncio.ensure_future(asyncio.sleep(random.choice((1, 2)), at)) for at in range(20)]
            for one in futures[:9]:
                self.loop.call_later(1, one.set_result, None)
            named = {id(one): at for at, one in enumerate(futures + gathered + timers)}
            done, waiting = await asyncio.wait({*futures, *gathered, *timers}, timeout=1.5)
            self.say("race", number, [named[id(one)] for one in done], [named[id(one)] for one in waiting])
            for one in waiting:
                one.cancel()
            await asyncio.gather(*waiting, return_exceptions=True)
        self.say("tasks", [task.get_name() for task in asyncio.all_tasks()])

    async def streams(self) -> None:
        """Close one end of a memory stream on which many tasks wait."""
        send, receive = anyio.create_memory_object_stream[int]()

        async def wait(number: int) -> None:
            try:
                await receive.receive()
            except anyio.ClosedResourceError:
                self.say("stream closed for", number)

        async with anyio.create_task_group() as group:
            for number in range(20):
                group.start_soon(wait, number)
            await anyio.sleep(3)
            receive.close()
        send.close()

    async def requests(self) -> None:
        async with client(timeout=2) as web, anyio.create_task_group() as group:
            for number in range(15):
                group.start_soon(self.request, web, number)

    async def request(self, web: httpx2.AsyncClient, number: int) -> None:
        for attempt in range(8):
            try:
                answer = await web.get(f"http://feed.test/{number}")
                self.say("request", number, attempt, answer.status_code)
            except httpx2.HTTPError as error:
                self.say("request", number, attempt, type(error).__name__)
            await anyio.sleep(random.random() * 3)

    async def feeds(self) -> None:
        """Broadcast to many clients, some of which lose their connection; then close the server."""

        async def listen(connection: ServerConnection) -> None:
            with contextlib.suppress(ConnectionClosed):
                self.say("heard", await connection.recv())
                await connection.wait_closed()

        async with anyio.create_task_group() as group:
            async with serve(listen, "chain.test", 80, ping_interval=5, ping_timeout=5) as server:
                for number in range(15):
                    group.start_soon(self.follow, number)
                for round_ in range(10):
                    await anyio.sleep(2)
                    ports = [connection.remote_address[1] for connection in server.connections]
                    self.say("broadcast", round_, ports)
                    broadcast(server.connections, f"news {round_}")
            self.say("server closed")

    async def follow(self, number: int) -> None:
        with contextlib.suppress(ConnectionClosed, OSError, TimeoutError):
            async with connect("ws://chain.test/", proxy=None, ping_interval=5, ping_timeout=5) as feed:
                await feed.send(str(number))
                async for news in feed:
                    self.say("feed", number, news)
        self.say("feed ends", number)

    def leave_behind(self) -> None:
        """Leave tasks, and generators that only the garbage collector could find, for the end of the loop."""

        async def numbers(number: int, me: list[Any]) -> AsyncIterator[int]:
            try:
                yield number
            finally:
                self.say("generator ends", number)

        async def begin(number: int) -> None:
            circle: list[Any] = []
            circle.append(numbers(number, circle))
            await anext(circle[0])
            await self.sleeper(f"left {number}")

        self.left = [asyncio.ensure_future(begin(number)) for number in range(20)]


def digest(seed: int) -> str:
    """Return one word for a history: two histories with the same word are the same in every line."""
    return hashlib.blake2b("\n".join(Story(seed).tell()).encode(), digest_size=16).hexdigest()
