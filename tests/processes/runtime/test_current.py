"""The real runtime: its clocks, its threads and its programs are those of the machine."""

import asyncio
import threading

import anyio
import pytest

from onefold.runtime import Runtime, current, monotonic, now
from tests.fast.runtime.test_current import (
    Elsewhere,
    test_a_websocket_that_nobody_serves_is_refused,  # noqa: F401  (by the system)
    test_streams_are_connections,  # noqa: F401  (over real sockets)
)


def test_outside_of_a_worker_the_runtime_is_the_real_one():
    runtime = current()

    assert type(runtime) is Runtime
    assert abs(runtime.time() - now()) < 60
    assert runtime.monotonic() <= monotonic()


def test_tasks_and_threads_started_inside_have_the_same_runtime():
    async def inside() -> list[float]:
        async with Elsewhere().running():
            task = asyncio.create_task(asyncio.to_thread(now))
            return [await task, await current().blocking(now), now()]

    assert anyio.run(inside) == [7.0, 7.0, 7.0]


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


def test_programs_are_run_to_their_end():
    ended = anyio.run(current().command, ["sh", "-c", "cat; echo $NAME"], "said ", {"NAME": "x"}, 30.0)

    assert ended == (0, "said x\n", "")


def test_a_port_that_is_taken_cannot_be_taken_again_before_it_is_given_back():
    taken = current().listener("127.0.0.1", 0)
    host, port = taken.address

    with pytest.raises(OSError, match="in use"):
        current().listener(host, port)
    taken.close()

    current().listener(host, port).close()
