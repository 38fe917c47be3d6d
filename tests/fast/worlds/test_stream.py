"""The websocket stand-in; `tests/processes/worlds` has the same tests with real sockets."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, ConnectionClosedError

from onefold.worlds.mischief import Mischief, Trick
from onefold.worlds.stream import Events, Stream
from tests.fast.worlds.calling import Mode, calling, fetch, served
from tests.waiting import PATIENCE, until


@asynccontextmanager
async def subscribed(stream: Stream) -> AsyncIterator[ClientConnection]:
    """Subscribe, and wait until the stream says so."""
    async with connect(stream.url, close_timeout=0.1) as line:
        await line.send("events")
        assert json.loads(await line.recv()) == {"subscribed": True}
        yield line


async def names(line: ClientConnection, number: int) -> list[str]:
    return [json.loads(await line.recv())["id"] for _ in range(number)]


def test_every_subscriber_hears_what_happens_from_then_on(mode: Mode):
    async def main() -> None:
        events = Events()
        stream = Stream(events)
        events.happen()
        async with served(stream, mode), subscribed(stream) as first:
            events.happen()
            assert await names(first, 1) == ["e1"]
            async with subscribed(stream) as second:
                assert stream.connections == 2
                events.happen()
                assert (await names(first, 1), await names(second, 1)) == (["e2"], ["e2"])
            await until(lambda: stream.connections == 1)
            await first.send("PING")
            await until(lambda: events.journal.of("heard") != [])
        kinds = [line["kind"] for line in events.journal.lines() if line["kind"] != "event"]
        assert kinds == ["connected", "subscribed"] * 2 + ["heard"]

    asyncio.run(asyncio.wait_for(main(), PATIENCE))


@pytest.mark.parametrize(
    ("trick", "heard"),
    [
        ("drop", ["e1", "e2"]),
        ("repeat", ["e0", "e0", "e1", "e2"]),
        ("swap", ["e1", "e0", "e2"]),
        ("stall", ["e0", "e1", "e2"]),
    ],
)
def test_a_message_is_dropped_repeated_swapped_or_late(mode: Mode, trick: Trick, heard: list[str]):
    class Once(Mischief):
        """Draws a trick for the first message alone."""

        def draw(self) -> Trick | None:
            drawn = super().draw()
            self.stop()
            return drawn

    async def main() -> None:
        events = Events()
        stream = Stream(events, Once(rates={trick: 1.0}, stall=0.01))
        async with served(stream, mode), subscribed(stream) as line:
            for _ in range(3):
                events.happen()
            assert await names(line, len(heard)) == heard
        assert [one["trick"] for one in events.journal.of("trick")] == [trick]

    asyncio.run(asyncio.wait_for(main(), PATIENCE))


def test_a_cut_line_is_closed_and_the_next_one_is_served(mode: Mode):
    async def main() -> None:
        events = Events()
        async with served(Stream(events), mode) as stream:
            async with subscribed(stream) as line:
                stream.spoil("garbage")
                stream.spoil("cut-before")
                assert await line.recv() == "<html>oops"
                with pytest.raises(ConnectionClosedError):
                    await line.recv()
            await until(lambda: stream.connections == 0)
            async with subscribed(stream) as line:
                events.happen()
                assert await names(line, 1) == ["e0"]

    asyncio.run(asyncio.wait_for(main(), PATIENCE))


@pytest.mark.parametrize("trick", ["half-open", "stall"])
def test_a_silent_line_ends_with_its_stream(mode: Mode, trick: Trick):
    async def main() -> None:
        events = Events()
        stream = Stream(events, Mischief(stall=3600))
        async with served(stream, mode), subscribed(stream) as line:
            stream.spoil(trick)
            await until(lambda: events.journal.of("trick") != [])
            assert stream.connections == (0 if trick == "half-open" else 1)
            events.happen()
            await line.ping()
            stream.die()
            with pytest.raises(ConnectionClosed):
                await line.recv()

    asyncio.run(asyncio.wait_for(main(), PATIENCE))


def test_a_subscriber_that_lets_too_much_wait_is_closed(mode: Mode):
    async def main() -> None:
        events = Events()
        stream = Stream(events, Mischief(rates={"stall": 1.0}, stall=0.01), backlog=3)
        async with served(stream, mode), subscribed(stream) as line:
            for _ in range(8):
                events.happen()
            with pytest.raises(ConnectionClosedError, match="slow consumer"):
                await names(line, 8)

    asyncio.run(asyncio.wait_for(main(), PATIENCE))


def test_a_stream_that_died_cuts_its_lines_and_hears_nothing(mode: Mode):
    async def main() -> None:
        events = Events()
        stream = Stream(events)
        async with served(stream, mode), subscribed(stream) as line:
            stream.die()
            assert not stream.running
            events.happen()
            with pytest.raises(ConnectionClosedError):
                await line.recv()
            with pytest.raises(ConnectionRefusedError):
                await connect(stream.url)

    asyncio.run(asyncio.wait_for(main(), PATIENCE))


def test_a_stream_that_serves_again_says_everything_once():
    async def main() -> None:
        events = Events()
        stream = Stream(events)
        async with stream:
            pass
        async with stream, subscribed(stream) as line:
            events.happen()
            events.happen()
            assert await names(line, 2) == ["e0", "e1"]

    asyncio.run(asyncio.wait_for(main(), PATIENCE))


def test_the_list_shows_what_happened_and_takes_effects(mode: Mode):
    async def main() -> None:
        events = Events()
        async with served(events.site(), mode) as site:
            for _ in range(3):
                events.happen()
            assert [one["id"] for one in await fetch(site.url, "/events?since=1")] == ["e1", "e2"]
            async with calling(site.url) as caller:
                caller.ask("/effects", b'{"id": "e1"}')
                assert (await caller.answer())[0] == 201
        assert events.effects() == ["e1"]

    asyncio.run(main())
