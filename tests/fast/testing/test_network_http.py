"""An unmodified HTTP client on the virtual network: kept connections, timeouts, and every fault."""

import asyncio
import socket

import httpx2
import pytest

from onefold.testing.virtual import VirtualLoop
from tests.fast.testing.serving import Site, client, echo, live, response

KEPT = httpx2.Limits(keepalive_expiry=None)
URL = "http://feed.test/trades"


async def silence(request: bytes, body: bytes) -> bytes:
    await asyncio.get_running_loop().create_future()
    raise AssertionError("nobody completes the future")


def test_requests_share_one_connection_even_after_an_hour():
    async def main(loop: VirtualLoop) -> tuple[list[str], int, float]:
        site = Site()
        await site.serve()
        async with client(limits=KEPT) as web:
            texts = [(await web.get(URL)).text, (await web.post(URL, content=b"body")).text]
            await asyncio.sleep(3600)
            texts.append((await web.get(URL + "?late")).text)
        return texts, len(site.writers), loop.time()

    texts, connections, ended = live(main)

    assert texts == ["GET /trades HTTP/1.1|", "POST /trades HTTP/1.1|body", "GET /trades?late HTTP/1.1|"]
    assert connections == 1
    assert ended > 3600


def test_a_kept_connection_that_the_server_closed_is_not_used_again():
    async def main(loop: VirtualLoop) -> tuple[int, int]:
        site = Site()
        await site.serve()
        async with client(limits=KEPT) as web:
            await web.get(URL)
            site.writers[0].close()
            await asyncio.sleep(1)
            await web.get(URL)
        return len(site.writers), site.requests

    assert live(main) == (2, 2)


def test_a_kept_connection_that_was_cut_is_not_used_again():
    async def main(loop: VirtualLoop) -> int:
        site = Site()
        await site.serve()
        async with client(limits=KEPT) as web:
            await web.get(URL)
            assert loop.network.cut("feed.test:80") == 1
            await asyncio.sleep(0)
            await web.get(URL)
        return len(site.writers)

    assert live(main) == 2


@pytest.mark.parametrize(("pause", "connections"), [(4.9, 1), (5.1, 2)])
def test_kept_connections_expire_in_virtual_time(pause, connections):
    async def main(loop: VirtualLoop) -> int:
        site = Site()
        await site.serve()
        async with client() as web:  # which keeps an idle connection for five seconds
            await web.get(URL)
            await asyncio.sleep(pause)
            await web.get(URL)
        return len(site.writers)

    assert live(main) == connections


def test_a_read_timeout_ends_at_its_exact_moment():
    async def main(loop: VirtualLoop) -> float:
        loop.network.latency = (0.25, 0.25)
        await Site(silence).serve()
        async with client(timeout=5) as web:
            with pytest.raises(httpx2.ReadTimeout):
                await web.get(URL)
            return loop.time()

    assert live(main) == 5.5  # a round trip to connect, then five seconds of silence


def test_a_stalled_answer_comes_when_the_stall_ends():
    async def main(loop: VirtualLoop) -> tuple[float, str]:
        loop.network.latency = (0.25, 0.25)
        await Site().serve()
        loop.network.stall(60, "feed.test:80")
        async with client(timeout=100) as web:
            answer = await web.get(URL)
        return loop.time(), answer.text

    assert live(main) == (60.25, "GET /trades HTTP/1.1|")


def test_a_stall_longer_than_the_timeout_is_a_read_timeout():
    async def main(loop: VirtualLoop) -> float:
        loop.network.latency = (0.25, 0.25)
        await Site().serve()
        async with client(timeout=5, limits=KEPT) as web:
            await web.get(URL)
            begun = loop.time()
            loop.network.stall(3600)
            with pytest.raises(httpx2.ReadTimeout):
                await web.get(URL)
            return loop.time() - begun

    assert live(main) == 5


def test_connecting_into_a_black_hole_ends_with_the_clients_own_timeout():
    async def main(loop: VirtualLoop) -> float:
        await Site().serve()
        loop.network.black_hole("feed.test")
        async with client(timeout=httpx2.Timeout(60, connect=3)) as web:
            with pytest.raises(httpx2.ConnectTimeout):
                await web.get(URL)
            failed = loop.time()
            loop.network.heal("feed.test")
            await web.get(URL)
        return failed

    assert live(main) == 3


