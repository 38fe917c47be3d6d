"""The proxy does to an exchange what it says, over real sockets, and to nothing else."""

import asyncio
import socket
import threading
import time
from collections.abc import Iterator
from itertools import islice

import pytest

from onefold.testing.proxy import Delay, Drop, Exchange, Proxy, Reset, Silence, Swallow, at_random
from tests.proxy.echo import LONGEST, Echo


@pytest.fixture
def echo() -> Iterator[Echo]:
    with Echo() as server:
        yield server


@pytest.fixture
def proxy(echo: Echo) -> Iterator[Proxy]:
    with Proxy("127.0.0.1", echo.port) as opened:
        yield opened


def dial(proxy: Proxy) -> socket.socket:
    return socket.create_connection(("127.0.0.1", proxy.port), timeout=LONGEST)


def ask(client: socket.socket, line: bytes) -> bytes:
    """Send a line and read until the end of a line, or of the connection."""
    client.sendall(line + b"\n")
    return read_line(client)


def read_line(client: socket.socket) -> bytes:
    reply = b""
    while not reply.endswith(b"\n") and (data := client.recv(65536)):
        reply += data
    return reply.rstrip(b"\n")


def is_reset(client: socket.socket) -> bool:
    """Wait until the connection ends, and say whether it was reset."""
    try:
        return client.recv(1) != b""
    except ConnectionResetError:
        return True


def test_without_mishaps_everything_passes(proxy, echo):
    long = b"x" * 3_000_000
    with dial(proxy) as one, dial(proxy) as other:
        sending = threading.Thread(target=one.sendall, args=[long + b"\n"])
        sending.start()
        replies = read_line(one), ask(other, b"second"), ask(one, b"third")
        sending.join()

    assert replies == (long, b"second", b"third")
    assert [echo.end(), echo.end()] == [(b"", False), (b"", False)]


def test_the_end_of_either_side_reaches_the_other(proxy, echo):
    with dial(proxy) as client:
        client.sendall(b"last words\n")
        client.shutdown(socket.SHUT_WR)
        reply, after = read_line(client), client.recv(1)

    assert (reply, after) == (b"last words", b"")
    assert echo.end() == (b"", False)


def test_a_swallowed_reply_was_a_delivered_request(proxy, echo):
    proxy.arm(Swallow())
    with dial(proxy) as client:
        client.sendall(b"pay\n")
        reset = is_reset(client)
    with dial(proxy) as client:
        later = ask(client, b"pay again")

    assert reset
    assert [echo.line(), echo.line()] == [b"pay", b"pay again"]
    assert later == b"pay again"
    assert echo.end() == (b"", False)
    assert proxy.journal[0] == Exchange(1, Swallow(), sent=4, delivered=4, answered=4, heard=0)


def test_a_dropped_request_never_reaches_the_server(proxy, echo):
    with dial(proxy) as client:
        first = ask(client, b"hello")
        proxy.arm(Drop())
        client.sendall(b"pay\n")
        reset = is_reset(client)

    assert (first, reset) == (b"hello", True)
    assert echo.line() == b"hello"
    assert echo.end() == (b"", False)
    assert echo.silent
    assert proxy.journal[1] == Exchange(1, Drop(), sent=4)


@pytest.mark.parametrize("after", [0, 1, 3, 7])
def test_a_reset_in_the_request_delivers_so_many_bytes(proxy, echo, after):
    proxy.arm(Reset(after, "request"))
    with dial(proxy) as client:
        client.sendall(b"request")
        reset = is_reset(client)

    assert reset
    assert echo.end() == (b"request"[:after], False)


@pytest.mark.parametrize("after", [0, 1, 3, 6])
def test_a_reset_in_the_reply_lets_the_client_hear_so_many_bytes(proxy, echo, after):
    proxy.arm(Reset(after, "reply"))
    with dial(proxy) as client:
        client.sendall(b"reply\n")
        heard = client.recv(after, socket.MSG_WAITALL) if after else b""
        reset = is_reset(client)

    assert heard == b"reply\n"[:after]
    assert reset
    assert echo.line() == b"reply"


@pytest.mark.parametrize("side", ["request", "reply"])
def test_a_reset_beyond_the_last_byte_does_nothing(proxy, side):
    proxy.arm(Reset(100, side))
    with dial(proxy) as client:
        replies = ask(client, b"one"), ask(client, b"two")

    assert replies == (b"one", b"two")


@pytest.mark.parametrize("side", ["request", "reply"])
def test_a_delay_lasts_as_long_as_it_says(proxy, side):
    proxy.arm(Delay(0.05, side))
    with dial(proxy) as client:
        began = time.monotonic()
        reply = ask(client, b"late")

    assert reply == b"late"
    assert time.monotonic() - began >= 0.05


