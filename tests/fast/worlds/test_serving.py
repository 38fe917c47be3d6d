"""Where stand-ins listen, and what is left when they stop; see `tests/processes/worlds` for threads."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest

from onefold.worlds.chain import Chain, Node
from onefold.worlds.serving import Listening, StandIn
from onefold.worlds.site import Response, Site
from onefold.worlds.smtp import SmtpWorld
from onefold.worlds.stream import Events, Stream
from tests.fast.worlds.calling import calling, fetch
from tests.waiting import until

KINDS: dict[str, Callable[[], StandIn | Node]] = {
    "site": lambda: Site({}),
    "smtp": SmtpWorld,
    "stream": lambda: Stream(Events()),
    "node": lambda: Node(Chain()),
}


def one_site() -> Site:
    return Site({("GET", "/"): lambda request: Response("here")})


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


@pytest.mark.parametrize("seconds", [[1], [0] * 20])
def test_a_stand_in_that_waits_while_it_begins_cannot_begin_within_a_running_loop(seconds: list[float]):
    class Slow(Site):
        async def _listen(self, **where: Any) -> Listening:
            for one in seconds:
                await asyncio.sleep(one)
            return await super()._listen(**where)

    async def main() -> None:
        slow = Slow({})
        with pytest.raises(RuntimeError, match="use `async with`"):
            slow.__enter__()
        assert not slow.running
        async with slow:
            assert slow.running

    asyncio.run(main())


def test_a_node_listens_at_two_ports_of_one_host():
    node = Node(Chain()).at("node.test", 80, 8546)

    assert node.url == "http://node.test:80/"
    assert node.stream.url == "ws://node.test:8546/feed"
