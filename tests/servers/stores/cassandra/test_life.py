"""A ledger on Cassandra beside real life: forks, threads, many at once, expiry, tables of other times."""

import asyncio
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from functools import partial
from typing import Any

import pytest

from onefold import AsyncLedger, Ledger
from onefold.core.entry import NOTHING, Change
from onefold.core.errors import Misconfigured
from onefold.core.key import Key
from onefold.testing.contract.words import entry
from tests.launchers.cassandra import session
from tests.processes.stores.sqlite.neighbours import FORKING, in_child, in_children

pytest.importorskip("cassandra", reason="cassandra-driver is not installed: it comes with the test servers")

from onefold.stores import ddl
from onefold.stores.cassandra import aconnect, connect, rows
from onefold.stores.cassandra.rows import LINGER, LONGEST_TTL, Statement
from onefold.stores.shells import Blocking
from tests.servers.stores.cassandra.ledgers import lying
from tests.servers.stores.words import NEW, claims, keys, stored, tokens, with_option

pytestmark = pytest.mark.store("cassandra")


@pytest.fixture
def store(cassandra_url: str) -> Iterator[Blocking]:
    with closing(connect(cassandra_url)) as store:
        yield store


def test_an_effect_runs_once_in_both_colours(cassandra_url):
    ran: list[str] = []
    ledger, awaited = Ledger(cassandra_url), AsyncLedger(cassandra_url)

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


def test_a_store_is_used_on_one_event_loop_after_another(cassandra_url):
    store = aconnect(cassandra_url)
    first = asyncio.run(store.swap(claims([NEW])))

    assert tokens(asyncio.run(store.get([NEW]))) == tokens(first) == ["ann"]
    asyncio.run(store.close())


# ----- expiry


def left(store: Blocking) -> int | None:
    """Say in how many seconds Cassandra itself removes the only entry."""
    [row] = store.client.query(f"SELECT ttl(entry) AS left FROM {store.client.address.table('entries')}")
    seconds: int | None = row["left"]
    return seconds


def test_only_what_is_done_and_not_for_ever_carries_cassandras_own_expiry(store):
    held = stored(store.swap(claims([NEW]))[0])
    assert left(store) is None
    done = stored(store.swap([Change(NEW, held.version, entry("done"), keep=3600.0)])[0])
    seconds = left(store)
    assert seconds is not None
    assert 3600 + LINGER < seconds <= 3600 + 120 + LINGER
    store.swap([Change(NEW, done.version, entry("held", "bob"))])
    assert left(store) is None, "a new claim must not be swept away with the old entry"


def test_what_is_kept_for_longer_than_cassandra_can_count_has_no_expiry(store):
    store.swap([Change(NEW, None, entry("done"), keep=LONGEST_TTL + 1.0)])

    assert left(store) is None


@pytest.mark.parametrize("name", ["insert", "update"])
def test_what_cassandra_expires_leaves_nothing_behind_and_can_be_claimed_anew(store, name):
    claim = claims([NEW])[0]
    held = stored(store.swap([claim])[0]) if name == "update" else None
    version = held.version + 1 if held else 1
    text = rows.text(NEW, entry("done"))
    asked = Statement(name, [1, version, text, NEW.id, *([held.version] if held else [])])
    [outcome] = store.client.execute_many([asked])
    assert outcome[0]["[applied]"]
    _until_gone(store)

    assert lying(store, "entries") == []
    assert store.get([NEW]) == [NOTHING]
    assert tokens(store.swap(claims([NEW], "bob"))) == ["bob"]


def _until_gone(store: Blocking) -> None:
    deadline = time.monotonic() + 30
    while store.get([NEW]) != [NOTHING]:
        assert time.monotonic() < deadline, "it does not expire"


# ----- sharing


@pytest.mark.filterwarnings(FORKING)
def test_a_forked_child_has_a_session_of_its_own_and_leaves_its_parents_alone(store):
    store.swap(claims([NEW]))

    def child() -> list[str | None]:
        told = tokens(store.swap(claims(keys(20), "child")))
        store.close()
        return told

    assert in_child(child) == ["child"] * 20
    assert tokens(store.get([NEW, *keys(20)])) == ["ann", *["child"] * 20]


@pytest.mark.filterwarnings(FORKING)
def test_many_workers_may_make_the_tables_at_once(cassandra_url):
    def worker(name: str) -> list[str | None]:
        with closing(connect(with_option(cassandra_url, "timeout=60"))) as store:
            return tokens(store.swap(claims(keys(5), name)))

    told = in_children([partial(worker, name) for name in ("ann", "bob", "cid")])

    assert told[0] == told[1] == told[2]
    assert None not in told[0]


def test_threads_share_one_store(store):
    with ThreadPoolExecutor(8) as pool:
        told = list(pool.map(lambda name: tokens(store.swap(claims(keys(10), name))), "abcdefgh"))

    assert all(answer == told[0] for answer in told)


def test_two_ledgers_in_one_keyspace_do_not_meet(cassandra_url, store):
    store.swap(claims([NEW]))
    with closing(connect(with_option(cassandra_url, "prefix=Other"))) as other:
        assert other.get([NEW]) == [NOTHING]
        assert tokens(other.swap(claims([NEW], "bob"))) == ["bob"]
    assert tokens(store.get([NEW])) == ["ann"]


def test_a_batch_is_larger_than_what_is_under_way_at_once(store):
    names = keys(300)

    assert tokens(store.swap(claims(names))) == ["ann"] * 300
    assert tokens(store.get(names)) == ["ann"] * 300


# ----- tables


def noted(store: Blocking) -> list[dict[str, Any]]:
    return lying(store, "meta")


def test_tables_are_versioned_and_those_of_the_future_are_refused(cassandra_url, store):
    store.get([NEW])
    assert noted(store) == [{"name": "schema", "value": "1"}]
    store.client.query(f"UPDATE {store.client.address.table('meta')} SET value = '2' WHERE name = 'schema'")
    for create in (True, False):
        with pytest.raises(Misconfigured, match=r"newer Onefold \(schema 2, this one knows 1\): upgrade"):
            connect(cassandra_url, create).get([NEW])


def test_tables_that_were_made_by_hand_are_used(cassandra_url):
    by_hand = [each for each in ddl("cassandra:").split(";\n") if each.strip()][2:]
    with session(cassandra_url) as opened:
        for statement in by_hand:
            opened.execute(statement)
    with closing(connect(cassandra_url, create=False)) as store:
        assert tokens(store.swap(claims([NEW]))) == ["ann"]


def test_a_worker_that_died_while_it_made_the_tables_stands_in_nobodys_way(cassandra_url):
    with session(cassandra_url) as opened:
        opened.execute(ddl("cassandra:").split(";\n")[2])
    with closing(connect(cassandra_url)) as store:
        assert tokens(store.swap(claims([Key("charges", 1)]))) == ["ann"]
        assert noted(store) == [{"name": "schema", "value": "1"}]
