"""Every server that tests can have starts, answers, keeps what it acknowledged through a kill, and ends."""

import os
from pathlib import Path

import pytest

from tests.servers.fixtures import OwnServer
from tests.servers.notes import NOTES
from tests.servers.recipes import RECIPES
from tests.servers.server import Given, Launched, Missing, NotReady, running

each_server = pytest.mark.parametrize("name", RECIPES)


def launched(own_server: OwnServer, name: str) -> Launched:
    server = own_server(name)
    if not isinstance(server, Launched):
        pytest.skip(f"{name} is given by {server.origin}, so nothing is launched")
    return server


@each_server
def test_what_a_server_acknowledged_outlives_kills_on_the_same_folder_and_port(own_server, name):
    server = launched(own_server, name)
    before = server.url, server.folder, server.version
    with server.place() as url:
        for first in range(0, 60, 20):
            NOTES[name].write(url, range(first, first + 20))
            server.kill()
            server.restart()
        kept = NOTES[name].read(url)

    assert kept == set(range(60))
    assert (server.url, server.folder, server.version) == before


@each_server
def test_a_server_ends_when_asked_and_keeps_its_data_until_it_is_closed(own_server, name):
    server = launched(own_server, name)
    NOTES[name].write(server.url, [7])
    first = server.pid
    server.stop()
    answered, stopped = answers(name, server.url), server.pid
    server.restart()
    kept, second = NOTES[name].read(server.url), server.pid
    server.close()

    assert first is not None
    assert (answered, stopped) == (False, None)
    assert second not in (None, first)
    assert kept == {7}
    assert not server.folder.exists()


def answers(name: str, url: str) -> bool:
    try:
        RECIPES[name].ping(url)
    except Exception:  # every client has errors of its own
        return False
    return True


@each_server
def test_places_are_apart_and_gone_afterwards(request, name):
    server = request.getfixturevalue(f"{name}_server")
    with server.place() as one, server.place() as other:
        NOTES[name].write(one, [1, 2])
        NOTES[name].write(other, [3])
        seen = NOTES[name].read(one), NOTES[name].read(other)
    with server.place() as later:
        NOTES[name].write(later, [4])
        last = NOTES[name].read(later)

    assert one != other
    assert seen == ({1, 2}, {3})
    assert last == {4}


@each_server
def test_a_url_in_the_environment_replaces_a_server_and_is_left_running(request, monkeypatch, name):
    running_one = request.getfixturevalue(f"{name}_server")
    monkeypatch.setenv(f"{name.upper()}_URL", running_one.url)

    with running(RECIPES[name]) as given:
        assert isinstance(given, Given)
        with pytest.raises(Missing, match="only servers started here are killed"):
            given.kill()
        told = given.version, given.origin
    still = RECIPES[name].ping(running_one.url)

    assert told == (running_one.version, f"{name.upper()}_URL")
    assert still == running_one.version


@each_server
def test_a_given_server_that_does_not_answer_is_named_with_its_variable(request, monkeypatch, name):
    request.getfixturevalue(f"{name}_server")
    monkeypatch.setenv(f"{name.upper()}_URL", RECIPES[name].url(1))

    with pytest.raises(NotReady, match=f"{name.upper()}_URL names does not answer"), running(RECIPES[name]):
        pass


@each_server
def test_no_server_listens_beyond_this_machine(own_server, name):
    server = launched(own_server, name)

    addresses = listening(server.pid)
    assert addresses
    assert {address for address in addresses if not is_loopback(address)} == set()


def listening(pid: int | None) -> set[str]:
    """Give the local addresses on which a process listens, as the system writes them: hexadecimal."""
    if not os.path.exists(f"/proc/{pid}/net/tcp"):
        pytest.skip("the addresses of a process are read from /proc")
    own = {os.readlink(f"/proc/{pid}/fd/{fd}") for fd in os.listdir(f"/proc/{pid}/fd")}
    tables = [Path(f"/proc/{pid}/net/{table}").read_text() for table in ("tcp", "tcp6")]
    rows = [row.split() for table in tables for row in table.splitlines()[1:]]
    return {row[1] for row in rows if row[3] == "0A" and f"socket:[{row[9]}]" in own}


def is_loopback(address: str) -> bool:
    host = address.partition(":")[0]
    return host in ("0100007F", "00000000000000000000000001000000", "0000000000000000FFFF00000100007F")
