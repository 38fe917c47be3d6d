"""Unmodified websockets clients and servers on the virtual network: hours of pings, faults, and endings."""

import asyncio
import contextlib

import pytest
from websockets.asyncio.client import connect
from websockets.asyncio.server import ServerConnection, serve
from websockets.exceptions import ConnectionClosed, ConnectionClosedError

from onefold.testing.virtual import VirtualLoop
from tests.fast.testing.serving import live

URL = "ws://feed.test/stream"


class Counting(ServerConnection):
    """Counts the pongs of its client."""

    pongs = 0

    def acknowledge_pings(self, data: bytes) -> None:
        Counting.pongs += 1
        super().acknowledge_pings(data)


async def echo(connection: ServerConnection) -> None:
    with contextlib.suppress(ConnectionClosed):
        async for message in connection:
            await connection.send(message)


def test_an_hour_of_pings_keeps_a_connection_open(monkeypatch):
    monkeypatch.setattr(Counting, "pongs", 0)

    async def main(loop: VirtualLoop) -> tuple[float, str | bytes, float]:
        async with serve(echo, "feed.test", 80, create_connection=Counting), connect(URL, proxy=None) as feed:
            await asyncio.sleep(3600)
            await feed.send("still there?")
            return loop.time(), await feed.recv(), feed.latency

    ended, answer, latency = live(main)

    assert ended >= 3600
    assert answer == "still there?"
    assert 0.0004 <= latency <= 0.004  # a round trip
    assert Counting.pongs == 180  # one each 20 s


def test_a_half_open_connection_is_noticed_by_the_ping_timeout():
    async def main(loop: VirtualLoop) -> float:
        async with serve(echo, "feed.test", 80):
            feed = await connect(URL, proxy=None, ping_interval=20, ping_timeout=15, close_timeout=5)
            await asyncio.sleep(100.5)
            loop.network.half_open("feed.test:80")
            begun = loop.time()
            with pytest.raises(ConnectionClosedError, match="keepalive ping timeout"):
                await feed.recv()
            return loop.time() - begun

    # At most 20 s until the next ping, 15 s for its pong, and 5 s for the closing handshake.
    assert 20 < live(main) <= 40


def test_a_cut_connection_is_closed_on_both_sides():
    async def main(loop: VirtualLoop) -> float:
        ended: asyncio.Future[float] = loop.create_future()

        async def wait(connection: ServerConnection) -> None:
            await connection.wait_closed()
            ended.set_result(loop.time())

        async with serve(wait, "feed.test", 80):
            feed = await connect(URL, proxy=None)
            loop.call_later(7, loop.network.cut)
            with pytest.raises(ConnectionClosedError):
                await feed.recv()
            assert await ended == loop.time()
            return loop.time()

    assert 7 < live(main) < 7.1


def test_a_client_that_reconnects_gets_through_after_healing():
    async def main(loop: VirtualLoop) -> float:
        async with serve(echo, "feed.test", 80):
            loop.network.refuse("feed.test")
            loop.call_later(60, loop.network.heal, "feed.test")
            async for feed in connect(URL, proxy=None):
                await feed.send("x")
                await feed.recv()
                await feed.close()
                break
            return loop.time()

    first = live(main)

    assert 60 < first < 200
    assert first == live(main)  # the client's pauses are drawn from the shared random numbers


def test_a_closing_server_tells_all_its_clients():
    async def main(loop: VirtualLoop) -> list[int | None]:
        async with serve(echo, "feed.test", 80) as server:
            feeds = [await connect(URL, proxy=None) for _ in range(20)]
            assert len(server.connections) == 20
        for feed in feeds:
            await feed.wait_closed()
        assert loop.network.connections == 0
        return [feed.close_code for feed in feeds]

    assert live(main) == [1001] * 20


def test_a_large_message_arrives_whole():
    async def main(loop: VirtualLoop) -> bool:
        message = bytes(range(256)) * 20_480
        async with (
            serve(echo, "feed.test", 80, max_size=None),
            connect(URL, proxy=None, max_size=None, compression=None) as feed,
        ):
            await feed.send(message)
            return await feed.recv() == message

    assert live(main)
