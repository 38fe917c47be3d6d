"""The runtime of the running code: the real one outside of a worker, another inside of a simulation."""

import asyncio
import threading

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


def test_outside_of_a_worker_the_runtime_is_the_real_one():
    runtime = current()

    assert type(runtime) is Runtime
    assert abs(runtime.time() - now()) < 60
    assert runtime.monotonic() <= monotonic()


def test_a_block_has_the_runtime_that_it_uses_and_no_longer():
    with using(Elsewhere()):
        assert (now(), monotonic()) == (7.0, 8.0)

    assert type(current()) is Runtime


def test_tasks_and_threads_started_inside_have_the_same_runtime():
    async def inside() -> list[float]:
        async with Elsewhere().running():
            task = asyncio.create_task(asyncio.to_thread(now))
            return [await task, await current().blocking(now), now()]

    assert anyio.run(inside) == [7.0, 7.0, 7.0]


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
    drawn = [*current().tokens(100), current().token(), current().token()]

    assert len(set(drawn)) == 102
    assert {len(one) for one in drawn} == {32}


def test_chance_stays_between_its_bounds():
    drawn = [current().uniform(2.0, 3.0) for _ in range(100)]

    assert all(2.0 <= one <= 3.0 for one in drawn)
    assert len(set(drawn)) > 90


def test_blocking_functions_run_in_a_thread():
    assert anyio.run(current().blocking, threading.get_ident) != threading.get_ident()


def test_blocking_items_are_drawn_in_a_thread():
    def items():
        yield threading.get_ident()

    async def drawn() -> list[list[int]]:
        return [come async for come in current().drawn(items(), 10).come()]

    [[ident]] = anyio.run(drawn)

    assert ident != threading.get_ident()


def test_waiting_lets_time_pass():
    began = monotonic()

    current().wait(0.001)
    anyio.run(current().sleep, 0.001)

    assert monotonic() - began >= 0.002


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


def test_programs_are_run_to_their_end():
    ended = anyio.run(current().command, ["sh", "-c", "cat; echo $NAME"], "said ", {"NAME": "x"}, 30.0)

    assert ended == (0, "said x\n", "")
