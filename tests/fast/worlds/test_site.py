"""The HTTP site of the stand-ins; `tests/processes/worlds` has the same tests with real sockets."""

from __future__ import annotations

import asyncio
import json

import pytest

from onefold.worlds.mischief import Mischief, Trick
from onefold.worlds.site import Request, Response, Site
from tests.fast.worlds.calling import Mode, calling, fetch, served
from tests.waiting import PATIENCE, until


def test_a_question_that_was_cut_off_reaches_no_route_and_no_log(capfd):
    heard: list[Request] = []

    def route(request: Request) -> Response:
        heard.append(request)
        return Response(request.json())

    async def main() -> tuple[bytes, bytes]:
        async with Site({("POST", "/said"): route}) as site:
            return await _posted(site.url, b'{"a": 1}', length=8), await _posted(site.url, b'{"a"', length=8)

    whole, torn = asyncio.run(main())

    assert whole.endswith(b'\r\n\r\n{"a": 1}')
    assert torn == b""
    assert [request.body for request in heard] == [b'{"a": 1}']
    assert "Traceback" not in capfd.readouterr().err


async def _posted(url: str, body: bytes, length: int) -> bytes:
    """Say that many bytes will come, send these, hang up, and read what is answered."""
    async with calling(url) as caller:
        caller.say(f"POST /said HTTP/1.1\r\nHost: x\r\nContent-Length: {length}\r\n\r\n".encode() + body)
        caller.writer.write_eof()
        return await caller.rest()


class Shop:
    """A route that counts."""

    def __init__(self) -> None:
        self.sold = 0

    def sell(self, request: Request) -> Response:
        self.sold += 1
        return Response([self.sold] * 10)

    def site(self, mischief: Mischief | None = None) -> Site:
        return Site({("GET", "/sell"): self.sell, ("POST", "/sell"): self.sell}, mischief)


def test_questions_of_one_connection_are_answered_one_after_another(mode: Mode):
    heard: list[Request] = []

    def route(request: Request) -> Response:
        heard.append(request)
        return Response({"number": len(heard)}, 201, {"X-Number": str(len(heard))})

    async def main() -> None:
        site = Site({("POST", "/said/*"): route})
        async with served(site, mode), calling(site.url) as caller:
            caller.ask("/said/a?b=1&b=2&c=", b"one")
            assert await caller.answer() == (201, _headers(13, x_number="1"), b'{"number": 1}')
            caller.ask("/said/d", b"")
            assert await caller.answer() == (201, _headers(13, x_number="2"), b'{"number": 2}')
            caller.ask("/nowhere")
            assert (await caller.answer())[0] == 404

    asyncio.run(main())
    assert [(one.method, one.path, one.body) for one in heard] == [
        ("POST", "/said/a", b"one"),
        ("POST", "/said/d", b""),
    ]
    assert heard[0].query == {"b": "2", "c": ""}
    assert heard[0].raw_query == "b=1&b=2&c="
    assert heard[0].headers["Host"] == "x"


def _headers(length: int, **more: str) -> dict[str, str]:
    names = {name.replace("_", "-"): value for name, value in more.items()}
    return {"content-type": "application/json", "content-length": str(length), **names}


def test_a_client_that_asks_for_it_is_answered_once_and_closed(mode: Mode):
    async def main() -> bytes:
        async with served(Shop().site(), mode) as site, calling(site.url) as caller:
            caller.say(b"GET /sell HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
            return await caller.rest()

    assert asyncio.run(main()).endswith(json.dumps([1] * 10).encode())


def test_a_client_that_speaks_no_http_is_cut_and_reaches_no_route(mode: Mode, capfd):
    async def main() -> None:
        async with served(Shop().site(), mode) as site:
            async with calling(site.url) as caller:
                caller.say(b"EHLO you\r\n\r\n")
                assert await caller.rest() == b""
            assert site.requests == []

    asyncio.run(main())
    assert "Traceback" not in capfd.readouterr().err


@pytest.mark.parametrize(
    ("trick", "sold", "said"),
    [
        ("cut-before", 0, b""),
        ("cut-after", 1, b""),
        ("half", 1, json.dumps([1] * 10).encode()[:15]),
    ],
)
def test_a_connection_is_cut_before_after_or_within_an_answer(mode: Mode, trick: Trick, sold: int, said):
    shop = Shop()

    async def main() -> bytes:
        site = shop.site(Mischief(rates={trick: 1.0}))
        async with served(site, mode), calling(site.url) as caller:
            caller.ask("/sell")
            return await caller.rest()

    whole = asyncio.run(main())
    assert whole.partition(b"\r\n\r\n")[2] == said
    assert (b"content-length: 30" in whole.lower()) == (trick == "half")
    assert shop.sold == sold


@pytest.mark.parametrize(
    ("trick", "sold", "status", "said"),
    [
        ("error", 0, 500, b'{"error": "internal"}'),
        ("busy", 0, 429, b'{"error": "too many requests"}'),
        ("empty", 0, 200, b"[]"),
        ("garbage", 0, 200, b"<html>oops"),
        ("stale", 1, 200, json.dumps([1] * 10).encode()),
        ("stall", 2, 200, json.dumps([2] * 10).encode()),
    ],
)
def test_an_answer_is_spoilt_but_arrives(mode: Mode, trick: Trick, sold: int, status: int, said: bytes):
    shop = Shop()

    async def main() -> tuple[int, bytes]:
        site = shop.site(Mischief(stall=0.01))
        async with served(site, mode), calling(site.url) as caller:
            if trick in ("stale", "stall"):
                caller.ask("/sell")
                await caller.answer()
            site.mischief.rates = {trick: 1.0}
            caller.ask("/sell")
            status, _, body = await caller.answer()
            return status, body

    assert asyncio.run(main()) == (status, said)
    assert shop.sold == sold


def test_a_stalled_answer_holds_up_no_other_and_ends_with_the_site(mode: Mode):
    async def main() -> None:
        site = Shop().site(Mischief(rates={"stall": 1.0}, stall=3600))
        async with served(site, mode), calling(site.url) as stalled:
            stalled.ask("/sell")
            await until(lambda: len(site.requests) == 1)
            site.mischief.stop()
            assert await fetch(site.url, "/sell") == [2] * 10
            await _closed(site, mode)
            assert await stalled.rest() == b""

    asyncio.run(asyncio.wait_for(main(), PATIENCE))


async def _closed(site: Site, mode: Mode) -> None:
    if mode == "async with":
        await site.__aexit__(None, None, None)
    else:
        site.__exit__(None, None, None)


def test_a_large_answer_and_a_large_question_arrive_whole(mode: Mode):
    async def main() -> None:
        site = Site({("POST", "/echo"): lambda request: Response(request.body)})
        async with served(site, mode), calling(site.url) as caller:
            body = bytes(range(256)) * 4_000
            caller.ask("/echo", body)
            assert (await caller.answer())[2] == body

    asyncio.run(main())


def test_an_error_of_a_route_is_reported_and_cuts_the_connection():
    def wrong(request: Request) -> Response:
        raise ZeroDivisionError

    async def main() -> list[object]:
        reported: list[object] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, facts: reported.append(facts["exception"]))
        async with Site({("GET", "/"): wrong}) as site, calling(site.url) as caller:
            caller.ask("/")
            assert await caller.rest() == b""
        return reported

    [error] = asyncio.run(main())
    assert isinstance(error, ZeroDivisionError)
