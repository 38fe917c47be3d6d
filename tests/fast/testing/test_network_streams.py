"""asyncio's own streams and protocols on the virtual network: names, order, flow control, endings."""

import asyncio
import contextlib
import socket
from typing import Any

import pytest

from onefold.testing.virtual import VirtualLoop
from tests.fast.testing.serving import live

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]
KEPT: list[Streams] = []
"""What a test opened; a stream that is dropped before its loop is closed complains."""


@pytest.fixture(autouse=True)
def _nothing_kept():
    yield
    KEPT.clear()


async def opened(host: str, port: int) -> Streams:
    KEPT.append(await asyncio.open_connection(host, port))
    return KEPT[-1]


async def accepting(loop: VirtualLoop, host: str = "feed.test", port: int = 80) -> "asyncio.Queue[Streams]":
    """Serve an address, and hand out the server's side of each connection."""
    accepted: asyncio.Queue[Streams] = asyncio.Queue()

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        KEPT.append((reader, writer))
        accepted.put_nowait((reader, writer))

    await asyncio.start_server(connected, host, port)
    return accepted


async def connected(loop: VirtualLoop) -> tuple[Streams, Streams]:
    """Make one connection; return the client's side and the server's."""
    accepted = await accepting(loop)
    mine = await opened("feed.test", 80)
    return mine, await accepted.get()


def test_a_connection_carries_bytes_and_half_closes():
    async def main(loop: VirtualLoop) -> tuple[bytes, bytes]:
        (reader, writer), (far_reader, far_writer) = await connected(loop)
        writer.write(b"question")
        writer.write_eof()
        asked = await far_reader.read()
        far_writer.write(b"answer")
        far_writer.close()
        await far_writer.wait_closed()
        return asked, await reader.read()

    assert live(main) == (b"question", b"answer")


def test_both_sides_know_their_addresses():
    async def main(loop: VirtualLoop) -> None:
        (_, writer), (_, far) = await connected(loop)
        assert writer.get_extra_info("peername") == far.get_extra_info("sockname")
        assert writer.get_extra_info("sockname") == far.get_extra_info("peername")
        assert writer.get_extra_info("peername") == (loop.network.names["feed.test"], 80)
        assert writer.get_extra_info("socket").getpeername() == writer.get_extra_info("peername")
        assert writer.get_extra_info("ssl_object") is None

    live(main)


def test_port_zero_gets_the_same_port_on_every_loop():
    async def main(loop: VirtualLoop) -> list[Any]:
        servers = [await asyncio.start_server(lambda *_: None, "127.0.0.1", 0) for _ in range(2)]
        return [server.sockets[0].getsockname() for server in servers]

    first = live(main)

    assert first == live(main)
    assert first[0] != first[1]


def test_port_zero_passes_over_a_taken_port():
    async def main(loop: VirtualLoop) -> set[int]:
        ports = set()
        for port in (49153, 0, 0):
            server = await loop.create_server(asyncio.Protocol, "127.0.0.1", port)
            ports.add(server.sockets[0].getsockname()[1])  # type: ignore[attr-defined]
        return ports

    assert live(main) == {49153, 49154, 49155}


def test_a_taken_address_cannot_be_served_twice_and_a_closed_one_can():
    async def main(loop: VirtualLoop) -> None:
        server = await asyncio.start_server(lambda *_: None, "feed.test", 80)
        with pytest.raises(OSError, match="already in use"):
            await asyncio.start_server(lambda *_: None, "feed.test", 80)
        server.close()
        await server.wait_closed()
        with pytest.raises(ConnectionRefusedError):
            await opened("feed.test", 80)
        await asyncio.start_server(lambda *_: None, "feed.test", 80)

    live(main)


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", None, "0.0.0.0"])
def test_a_local_server_is_reached_by_its_address(host):
    async def main(loop: VirtualLoop) -> None:
        await accepting(loop, host, 8000)
        for name in ("127.0.0.1", "localhost"):
            _, writer = await opened(name, 8000)
            writer.close()

    live(main)


def test_a_name_can_be_given_and_taken_away():
    async def main(loop: VirtualLoop) -> None:
        await accepting(loop)
        loop.network.names["mirror.test"] = loop.network.names["feed.test"]
        _, writer = await opened("MIRROR.test", 80)
        writer.close()
        del loop.network.names["mirror.test"]
        with pytest.raises(socket.gaierror):
            await opened("mirror.test", 80)

    live(main)


