"""A ledger on DynamoDB beside real life: clocks that differ, forks, a server that dies and returns."""

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from onefold import AsyncLedger, Ledger
from onefold.core.claims import Bid
from onefold.core.entry import UNKNOWN, Change, Entry, Seen
from onefold.core.errors import Unreachable
from onefold.core.key import Key
from onefold.core.protocol import claim
from onefold.core.terms import Terms
from onefold.drive import Merged, Ports, run
from onefold.testing.clock import FakeClock
from tests.launchers.fixtures import launched
from tests.processes.stores.sqlite.neighbours import FORKING, in_child

pytest.importorskip("boto3", reason="boto3 is not installed: it comes with the test servers")

from onefold.stores.dynamodb import connect
from onefold.stores.dynamodb.address import MAX_SKEW, address
from onefold.stores.dynamodb.client import connected
from onefold.stores.dynamodb.requests import INDEX
from onefold.stores.shells import Blocking

pytestmark = pytest.mark.store("dynamodb")

KEY = Key("charges", "A-17")
LEASE = 90.0
TERMS = Terms(lease=LEASE)


@pytest.fixture
def store(dynamodb_url: str) -> Iterator[Blocking]:
    opened = connect(dynamodb_url)
    yield opened
    opened.close()


@pytest.fixture
def bare(dynamodb_url: str) -> Iterator[Any]:
    """Look at the table as it is."""
    client = connected(address(dynamodb_url))
    yield client
    client.close()


def put(store: Blocking, key: Key, wanted: Entry, expected: int | None = None, **asked: Any) -> Entry:
    [reply] = store.swap([Change(key, expected, wanted, **asked)])
    assert isinstance(reply, Seen)
    assert reply.entry is not None
    return reply.entry


def test_an_effect_runs_once_in_both_colours(dynamodb_url):
    ran: list[str] = []
    ledger = Ledger(dynamodb_url)
    awaited = AsyncLedger(dynamodb_url)

    @ledger.protect("charges", key=lambda order: order)
    def charge(order: str) -> str:
        ran.append(order)
        return f"receipt of {order}"

    @awaited.protect("charges", key=lambda order: order)
    async def acharge(order: str) -> str:
        ran.append(order)
        return f"receipt of {order}"

    async def again() -> list[str]:
        told = [await acharge("A-17"), await acharge("A-18"), await acharge("A-18")]
        await awaited.close()
        return told

    assert [charge("A-17"), charge("A-17")] == ["receipt of A-17"] * 2
    assert asyncio.run(again()) == ["receipt of A-17", "receipt of A-18", "receipt of A-18"]
    ledger.close()
    assert ran == ["A-17", "A-18"]


# ----- what is stored


def test_only_what_is_done_and_not_for_ever_carries_dynamodbs_own_expiry(store, bare):
    table = store.client.address.table

    def attributes() -> set[str]:
        return set(bare.get_item(TableName=table, Key={"id": {"B": KEY.id}}, ConsistentRead=True)["Item"])

    held = put(store, KEY, Entry("held", token="ann", lease=60.0))
    assert {"open", "due"} <= attributes()
    done = put(store, KEY, Entry("done", token="ann", fence=held.fence), held.version, keep=3600.0)
    assert "ttl" in attributes()
    assert not {"open", "due"} & attributes()
    put(store, KEY, Entry("held", token="bob", lease=60.0), done.version)
    assert "ttl" not in attributes(), "a new claim must not be swept away with the old entry"


def test_numbers_come_back_from_the_server_as_the_same_ones(store):
    odd = [1e-6, 1e-100, 0.1 + 0.2, 1 / 3, 1e15 + 0.3, 4e9, 2.0**53, 31_557_600_000.000004]
    names = sorted((Key("numbers", repr(value)) for value in odd), key=lambda key: key.id)
    replies = store.swap(
        [
            Change(name, None, Entry("done", token="ann", lease=value, begun=value))
            for name, value in zip(names, odd, strict=True)
        ]
    )

    assert [seen.entry for seen in store.get(names)] == [reply.entry for reply in replies]
    assert [seen.entry.lease for seen in store.get(names)] == odd


def test_the_index_holds_open_entries_and_nothing_else(store, bare):
    for number in range(30):
        put(store, Key("charges", number), Entry("done" if number % 10 else "parked", token="ann"))

    listed = bare.scan(TableName=store.client.address.table, IndexName=INDEX, Select="COUNT")

    assert listed["ScannedCount"] == 3


# ----- clocks that differ


def worker(url: str, clock: FakeClock) -> Ports:
    return Ports(Merged(connect(url, clock=clock), clock), clock)


def bid(ports: Ports, token: str) -> str:
    [answer] = run(claim([Bid(KEY, token, TERMS, "idempotent")]), ports)
    return answer.state


@pytest.mark.parametrize("ahead", [-MAX_SKEW, 0.0, MAX_SKEW])
def test_a_holder_is_safe_from_a_clock_that_is_ahead_and_a_dead_one_is_replaced(dynamodb_url, ahead):
    mine, theirs = FakeClock(), FakeClock(wall=FakeClock()() + ahead)
    assert bid(worker(dynamodb_url, mine), "ann") == "won"

    theirs.sleep(LEASE + MAX_SKEW - ahead - 0.001)
    assert bid(worker(dynamodb_url, theirs), "bob") == "busy"
    theirs.sleep(0.002)
    assert bid(worker(dynamodb_url, theirs), "cat") == "won"


def test_who_watches_a_dead_holder_for_a_lease_need_not_wait_for_the_skew(dynamodb_url):
    clock = FakeClock()
    watcher = worker(dynamodb_url, clock)
    bid(worker(dynamodb_url, clock), "ann")

    assert bid(watcher, "bob") == "busy"
    clock.sleep(LEASE - 0.001)
    assert bid(watcher, "cat") == "busy"
    clock.sleep(0.002)
    assert bid(watcher, "dan") == "won"


# ----- processes and servers


@pytest.mark.filterwarnings(FORKING)
def test_a_forked_child_has_connections_of_its_own(store):
    many = sorted((Key("forked", n) for n in range(20)), key=lambda key: key.id)
    put(store, KEY, Entry("held", token="parent"))

    def child() -> list[str]:
        replies = store.swap([Change(key, None, Entry("held", token="child")) for key in many])
        store.close()
        return [reply.entry.token for reply in replies if isinstance(reply, Seen) and reply.entry]

    assert in_child(child) == ["child"] * 20
    assert [seen.entry.token for seen in store.get([KEY, *many]) if seen.entry] == ["parent", *["child"] * 20]


def test_a_store_comes_back_with_its_server(own_server):
    server = launched(own_server, "dynamodb")
    with server.place() as url:
        store = connect(url)
        kept = put(store, KEY, Entry("held", token="ann"))
        server.kill()
        with pytest.raises(Unreachable, match=r"cannot be reached|did not answer"):
            store.get([KEY])
        try:
            assert store.swap([Change(KEY, kept.version, kept)]) == [UNKNOWN]
        except Unreachable as raised:
            assert "cannot be reached" in str(raised)  # noqa: PT017
        server.restart()

        assert [seen.entry for seen in store.get([KEY])] == [kept]
        assert put(store, KEY, kept, kept.version).version == kept.version + 1
        store.close()