def test_a_refused_address_answers_again_after_healing():
    async def main(loop: VirtualLoop) -> tuple[int, int]:
        site = Site()
        await site.serve()
        await Site().serve("other.test")
        loop.network.refuse("feed.test:80")
        async with client() as web:
            with pytest.raises(httpx2.ConnectError, match="All connection attempts failed"):
                await web.get(URL)
            with pytest.raises(ConnectionRefusedError):
                await asyncio.open_connection("feed.test", 80)
            elsewhere = await web.get("http://other.test/")
            loop.network.heal("feed.test:80")
            answer = await web.get(URL)
        return elsewhere.status_code, answer.status_code

    assert live(main) == (200, 200)


def test_an_address_that_nobody_serves_refuses():
    async def main(loop: VirtualLoop) -> None:
        await Site().serve()
        async with client() as web:
            with pytest.raises(httpx2.ConnectError):
                await web.get("http://feed.test:81/")
            with pytest.raises(httpx2.ConnectError):
                await web.get("http://127.0.0.1:80/")

    live(main)


def test_an_unknown_host_does_not_resolve():
    async def main(loop: VirtualLoop) -> None:
        async with client() as web:
            with pytest.raises(httpx2.ConnectError, match=r"Name or service not known.*'feed\.test'"):
                await web.get(URL)

    live(main)


def test_a_cut_in_the_middle_of_a_body_is_a_read_error():
    async def half(request: bytes, body: bytes) -> bytes:
        asyncio.get_running_loop().call_later(1, loop_of_test.network.cut)
        return response(b"x" * 500, length=1000)

    loop_of_test = VirtualLoop(1)

    async def main() -> tuple[int, float]:
        await Site(half).serve()
        async with client() as web:
            async with web.stream("GET", URL) as answer:
                pieces = answer.aiter_raw()
                first = await anext(pieces)
                with pytest.raises(httpx2.ReadError):
                    await anext(pieces)
            return len(first), loop_of_test.time()

    got, ended = loop_of_test.run(main())

    assert got == 500
    assert 1 < ended < 1.1


def test_a_half_open_connection_takes_a_request_and_stays_silent():
    async def main(loop: VirtualLoop) -> tuple[int, int]:
        site = Site()
        await site.serve()
        async with client(timeout=5, limits=KEPT) as web:
            await web.get(URL)
            assert loop.network.half_open("feed.test") == 1
            with pytest.raises(httpx2.ReadTimeout):
                await web.get(URL)
            await web.get(URL)  # on a new connection
        return len(site.writers), site.requests

    assert live(main) == (2, 2)


def test_large_bodies_go_both_ways():
    body = bytes(range(256)) * 20_480  # 5 MiB

    async def main(loop: VirtualLoop) -> bytes:
        await Site().serve()
        async with client() as web:
            return (await web.post(URL, content=body)).content

    assert live(main) == b"POST /trades HTTP/1.1|" + body


def test_no_real_socket_is_opened(monkeypatch):
    loop = VirtualLoop(1)  # its self-pipe is the only one

    def forbidden(*args: object, **options: object) -> None:
        raise AssertionError("a real socket was asked for")

    async def main() -> str:
        await Site(echo).serve("127.0.0.1", 8000)
        async with client() as web:
            return (await web.get("http://127.0.0.1:8000/")).text

    monkeypatch.setattr(socket, "socket", forbidden)
    monkeypatch.setattr(socket, "getaddrinfo", forbidden)

    assert loop.run(main()) == "GET / HTTP/1.1|"


def test_many_clients_at_once_are_all_answered():
    async def main(loop: VirtualLoop) -> tuple[set[int], int]:
        site = Site()
        await site.serve()
        async with client(limits=httpx2.Limits(max_connections=None)) as web:
            answers = await asyncio.gather(*(web.get(f"{URL}?{number}") for number in range(200)))
        return {answer.status_code for answer in answers}, len(site.writers)

    assert live(main) == ({200}, 200)