def test_a_server_that_does_not_serve_yet_refuses():
    async def main(loop: VirtualLoop) -> None:
        server = await loop.create_server(asyncio.Protocol, "feed.test", 80, start_serving=False)
        with pytest.raises(ConnectionRefusedError):
            await opened("feed.test", 80)
        await server.start_serving()
        await opened("feed.test", 80)

    live(main)


def test_serving_for_ever_ends_with_cancellation():
    async def main(loop: VirtualLoop) -> None:
        server = await asyncio.start_server(lambda *_: None, "feed.test", 80)
        serving = asyncio.ensure_future(server.serve_forever())
        await asyncio.sleep(1)
        serving.cancel()
        with pytest.raises(asyncio.CancelledError):
            await serving
        assert not server.is_serving()

    live(main)


def test_bytes_arrive_in_order_across_a_stall():
    async def main(loop: VirtualLoop) -> list[tuple[int, float]]:
        loop.network.latency = (0.5, 0.5)
        (_, writer), (far, _) = await connected(loop)
        start, got = loop.time(), []

        async def count() -> None:
            for number in range(10):
                writer.write(bytes([number]))
                if number == 3:
                    loop.network.stall(4)
                await asyncio.sleep(1)

        counting = asyncio.ensure_future(count())
        for _ in range(10):
            [number] = await far.readexactly(1)
            got.append((number, loop.time() - start))
        await counting
        return got

    # The fourth byte was written at 3 s and held until 7 s, with everything that would have come by then.
    arrivals = [0.5, 1.5, 2.5, 7, 7, 7, 7, 7.5, 8.5, 9.5]
    assert live(main) == list(enumerate(arrivals))


def test_healing_ends_a_stall():
    async def main(loop: VirtualLoop) -> float:
        (_, writer), (far, _) = await connected(loop)
        loop.network.stall(3600, "feed.test")
        writer.write(b"x")
        await asyncio.sleep(10)
        loop.network.heal("feed.test")
        await far.readexactly(1)
        return loop.time()

    assert live(main) < 11


def test_a_slow_reader_holds_the_writer_back():
    total, piece = 5 * 1024 * 1024, b"x" * 50_000

    async def main(loop: VirtualLoop) -> tuple[int, int]:
        (_, writer), (far, _) = await connected(loop)
        sent = read = ahead = 0

        async def send() -> None:
            nonlocal sent
            while sent < total:
                writer.write(piece)
                sent += len(piece)
                await writer.drain()
            writer.write_eof()

        sending = asyncio.ensure_future(send())
        while got := await far.read(10_000):
            read += len(got)
            ahead = max(ahead, sent - read)
            await asyncio.sleep(0.01)
        await sending
        return read - sent, ahead

    missing, ahead = live(main)

    assert missing == 0
    assert ahead < 512 * 1024  # two windows, the buffers of both streams, one piece


def test_a_writer_is_resumed_after_a_burst():
    calls: list[str] = []

    class Bursting(asyncio.Protocol):
        def connection_made(self, transport: Any) -> None:
            transport.set_write_buffer_limits(1000, 100)
            transport.write(b"x" * 500_000)
            transport.write_eof()

        def pause_writing(self) -> None:
            calls.append("pause")

        def resume_writing(self) -> None:
            calls.append("resume")

    async def main(loop: VirtualLoop) -> int:
        await loop.create_server(Bursting, "feed.test", 80)
        reader, _ = await opened("feed.test", 80)
        return len(await reader.read())

    assert live(main) == 500_000
    assert calls == ["pause", "resume"]


def test_writing_to_a_side_that_is_gone_is_a_reset():
    async def main(loop: VirtualLoop) -> None:
        (_, writer), (_, far) = await connected(loop)
        far.close()
        await asyncio.sleep(1)
        writer.write(b"too late")
        await asyncio.sleep(1)
        with pytest.raises(ConnectionResetError):
            await writer.drain()

    live(main)


def test_a_cut_reaches_both_sides_and_spares_other_hosts():
    async def main(loop: VirtualLoop) -> None:
        others = await accepting(loop, "other.test")
        near, far = await connected(loop)
        other = await opened("other.test", 80)
        loop.network.cut("feed.test")
        for reader, _ in (near, far):
            with pytest.raises(ConnectionResetError):
                await reader.read()
        other[1].write(b"fine")
        assert await (await others.get())[0].readexactly(4) == b"fine"

    live(main)


def test_half_open_bytes_vanish_and_neither_side_notices():
    async def main(loop: VirtualLoop) -> None:
        (_, writer), (far, far_writer) = await connected(loop)
        writer.write(b"seen")
        assert await far.readexactly(4) == b"seen"
        loop.network.half_open()
        writer.write(b"vanished")
        writer.close()
        await writer.wait_closed()
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(far.read(1), 3600)
        assert not far_writer.is_closing()

    live(main)


