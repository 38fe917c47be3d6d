"""What `doctor` makes of a Cassandra: each finding says what can be lost, and what to do."""

from collections.abc import Callable, Iterator
from contextlib import closing
from itertools import count, islice
from uuid import UUID

import pytest

from onefold.cli.codes import Code
from onefold.core.entry import STATES, Change, Seen
from onefold.core.key import Key
from onefold.testing.contract.words import entry
from tests.fast.cli.judging import level
from tests.fast.cli.stage import Cli

pytest.importorskip("cassandra", reason="cassandra-driver is not installed: it comes with the test servers")

from onefold.cli import cassandra_findings as judge
from onefold.stores.cassandra import connect
from onefold.stores.cassandra.address import address
from onefold.stores.cassandra.rows import part
from onefold.stores.shells import Blocking
from tests.launchers.cassandra import session
from tests.launchers.cassandra_guarded import TOMBSTONES
from tests.launchers.server import Server

WELL = {"keyspace_name": "shop", "durable_writes": True}
NAMES = ["server", "encryption", "protocol", "copies", "commit log", "expiry", "tombstones", "clock"]


def copied(strategy: str, **factors: str) -> dict[str, object]:
    return {**WELL, "replication": {"class": f"org.apache.cassandra.locator.{strategy}", **factors}}


# ----- judging


@pytest.mark.parametrize(
    ("version", "expected"),
    [
        ("5.0.9", "ok"),
        ("5.1-alpha1", "ok"),
        ("6.0", "ok"),
        ("4.1.7", "note"),
        ("4.0.0", "note"),
        ("3.11.10", "note"),
        ("3.0.24", "note"),
        ("3.11.9", "look"),
        ("3.0.23", "look"),
        ("2.1.0", "look"),
    ],
)
def test_a_server_whose_reads_can_go_back_is_found(version, expected):
    assert level(judge.server(version)) == expected


def test_a_protocol_for_old_servers_is_noted():
    assert [level(judge.protocol(number)) for number in (3, 4, 5)] == ["note", "ok", "ok"]


@pytest.mark.parametrize(
    ("keyspace", "expected"),
    [
        (copied("NetworkTopologyStrategy", dc1="3"), "ok"),
        (copied("NetworkTopologyStrategy", dc1="3", dc2="5"), "ok"),
        (copied("NetworkTopologyStrategy", dc1="3", dc2="1"), "look"),
        (copied("NetworkTopologyStrategy", dc1="2"), "look"),
        (copied("SimpleStrategy", replication_factor="3"), "look"),
        (copied("SimpleStrategy", replication_factor="1"), "look"),
        ({}, "note"),
    ],
)
def test_too_few_copies_and_copies_in_one_rack_are_found(keyspace, expected):
    assert level(judge.replication(keyspace)) == expected


@pytest.mark.parametrize(
    ("mode", "copies", "expected"),
    [
        ("batch", 1, "ok"),
        ("group", 1, "ok"),
        ("periodic", 1, "unsafe"),
        ("periodic", 2, "unsafe"),
        ("periodic", 0, "unsafe"),
        ("periodic", 3, "note"),
        ("", 1, "note"),
    ],
)
def test_answers_that_come_before_the_disk_has_them_are_found(mode, copies, expected):
    assert level(judge.commit_log({"commitlog_sync": mode}, WELL, copies)) == expected


@pytest.mark.parametrize(
    ("told", "expected"),
    [(100.0, 0.0), (99.999, 0.0), (100.02, 0.0), (99.0, 0.999), (101.0, -0.979)],
)
def test_a_clock_is_read_no_better_than_it_can_be(told, expected):
    assert judge.ahead(100.0, 100.02, told) == pytest.approx(expected)


def test_a_time_based_uuid_tells_the_time():
    assert judge.moment_of(UUID("b5875ca0-e14b-11f1-8a8c-0939dfacb7fb")) == pytest.approx(
        1794785084.5, abs=60
    )


