"""Stand-ins on real sockets, from a background thread, whose routes may block, or on the running loop."""

from __future__ import annotations

import asyncio
import json
import threading

import pytest
from websockets.asyncio.client import connect

from onefold.worlds.site import Request, Response, Site
from onefold.worlds.stream import Events, Stream
from tests.fast.worlds.calling import calling, fetch
from tests.fast.worlds.test_serving import (
    KINDS,
    test_a_stand_in_listens_at_the_address_that_is_given_and_again_after_a_stop,
    test_an_address_that_is_taken_is_an_error_and_leaves_no_thread,
    test_on_the_running_loop_there_is_no_other_thread_and_nothing_is_left,
)
from tests.waiting import PATIENCE

__all__ = [
    "test_a_stand_in_listens_at_the_address_that_is_given_and_again_after_a_stop",
    "test_an_address_that_is_taken_is_an_error_and_leaves_no_thread",
    "test_on_the_running_loop_there_is_no_other_thread_and_nothing_is_left",
]


def where(request: Request) -> Response:
    return Response(threading.current_thread().name)


def one_site() -> Site:
    return Site({("GET", "/"): where})


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
        with pytest.raises(RuntimeError, match="the URL of Site was read before it served"):
            await site.__aenter__()
        assert not site.running

    asyncio.run(main())


def test_a_blocking_route_of_a_background_site_holds_up_no_other():
    second_came = threading.Event()

    def first(request: Request) -> Response:
        return Response(second_came.wait(PATIENCE))

    def second(request: Request) -> Response:
        second_came.set()
        return Response("second")

    async def main() -> None:
        with Site({("GET", "/first"): first, ("GET", "/second"): second}) as site:
            answers = await asyncio.gather(fetch(site.url, "/first"), fetch(site.url, "/second"))
        assert tuple(answers) == (True, "second")

    asyncio.run(main())


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
