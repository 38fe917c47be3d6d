"""Where stand-ins listen, on which thread they run, and what is left when they stop."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable

import pytest
from websockets.asyncio.client import connect

from onefold.worlds.chain import Chain, Node
from onefold.worlds.serving import StandIn
from onefold.worlds.site import Request, Response, Site
from onefold.worlds.smtp import SmtpWorld
from onefold.worlds.stream import Events, Stream
from tests.waiting import until
from tests.worlds.calling import calling, fetch

KINDS: dict[str, Callable[[], StandIn | Node]] = {
    "site": lambda: Site({}),
    "smtp": SmtpWorld,
    "stream": lambda: Stream(Events()),
    "node": lambda: Node(Chain()),
}


def where(request: Request) -> Response:
    return Response(threading.current_thread().name)


def one_site() -> Site:
    return Site({("GET", "/"): where})


@pytest.mark.parametrize("kind", KINDS)
def test_on_the_running_loop_there_is_no_other_thread_and_nothing_is_left(kind: str):
    stand_in = KINDS[kind]()

    async def main() -> None:
        before = threading.enumerate()
        async with stand_in, calling(stand_in.url):
            # The stand-in must have accepted the connection, or there is nothing to clean up.
            await until(lambda: len(asyncio.all_tasks()) > 1)
            assert threading.enumerate() == before
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(main())


@pytest.mark.parametrize("kind", KINDS)
def test_a_background_thread_ends_with_its_stand_in(kind: str):
    stand_in = KINDS[kind]()
    before = threading.enumerate()

    async def main() -> None:
        with stand_in:
            assert threading.enumerate() != before
            async with calling(stand_in.url):
                pass

    asyncio.run(main())
    assert threading.enumerate() == before


def test_routes_run_on_the_running_loop_or_in_threads_of_a_background_site():
    async def main() -> None:
        async with one_site() as site:
            assert await fetch(site.url, "/") == threading.current_thread().name
        with one_site() as site:
            assert await fetch(site.url, "/") != threading.current_thread().name

    asyncio.run(main())


def test_the_url_of_a_background_stand_in_is_known_before_it_serves_and_after():
    site = one_site()
    url = site.url

    async def main() -> None:
        with site:
            assert site.url == url
            await fetch(url, "/")
        assert site.url == url
        with pytest.raises(ConnectionRefusedError):
            await fetch(url, "/")

    asyncio.run(main())


def test_a_url_that_was_read_too_early_is_not_served_on_a_loop():
    async def main() -> None:
        site = one_site()
        assert site.url
        with pytest.raises(RuntimeError, match="the URL of Site was read before `async with`"):
            await site.__aenter__()
        assert not site.running

    asyncio.run(main())


def test_a_stand_in_listens_at_the_address_that_is_given_and_again_after_a_stop():
    async def main() -> None:
        async with one_site() as other:
            port = other.port
        site = one_site().at("localhost", port)
        assert site.url == f"http://localhost:{port}"
        for _ in range(2):
            async with site:
                await fetch(site.url, "/")
            with pytest.raises(ConnectionRefusedError):
                await fetch(f"http://127.0.0.1:{port}", "/")

    asyncio.run(main())


def test_an_address_that_is_taken_is_an_error_and_leaves_no_thread():
    before = threading.enumerate()

    async def main() -> None:
        async with one_site() as first:
            second = one_site().at("127.0.0.1", first.port)
            with pytest.raises(OSError, match="in use"):
                second.__enter__()
            with pytest.raises(OSError, match="in use"):
                await second.__aenter__()
            assert not second.running

    asyncio.run(main())
    assert threading.enumerate() == before


def test_a_node_listens_at_two_ports_of_one_host():
    node = Node(Chain()).at("node.test", 80, 8546)

    assert node.url == "http://node.test:80/"
    assert node.stream.url == "ws://node.test:8546/feed"


def test_events_reach_the_loop_of_every_stream_from_any_thread():
    events = Events()

    async def main() -> None:
        with Stream(events) as stream:
            async with connect(stream.url) as line:
                await line.send("events")
                assert json.loads(await line.recv()) == {"subscribed": True}
                await asyncio.to_thread(events.happen)
                assert json.loads(await line.recv())["id"] == "e0"

    asyncio.run(main())
