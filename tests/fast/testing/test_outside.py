"""The guard of the fast tier: a planted violation fails its test and says where the test belongs."""

from __future__ import annotations

import asyncio
import os
import selectors
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import pytest

from onefold.testing.virtual import VirtualLoop
from tests.fast import outside
from tests.fast.outside import Outside, guarded, watched

SOON = 0.001
"""Seconds that really pass where a planted violation waits."""

ELSEWHERE = {
    "socket": "belongs to tests/servers, one that needs a socket to tests/processes",
    "process": "a test that needs another process belongs to tests/processes",
    "time": "a test that needs real time belongs to tests/processes",
}


def connects() -> None:
    with socket.socket() as client:
        client.connect(("127.0.0.1", 9))


def listens() -> None:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))


def looks_up() -> None:
    socket.getaddrinfo("localhost", 80)


def starts() -> None:
    subprocess.run([sys.executable, "--version"])


class Still(asyncio.SelectorEventLoop):
    """A real loop whose clock does not move, so that it always waits for as long as a timer asks."""

    def time(self) -> float:
        return 0.0


def waits_on_a_loop() -> None:
    loop = Still()
    try:
        loop.run_until_complete(asyncio.sleep(SOON))
    finally:
        loop.close()


VIOLATIONS: dict[str, tuple[Callable[[], object], str, str]] = {
    "connect": (connects, "connects to ('127.0.0.1', 9)", "socket"),
    "listen": (listens, "listens at ('127.0.0.1', 0)", "socket"),
    "look up": (looks_up, "looks up the address of localhost", "socket"),
    "start": (starts, f"starts the program {sys.executable}", "process"),
    "shell": (lambda: os.system("true"), "starts the program b'true'", "process"),
    "spawn": (lambda: os.posix_spawn("/bin/true", ["true"], {}), "starts the program /bin/true", "process"),
    "fork": (os.fork, "forks", "process"),
    "sleep": (lambda: time.sleep(SOON), "sleeps for 0.001 s", "time"),
    "loop": (waits_on_a_loop, "waits 0.001 s on a real event loop", "time"),
    "condition": (lambda: threading.Event().wait(SOON), "waits 0.001 s for another thread", "time"),
}


@pytest.mark.parametrize(("act", "said", "kind"), VIOLATIONS.values(), ids=VIOLATIONS)
def test_what_leaves_the_tier_is_refused_with_the_place_where_it_belongs(act, said, kind):
    with watched(), pytest.raises(Outside) as refused:
        act()

    text = str(refused.value)
    assert text.startswith(f"tests/fast: this test {said}")
    assert ELSEWHERE[kind] in text


@pytest.mark.parametrize("act", [connects, lambda: time.sleep(SOON)])
def test_code_that_handles_every_exception_does_not_handle_a_refusal(act):
    with watched(), pytest.raises(Outside), suppress(Exception):
        act()


@pytest.mark.parametrize("act", [connects, lambda: time.sleep(SOON)])
def test_a_refusal_that_was_caught_still_fails_the_test(act):
    with pytest.raises(Outside, match="tests/fast: this test"), guarded(), suppress(BaseException):
        act()


def test_what_a_thread_of_the_test_does_is_refused_too():
    with pytest.raises(Outside, match="sleeps"), guarded(), ThreadPoolExecutor() as threads:
        assert isinstance(threads.submit(time.sleep, SOON).exception(), Outside)


def test_what_needs_no_real_time_is_allowed():
    event, loop = threading.Event(), VirtualLoop()
    with watched() as watch, ThreadPoolExecutor() as threads:
        time.sleep(0)
        loop.run(asyncio.sleep(3600))
        threads.submit(event.set)
        assert event.wait(60)
        assert not threading.Event().wait(0)

    assert watch.complaints == []


def test_threads_that_ran_before_the_test_are_left_alone():
    begin, ended = threading.Event(), threading.Event()

    def of_another_tier() -> None:
        begin.wait()
        try:
            threading.Event().wait(SOON)
            time.sleep(SOON)
            listens()
        finally:
            ended.set()

    thread = threading.Thread(target=of_another_tier)
    thread.start()
    with watched() as watch:
        begin.set()
        ended.wait()
    thread.join()

    assert watch.complaints == []


def test_nothing_is_refused_while_no_test_is_watched(monkeypatch):
    monkeypatch.setattr(outside, "_watch", None)  # as between two fast tests

    listens()
    time.sleep(SOON)
    assert not threading.Event().wait(SOON)
    with selectors.DefaultSelector() as selector:
        assert selector.select(SOON) == []


def test_a_watch_within_a_watch_leaves_the_outer_one_in_place():
    def twice() -> None:
        with watched():
            pass
        time.sleep(SOON)

    with watched(), pytest.raises(Outside, match="sleeps"):
        twice()


CONFTEST = "from tests.fast.conftest import loop, pytest_runtest_call, pytest_runtest_setup"
FILE = """
    import asyncio, time
    import pytest

    def test_caught():
        try:
            time.sleep(1)
        except BaseException:
            pass

    def test_not_caught():
        time.sleep(1)

    @pytest.fixture
    def slow():
        time.sleep(1)

    def test_fixture(slow): ...

    @pytest.fixture
    def unclean():
        yield
        try:
            time.sleep(1)
        except BaseException:
            pass

    def test_teardown(unclean): ...

    def test_server(postgresql_url): ...

    def test_fine():
        asyncio.run(asyncio.sleep(3600))
"""


def test_each_violation_fails_its_test_once(pytester, monkeypatch):
    monkeypatch.setenv("COLUMNS", "300")  # or the closing lines are cut
    pytester.makeconftest(CONFTEST)
    pytester.makepyfile(FILE)

    # What earlier tests left to the collector must not be counted among the errors of these.
    ended = pytester.runpytest_inprocess("-p", "no:cacheprovider", "-p", "no:unraisableexception")

    sleeps = "*tests/fast: this test sleeps for 1 s; wait on the virtual loop*"
    ended.assert_outcomes(failed=2, errors=3, passed=2)
    ended.stdout.fnmatch_lines_random(
        [
            f"FAILED *test_caught - {sleeps}",
            f"FAILED *test_not_caught - {sleeps}",
            f"ERROR *test_fixture - {sleeps}",
            f"ERROR *test_teardown - {sleeps}",
            "ERROR *test_server - *this test asks for postgresql_url; it belongs to tests/servers*",
        ]
    )
