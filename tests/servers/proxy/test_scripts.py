"""Mishaps befall whom they were meant for: by arming, by a plan, by a seed; URLs lead through the proxy."""

import asyncio
import threading
from itertools import islice

import pytest

from onefold.testing.proxy import Delay, Drop, Proxy, Reset, Swallow, at_random
from tests.servers.proxy.clients import ask, dial, is_reset


def test_what_is_armed_befalls_the_next_exchanges_in_order_whichever_connection_asks(proxy):
    proxy.arm(None, Reset(1), Drop())
    with dial(proxy) as one, dial(proxy) as two, dial(proxy) as three:
        first = ask(one, b"one")
        two.sendall(b"two\n")
        second = two.recv(1), is_reset(two)
        three.sendall(b"three\n")
        third = is_reset(three)
        fourth = ask(one, b"four")

    assert (first, second, third, fourth) == (b"one", (b"t", True), True, b"four")
    assert [each.mishap for each in proxy.journal] == [None, Reset(1), Drop(), None]
    assert [each.connection for each in proxy.journal] == [1, 2, 3, 1]


def test_what_is_armed_for_certain_bytes_waits_for_them(proxy):
    proxy.arm(Swallow(), when=b"INSERT")
    with dial(proxy) as client:
        replies = ask(client, b"SELECT"), ask(client, b"UPDATE")
        waiting = proxy.armed
        client.sendall(b"BEGIN; INSERT\n")
        reset = is_reset(client)

    assert replies == (b"SELECT", b"UPDATE")
    assert (waiting, reset, proxy.armed) == (1, True, 0)


def test_a_plan_befalls_one_exchange_after_the_other_and_then_the_sky_is_clear(echo):
    with Proxy("127.0.0.1", echo.port, [None, Swallow(), Delay(0.0, "reply")]) as proxy:
        with dial(proxy) as client:
            first = ask(client, b"one")
            client.sendall(b"two\n")
            second = is_reset(client)
        with dial(proxy) as client:
            rest = [ask(client, b"three"), ask(client, b"four")]

    assert (first, second, rest) == (b"one", True, [b"three", b"four"])


def test_a_random_plan_is_the_same_for_the_same_seed():
    plans = [list(islice(at_random(seed, rate=0.5), 200)) for seed in (1, 1, 2)]
    drawn = {type(mishap) for mishap in plans[0]}

    assert plans[0] == plans[1] != plans[2]
    assert drawn == {Swallow, Drop, Reset, Delay, type(None)}
    assert 60 < plans[0].count(None) < 140


@pytest.mark.parametrize("seed", range(5))
def test_under_a_random_plan_every_reply_is_right_or_the_connection_ended(echo, seed):
    lines = [b"line %d" % number for number in range(60)]
    with Proxy("127.0.0.1", echo.port, at_random(seed, rate=0.5, longest=0.002, most=10)) as proxy:
        for line in lines:
            while not was_repeated(proxy, line):
                continue
        journal = proxy.journal

    assert {type(each.mishap) for each in journal} == {Swallow, Drop, Reset, Delay, type(None)}
    for each in journal:
        assert each.delivered <= each.sent
        assert each.heard <= each.answered
        assert isinstance(each.mishap, Swallow) <= (each.delivered == each.sent and each.heard == 0)
        assert isinstance(each.mishap, Drop) <= (each.delivered == 0)


def was_repeated(proxy: Proxy, line: bytes) -> bool:
    with dial(proxy) as client:
        try:
            reply = ask(client, line)
        except ConnectionError:
            return False
    assert line.startswith(reply)
    return reply == line


def test_awaited_clients_suffer_the_same(proxy, echo):
    async def talk() -> tuple[bytes, bytes]:
        reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
        writer.write(b"one\n")
        first = await reader.readline()
        proxy.arm(Swallow())
        writer.write(b"two\n")
        with pytest.raises(ConnectionResetError):
            await reader.readline()
        writer.close()
        return first, echo.line() + echo.line()

    assert asyncio.run(talk()) == (b"one\n", b"onetwo")


def test_closing_resets_what_is_connected_and_ends_the_thread(echo):
    before = threading.active_count()
    with Proxy("127.0.0.1", echo.port) as proxy, dial(proxy) as client:
        ask(client, b"hello")
        proxy.close()
        reset = is_reset(client)
        echo.end()
    proxy.close()
    with pytest.raises(ConnectionRefusedError):
        dial(proxy)

    assert reset
    assert threading.active_count() <= before + 1


@pytest.mark.parametrize(
    ("url", "by_way"),
    [
        ("redis://127.0.0.1:6379/3", "redis://127.0.0.1:{port}/3"),
        (
            "postgresql://me:a%40b@db:5432/x?options=-cy%3Dz",
            "postgresql://me:a%40b@127.0.0.1:{port}/x?options=-cy%3Dz",
        ),
        ("mongodb://db/x?directConnection=true", "mongodb://127.0.0.1:{port}/x?directConnection=true"),
        (
            "dynamodb://eu-1/t?endpoint=http%3A%2F%2F127.0.0.1%3A8000&x=1",
            "dynamodb://eu-1/t?endpoint=http%3A%2F%2F127.0.0.1%3A{port}&x=1",
        ),
    ],
)
def test_a_url_leads_through_the_proxy(proxy, url, by_way):
    assert proxy.through(url) == by_way.format(port=proxy.port)


@pytest.mark.parametrize(
    "form", ["redis://me:pw@127.0.0.1:{port}/0", "dynamodb://eu/t?endpoint=http%3A%2F%2Flocalhost%3A{port}"]
)
def test_it_stands_before_the_server_that_a_url_names(echo, form):
    url = form.format(port=echo.port)
    with Proxy.before(url, [Reset(1)]) as proxy, dial(proxy) as client:
        client.sendall(b"hello\n")
        heard = client.recv(1), is_reset(client)
        by_way = proxy.url

    assert heard == (b"h", True)
    assert by_way == proxy.through(url) != url


@pytest.mark.parametrize(
    "url", ["redis://127.0.0.1/0", "sqlite:///x.db", "dynamodb://eu/t?endpoint=http%3A%2F%2Fhost"]
)
def test_a_url_without_a_port_is_an_error(url):
    with pytest.raises(ValueError, match="names no host and port"):
        Proxy.before(url)