def test_a_delayed_request_is_not_delivered_before_it_is_released(proxy, echo):
    proxy.arm(Delay(3600), when=b"slow")
    with dial(proxy) as slow, dial(proxy) as quick:
        slow.sendall(b"slow\n")
        proxy.wait(lambda proxy: proxy.held == 1)
        overtaken = ask(quick, b"quick"), echo.line(), echo.silent
        proxy.release()
        late = read_line(slow)

    assert overtaken == (b"quick", b"quick", True)
    assert late == b"slow"


def test_a_delayed_request_arrives_even_if_its_client_gave_up(proxy, echo):
    proxy.arm(Delay(3600))
    with dial(proxy) as client:
        client.sendall(b"zombie\n")
        proxy.wait(lambda proxy: proxy.held == 1)
    proxy.release()

    assert echo.line() == b"zombie"
    assert echo.end() == (b"", False)


def test_a_delayed_reply_was_a_delivered_request(proxy, echo):
    proxy.arm(Delay(3600, "reply"))
    with dial(proxy) as client:
        client.sendall(b"done\n")
        delivered = echo.line()
        proxy.wait(lambda proxy: proxy.held == 1)
        proxy.release()
        heard = read_line(client)

    assert delivered == heard == b"done"


def test_a_silenced_request_is_neither_delivered_nor_answered_until_the_proxy_is_healed(proxy, echo):
    with dial(proxy) as silenced, dial(proxy) as other:
        ask(silenced, b"before")
        proxy.arm(Silence())
        silenced.sendall(b"lost\n")
        proxy.wait(lambda proxy: proxy.armed == 0)
        silenced.sendall(b"lost too\n")
        meanwhile = ask(other, b"other")
        silenced.setblocking(False)
        with pytest.raises(BlockingIOError):
            silenced.recv(1)
        silenced.settimeout(LONGEST)
        proxy.heal()
        reset = is_reset(silenced)
        after = ask(other, b"still here")

    assert [echo.line(), echo.line(), echo.line()] == [b"before", b"other", b"still here"]
    assert (meanwhile, reset, after) == (b"other", True, b"still here")


def test_a_black_hole_accepts_and_never_answers(proxy, echo):
    with dial(proxy) as old:
        ask(old, b"before")
        proxy.mute()
        with dial(proxy) as new:
            for client in old, new:
                client.sendall(b"lost\n")
                client.settimeout(0.05)
                with pytest.raises(TimeoutError):
                    client.recv(1)
                client.settimeout(LONGEST)
            proxy.heal()
            resets = is_reset(old), is_reset(new)
    with dial(proxy) as later:
        reply = ask(later, b"after")

    assert resets == (True, True)
    assert reply == b"after"
    assert [echo.line(), echo.line()] == [b"before", b"after"]
    assert echo.silent


def test_a_cut_resets_both_sides_at_once_and_refuses_until_healed(proxy, echo):
    with dial(proxy) as client:
        ask(client, b"before")
        proxy.cut()
        reset = is_reset(client)
    with pytest.raises(ConnectionRefusedError):
        dial(proxy)
    cut = echo.end()
    port = proxy.port
    proxy.heal()
    with dial(proxy) as client:
        reply = ask(client, b"after")

    assert reset
    assert cut.reset
    assert (reply, proxy.port) == (b"after", port)


def test_a_cut_ends_delays_and_silence(proxy, echo):
    proxy.arm(Delay(3600), Silence())
    with dial(proxy) as delayed, dial(proxy) as silent:
        delayed.sendall(b"lost\n")
        proxy.wait(lambda proxy: proxy.held == 1)
        silent.sendall(b"lost\n")
        proxy.wait(lambda proxy: proxy.armed == 0)
        proxy.cut()
        resets = is_reset(delayed), is_reset(silent)

    assert resets == (True, True)
    assert echo.end().reset
    assert echo.end().reset
    assert echo.silent


def test_waiting_for_what_does_not_happen_ends_with_an_error(proxy):
    with pytest.raises(TimeoutError, match=r"within 0\.01 s"):
        proxy.wait(lambda proxy: proxy.held == 1, seconds=0.01)


def test_a_server_that_is_down_is_a_reset_and_its_return_is_noticed():
    with Echo() as first:
        port = first.port
    with Proxy("127.0.0.1", port) as proxy:
        down = is_unreachable(proxy)
        with Echo(port), dial(proxy) as client:
            back = ask(client, b"back")

    assert down
    assert back == b"back"


def is_unreachable(proxy: Proxy) -> bool:
    try:
        with dial(proxy) as client:
            return is_reset(client)
    except ConnectionResetError:
        # The reset was there before the client had looked at its connection.
        return True


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
