"""TLS on the virtual network: asyncio, httpx2 and websockets encrypt and verify as on real sockets."""

import asyncio
import gc
import ssl

import httpx2
import pytest
from websockets.asyncio.client import connect
from websockets.asyncio.server import ServerConnection, serve

from onefold.runtime import using
from onefold.testing.runtime import VirtualRuntime
from onefold.testing.virtual import VirtualLoop
from tests.fast.testing.serving import Site, certified, client, live, trusting
from tests.servers.stores.tls import AUTHORITY

URL = "https://localhost/trades"
SLOW = (0.25, 0.25)
"""A latency that is easy to count."""


async def secure(certificate: str = "local", host: str = "localhost") -> Site:
    site = Site()
    await site.serve(host, 443, ssl=certified(certificate))
    return site


def test_a_client_reaches_a_server_by_https_and_keeps_the_connection():
    async def main(loop: VirtualLoop) -> tuple[list[str], int]:
        site = await secure()
        async with client(verify=trusting()) as web:
            texts = [(await web.get(URL)).text, (await web.post(URL, content=b"body")).text]
        return texts, len(site.writers)

    assert live(main) == (["GET /trades HTTP/1.1|", "POST /trades HTTP/1.1|body"], 1)


@pytest.mark.parametrize(
    ("certificate", "host", "verify", "trouble"),
    [
        ("other", "localhost", trusting, "not valid for 'localhost'"),
        ("local", "other.example", trusting, "not valid for 'other.example'"),
        ("local", "localhost", ssl.create_default_context, "unable to get local issuer certificate"),
    ],
)
def test_a_server_that_cannot_prove_its_name_gets_no_request(certificate, host, verify, trouble):
    async def main(loop: VirtualLoop) -> int:
        site = await secure(certificate, host)
        async with client(verify=verify()) as web:
            with pytest.raises(httpx2.ConnectError, match=trouble):
                await web.get(f"https://{host}/trades")
        with pytest.raises(ssl.SSLCertVerificationError, match=trouble):
            await asyncio.open_connection(host, 443, ssl=verify())
        await asyncio.sleep(1)
        assert loop.network.connections == 0
        return site.requests

    assert live(main) == 0


def test_the_name_to_verify_may_differ_from_the_host():
    async def main(loop: VirtualLoop) -> None:
        await secure("other", "localhost")
        _, writer = await asyncio.open_connection(
            "localhost", 443, ssl=trusting(), server_hostname="other.example"
        )
        writer.close()
        await writer.wait_closed()

    live(main)


def test_a_connection_without_a_context_trusts_the_authorities_of_the_environment(monkeypatch):
    async def main(loop: VirtualLoop) -> str:
        await secure()
        _, writer = await asyncio.open_connection("localhost", 443, ssl=True)
        writer.close()
        await writer.wait_closed()
        return str(writer.get_extra_info("peercert")["subject"][0][0][1])

    monkeypatch.setenv("SSL_CERT_FILE", str(AUTHORITY))

    assert live(main) == "local"


def test_a_plain_connection_becomes_an_encrypted_one():
    heard: list[tuple[bool, bytes]] = []

    async def served(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heard.append((is_encrypted(writer), await reader.readline()))
        writer.write(b"go\n")
        await writer.start_tls(certified("local"))
        heard.append((is_encrypted(writer), await reader.readline()))
        writer.close()
        await writer.wait_closed()

    async def main(loop: VirtualLoop) -> bytes:
        await asyncio.start_server(served, "localhost", 25)
        reader, writer = await asyncio.open_connection("localhost", 25)
        writer.write(b"STARTTLS\n")
        assert await reader.readline() == b"go\n"
        await writer.start_tls(trusting(), server_hostname="localhost")
        writer.write(b"secret\n")
        rest = await reader.read()
        writer.close()
        await writer.wait_closed()
        return rest

    assert live(main) == b""
    assert heard == [(False, b"STARTTLS\n"), (True, b"secret\n")]


def is_encrypted(writer: asyncio.StreamWriter) -> bool:
    return writer.get_extra_info("ssl_object") is not None


def test_a_websocket_is_encrypted():
    async def echo(connection: ServerConnection) -> None:
        async for message in connection:
            await connection.send(message)

    async def main(loop: VirtualLoop) -> str | bytes:
        async with (
            serve(echo, "localhost", 443, ssl=certified("local")),
            connect("wss://localhost/", ssl=trusting(), proxy=None) as feed,
        ):
            await feed.send("hello")
            return await feed.recv()

    assert live(main) == "hello"


def test_large_bodies_go_both_ways():
    body = bytes(range(256)) * 8_192  # 2 MiB

    async def main(loop: VirtualLoop) -> bytes:
        await secure()
        async with client(verify=trusting()) as web:
            return (await web.post(URL, content=body)).content

    assert live(main) == b"POST /trades HTTP/1.1|" + body


def test_a_handshake_that_is_not_answered_ends_at_its_exact_moment():
    async def main(loop: VirtualLoop) -> float:
        loop.network.latency = SLOW
        await loop.create_server(asyncio.Protocol, "localhost", 443)
        with pytest.raises(ConnectionAbortedError, match="handshake is taking longer"):
            await asyncio.open_connection("localhost", 443, ssl=trusting(), ssl_handshake_timeout=7)
        return loop.time()

    assert live(main) == 7.5  # a round trip to connect, and the timeout


def test_a_client_that_does_not_encrypt_is_cut_by_the_timeout_of_the_server():
    async def main(loop: VirtualLoop) -> tuple[bytes, float]:
        loop.network.latency = SLOW
        await Site().serve("localhost", 443, ssl=certified("local"), ssl_handshake_timeout=7)
        reader, writer = await asyncio.open_connection("localhost", 443)
        rest = await reader.read()
        writer.close()
        return rest, loop.time()

    assert live(main) == (b"", 7.5)  # the server's seven seconds begin when the question arrives


def test_a_cut_in_a_handshake_is_an_error():
    async def main(loop: VirtualLoop) -> None:
        loop.network.latency = SLOW
        await secure()
        loop.call_later(0.6, loop.network.cut)
        with pytest.raises(ConnectionResetError):
            await asyncio.open_connection("localhost", 443, ssl=trusting())

    live(main)


def test_equal_seeds_give_equal_moments():
    async def main(loop: VirtualLoop) -> list[object]:
        await secure()
        loop.network.set_rates(cut=0.3, stall=0.3, half_open=0.2, within=5)
        told: list[object] = []
        async with client(verify=trusting(), timeout=3) as web:
            for _ in range(10):
                try:
                    told.append((await web.get(URL)).status_code)
                except httpx2.HTTPError as error:
                    told.append(type(error))
                told.append(loop.time())
                await asyncio.sleep(1)
        return told

    first = live(main, 5)

    assert {200, httpx2.ReadError, httpx2.ReadTimeout} & set(first) > {200}
    assert live(main, 5) == first
    assert live(main, 6) != first


def test_the_connections_of_a_worker_that_died_complain_about_nothing():
    async def main(loop: VirtualLoop) -> object:
        died = VirtualRuntime(loop)
        await secure()
        with using(died):
            opened = await asyncio.open_connection("localhost", 443, ssl=trusting())
        loop.network.abandon(died, silently=True)
        return opened

    live(main)
    gc.collect()  # a transport that is open when it is collected warns, and warnings are errors


def test_a_server_needs_a_context_and_names_the_mistake():
    async def main(loop: VirtualLoop) -> None:
        with pytest.raises(TypeError, match="must be an SSLContext"):
            await asyncio.start_server(lambda *_: None, "localhost", 443, ssl=True)

    live(main)