# ----- on servers, each finding planted by a setting


@pytest.fixture
def store(cassandra_url: str) -> Iterator[Blocking]:
    with closing(connect(cassandra_url)) as store:
        store.get([Key("made", "at first use")])
        yield store


@pytest.fixture
def alter(cassandra_url: str) -> Iterator[Callable[[str], object]]:
    with session(cassandra_url) as opened:
        yield opened.execute


def found(store: Blocking) -> dict[str, str]:
    return {finding.name: level(finding) for finding in judge.look(store.client)}


@pytest.mark.store("cassandra")
def test_a_server_is_judged(store):
    well = dict.fromkeys(NAMES, "ok")

    assert found(store) == {**well, "copies": "look"}


@pytest.mark.store("cassandra")
@pytest.mark.parametrize(
    ("how", "expected"),
    [
        ("{'class': 'NetworkTopologyStrategy', 'datacenter1': 3}", "ok"),
        ("{'class': 'NetworkTopologyStrategy', 'datacenter1': 2}", "look"),
        ("{'class': 'SimpleStrategy', 'replication_factor': 3}", "look"),
    ],
)
def test_the_copies_of_a_keyspace_are_judged(store, alter, how, expected):
    alter(f"ALTER KEYSPACE {store.client.address.keyspace} WITH replication = {how}")

    assert found(store)["copies"] == expected


@pytest.mark.store("cassandra")
def test_a_keyspace_without_a_commit_log_is_unsafe(store, alter):
    alter(f"ALTER KEYSPACE {store.client.address.keyspace} WITH durable_writes = false")

    assert found(store)["commit log"] == "unsafe"


@pytest.mark.store("cassandra")
def test_hints_that_the_server_forgets_are_unsafe_and_entries_know_better(store, alter):
    for table in ("open", "entries"):
        alter(f"ALTER TABLE {store.client.address.table(table)} WITH default_time_to_live = 1")
    store.swap([Change(Key("charges", 1), None, entry())])
    [kept] = alter(f"SELECT ttl(entry) FROM {store.client.address.table('entries')}")

    assert found(store)["expiry"] == "unsafe"
    assert list(kept) == [None]


@pytest.mark.slow  # a server that it shares with other slow tests only
@pytest.mark.store("cassandra")
def test_a_server_that_loses_what_is_young_and_reads_through_ended_work_is_found(guarded_cassandra: Server):
    in_one_part = (name for name in (Key("charges", n) for n in count()) if part(name.id) == 0)
    ended = sorted(islice(in_one_part, TOMBSTONES // 8), key=lambda key: key.id)
    with guarded_cassandra.place() as url, closing(connect(url)) as store:
        held = store.swap([Change(name, None, entry()) for name in ended])
        versions = [reply.entry.version for reply in held if isinstance(reply, Seen) and reply.entry]
        store.swap(
            [Change(name, version, entry("done")) for name, version in zip(ended, versions, strict=True)]
        )
        assert store.scan(None, ("held",), False, None, 10) == ([], None)
        judged = found(store)

    assert judged["commit log"] == "unsafe"
    assert judged["tombstones"] == "look"


# ----- the command


@pytest.mark.store("cassandra")
def test_doctor_looks_at_the_server_and_leaves_nothing_behind(cli: Cli, cassandra_url, store):
    told = cli.json("doctor", cassandra_url)

    assert told["code"] == Code.PERSON  # one copy
    assert [finding["name"] for finding in told["findings"]] == ["round trip", *NAMES, "parked"]
    assert store.scan(None, STATES, False, None, 10)[0] == []


@pytest.mark.store("cassandra")
def test_doctor_says_that_there_is_no_ledger_and_makes_none(cli: Cli, cassandra_url):
    told = cli.json("doctor", cassandra_url)

    [finding] = told["findings"]
    assert told["code"] == Code.UNREACHABLE
    assert "has no ledger in it" in finding["text"]
    assert address(cassandra_url).keyspace in finding["text"]
