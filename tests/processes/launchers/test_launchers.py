"""Every server that tests can have starts, answers and ends; one for a store keeps what it acknowledged."""

import os
from collections.abc import Iterable
from pathlib import Path

import pytest

from tests.launchers.fixtures import launched, ours
from tests.launchers.notes import NOTES
from tests.launchers.recipes import RECIPES
from tests.launchers.server import Given, Missing, NotReady, running
from tests.stores_tested import STORES


def each(names: Iterable[str], slow: Iterable[str] = ()) -> pytest.MarkDecorator:
    def marks(name: str) -> list[pytest.MarkDecorator]:
        return [pytest.mark.xdist_group(name), *([pytest.mark.slow] if name in slow else [])]

    return pytest.mark.parametrize("name", [pytest.param(name, marks=marks(name)) for name in names])


each_server = each(RECIPES)
each_store = each(name for name in RECIPES if name in STORES)
# Three starts of a Java server take most of a minute; every day the tests of these stores restart one once.
each_store_started_thrice = each((name for name in RECIPES if name in STORES), slow=["cassandra", "dynamodb"])


@each_store_started_thrice
@pytest.mark.timeout(300)
def test_what_a_server_acknowledged_outlives_a_kill_and_a_stop_on_the_same_folder_and_port(own_server, name):
    server = launched(own_server, name)
    before = server.url, server.folder, server.version
    pids = [server.pid]
    with server.place() as url:
        NOTES[name].write(url, range(40))
        server.kill()
        killed = answers(name, server.url), server.pid
        server.restart()
        pids.append(server.pid)
        after_the_kill = NOTES[name].read(url)
        NOTES[name].write(url, range(40, 50))
        server.stop()
        stopped = answers(name, server.url), server.pid
        server.restart()
        pids.append(server.pid)
        after_the_stop = NOTES[name].read(url)
    after = server.url, server.folder, server.version
    server.close()

    assert after_the_kill == set(range(40))
    assert after_the_stop == set(range(50))
    assert killed == stopped == (False, None)
    assert len(set(pids) - {None}) == 3
    assert after == before
    assert not server.folder.exists()


def answers(name: str, url: str) -> bool:
    try:
        RECIPES[name].ping(url)
    except Exception:  # every client has errors of its own
        return False
    return True


@each_store
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
def test_no_server_listens_beyond_this_machine(request, name):
    server = ours(request.getfixturevalue(f"{name}_server"))

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
