"""The proxy does to an exchange what it says, over real sockets, and to nothing else."""

import gc
import socket
import threading
import time

import pytest

from onefold.testing.proxy import Delay, Drop, Exchange, Proxy, Reset, Silence, Swallow
from tests.launchers.server import free_port
from tests.servers.proxy.clients import ask, dial, is_reset, is_unreachable, read_line
from tests.servers.proxy.echo import LONGEST, Echo


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
    port = free_port()
    with Proxy("127.0.0.1", port) as proxy:
        down = is_unreachable(proxy)
        with Echo(port), dial(proxy) as client:
            back = ask(client, b"back")

    assert down
    assert back == b"back"


def test_a_client_that_comes_as_the_proxy_closes_leaves_no_open_connection(echo):
    for _ in range(20):
        with Proxy("127.0.0.1", echo.port) as proxy:
            clients = [dial(proxy) for _ in range(3)]
        for client in clients:
            client.close()

    gc.collect()  # what was left open is told now, as an error