def test_a_half_open_connection_fills_up_and_holds_its_writer():
    async def main(loop: VirtualLoop) -> None:
        (_, writer), _ = await connected(loop)
        loop.network.half_open()

        async def write() -> None:
            while True:
                writer.write(b"x" * 10_000)
                await writer.drain()

        with pytest.raises(TimeoutError):
            await asyncio.wait_for(write(), 3600)

    live(main)


def test_an_abandoned_attempt_leaves_no_connection():
    async def main(loop: VirtualLoop) -> int:
        loop.network.latency = (1.0, 1.0)
        accepted = await accepting(loop)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(opened("feed.test", 80), 1.5)
        reader, writer = await accepted.get()
        assert await reader.read() == b""
        writer.close()
        await asyncio.sleep(10)
        return loop.network.connections

    assert live(main) == 0


def test_a_protocol_that_fails_is_reported_and_closed():
    class Failing(asyncio.Protocol):
        def data_received(self, data: bytes) -> None:
            raise ZeroDivisionError("planted")

    async def main(loop: VirtualLoop) -> list[str]:
        reports: list[str] = []
        loop.set_exception_handler(lambda _, context: reports.append(repr(context["exception"])))
        await loop.create_server(Failing, "feed.test", 80)
        reader, writer = await opened("feed.test", 80)
        writer.write(b"x")
        assert await reader.read() == b""
        return reports

    assert live(main) == ["ZeroDivisionError('planted')"]


@pytest.mark.parametrize("fault", ["refuse", "cut", "stall", "half_open", "black_hole"])
def test_rates_draw_a_fault_for_each_new_connection(fault):
    async def attempt(loop: VirtualLoop) -> str:
        begun = loop.time()
        try:
            async with asyncio.timeout(100):
                reader, writer = await opened("feed.test", 80)
                for number in range(40):
                    writer.write(bytes([number]))
                    if await reader.readexactly(1) != bytes([number]):
                        return "garbled"
                    await asyncio.sleep(1)
        except ConnectionRefusedError:
            return "refuse"
        except ConnectionResetError:
            return "cut"
        except TimeoutError:
            return "black_hole" if loop.network.connections == 0 else "half_open"
        return "stall" if loop.time() - begun > 41 else "none"

    async def main(loop: VirtualLoop) -> list[str]:
        async def parrot(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            with contextlib.suppress(ConnectionError, asyncio.CancelledError):
                while data := await reader.read(1):
                    writer.write(data)
            writer.close()

        await asyncio.start_server(parrot, "feed.test", 80)
        rate: Any = {fault: 0.5}
        loop.network.set_rates("feed.test", **rate, within=20, stall_for=(5, 50))
        seen = []
        for _ in range(12):
            seen.append(await attempt(loop))
            loop.network.cut()
            await asyncio.sleep(1)
        return seen

    seen = live(main, 7)

    assert set(seen) == {"none", fault}
    assert seen == live(main, 7)
    assert seen != live(main, 8)


def test_rates_above_one_are_refused():
    async def main(loop: VirtualLoop) -> None:
        with pytest.raises(ValueError, match="at most 1"):
            loop.network.set_rates(cut=0.6, stall=0.6)

    live(main)


@pytest.mark.parametrize("where", ["nowhere.test", "nowhere.test:80", ("nowhere.test", 80)])
def test_a_fault_needs_a_known_host(where):
    async def main(loop: VirtualLoop) -> None:
        with pytest.raises(socket.gaierror, match="nowhere"):
            loop.network.refuse(where)

    live(main)


def test_what_the_network_lacks_is_said_clearly():
    async def main(loop: VirtualLoop) -> None:
        options: Any = {"sock": object()}
        with pytest.raises(NotImplementedError, match="the virtual network takes no sockets"):
            await asyncio.open_connection("feed.test", 443, **options)
        with pytest.raises(NotImplementedError, match="the virtual network takes no sockets"):
            await loop.create_server(asyncio.Protocol, "feed.test", 443, **options)
        with pytest.raises(NotImplementedError, match="create_unix_server"):
            await asyncio.start_unix_server(lambda *_: None, "x.sock")

    live(main)


@pytest.mark.parametrize("host", ["a..b", "x" * 64 + ".test"])
def test_a_text_that_cannot_be_a_name_is_an_error_of_its_own(host):
    async def main(loop: VirtualLoop) -> None:
        with pytest.raises(UnicodeError):
            await asyncio.open_connection(host, 80)
        with pytest.raises(UnicodeError):
            await loop.getaddrinfo(host, 80)

    live(main)
