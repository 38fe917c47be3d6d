"""The runtime of the running code: blocks, tasks and workers each have the one that was chosen for them."""

import asyncio

import anyio
import pytest

from onefold.core.errors import Misconfigured
from onefold.runtime import Runtime, current, monotonic, now, using
from onefold.runtime.websocket import Opening


class Elsewhere(Runtime):
    """A runtime whose clocks stand still."""

    def time(self) -> float:
        return 7.0

    def monotonic(self) -> float:
        return 8.0


def test_a_block_has_the_runtime_that_it_uses_and_no_longer():
    before = current()

    with using(Elsewhere()):
        assert (now(), monotonic()) == (7.0, 8.0)

    assert current() is before


def test_one_runtime_runs_one_worker_at_a_time():
    async def twice() -> None:
        runtime = Runtime()
        async with runtime.running():
            with pytest.raises(Misconfigured, match="a runtime of its own"):
                async with runtime.running():
                    pass
        async with runtime.running():  # one after the other is fine
            pass

    anyio.run(twice)


def test_tokens_differ_and_have_128_bits():
    runtime = Runtime()
    drawn = [*runtime.tokens(100), runtime.token(), runtime.token()]

    assert len(set(drawn)) == 102
    assert {len(one) for one in drawn} == {32}


def test_chance_stays_between_its_bounds():
    runtime = Runtime()
    drawn = [runtime.uniform(2.0, 3.0) for _ in range(100)]

    assert all(2.0 <= one <= 3.0 for one in drawn)
    assert len(set(drawn)) > 90


def test_a_websocket_that_nobody_serves_is_refused():
    with pytest.raises(OSError, match="Connect call failed"):
        anyio.run(current().websocket, Opening("ws://127.0.0.1:1/", {}, 5.0, 1.0, 1000))


def test_streams_are_connections():
    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(await reader.readline())
        writer.close()

    async def said() -> bytes:
        async with await asyncio.start_server(echo, "127.0.0.1", 0) as server:
            host, port = server.sockets[0].getsockname()
            reader, writer = await current().stream(host, port, 100)
            writer.write(b"hello\n")
            line = await reader.readline()
            writer.close()
            await writer.wait_closed()
            return line

    assert anyio.run(said) == b"hello\n"
