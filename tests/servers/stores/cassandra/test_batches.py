"""Hints leave in batches: every open entry has its hint, whatever is lost, late or refused on the way."""

import asyncio
import json
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from itertools import count, islice
from random import Random
from typing import Any

import pytest
from msgspec.structs import replace

from onefold.core.entry import NOTHING, OPEN, STATES, UNKNOWN, Change, Entry, Reply
from onefold.core.errors import OnefoldError
from onefold.core.key import SCOPE_LENGTH, Key
from onefold.testing.contract.words import entry, in_order
from onefold.testing.proxy import Delay, Drop, Proxy, Reset, Swallow

pytest.importorskip("cassandra", reason="cassandra-driver is not installed: it comes with the test servers")

from onefold.stores.cassandra import aconnect, connect, rows
from onefold.stores.cassandra.batches import BATCH_BYTES, HINT_BYTES, messages
from onefold.stores.cassandra.rows import PARTS, Statement
from onefold.stores.shells import Blocking
from tests.servers.stores.cassandra.ledgers import listed, lying
from tests.servers.stores.words import NEW, claims, keys, stored, tokens

FIT = BATCH_BYTES // (HINT_BYTES + len("orders"))
"""Hints of the scope `orders` that fit into one batch."""

# A prepared statement is sent by its digest. The number of its values and the length of the first one follow.
LIST = b"\x00\x05\x00\x00\x00\x04\x00\x00\x00"
UNLIST = b"\x00\x03\x00\x00\x00\x08"

Swap = Callable[[Sequence[Change]], Sequence[Reply]]


@pytest.fixture
def store(cassandra_url: str) -> Iterator[Blocking]:
    with closing(connect(cassandra_url)) as store:
        yield store


@pytest.fixture(params=["sync", "async"])
def swap(request: pytest.FixtureRequest, store: Blocking, cassandra_url: str) -> Iterator[Swap]:
    """Write through the sync or the async store."""
    if request.param == "sync":
        yield store.swap
        return
    awaited = aconnect(cassandra_url)
    yield lambda changes: asyncio.run(awaited.swap(changes))
    asyncio.run(awaited.close())


@pytest.fixture
def proxy(cassandra_url: str) -> Iterator[Proxy]:
    with Proxy.before(cassandra_url) as proxy:
        yield proxy


def in_one_part(count_: int) -> list[Key]:
    """Make keys whose hints are all in one partition."""
    wanted = (key for key in (Key("orders", n) for n in count()) if rows.part(key.id) == 0)
    return sorted(islice(wanted, count_), key=lambda key: key.id)


def hints(store: Blocking) -> dict[bytes, int]:
    """Read the version in every hint."""
    return {row["id"]: row["version"] for row in lying(store, "open")}


def known(names: Sequence[Key], replies: Sequence[Reply]) -> list[tuple[Key, Entry]]:
    """Return each key with the entry that its reply shows."""
    return list(zip(names, map(stored, replies), strict=True))


def expected_hints(names: Sequence[Key], replies: Sequence[Reply]) -> dict[bytes, int]:
    """Return the hints that there must be after these replies."""
    return {key.id: kept.version for key, kept in known(names, replies) if kept.state != "done"}


def settle(names: Sequence[Key], replies: Sequence[Reply], **fields: Any) -> list[Change]:
    return [
        Change(key, kept.version, replace(kept, state="done", **fields), settles=True)
        for key, kept in known(names, replies)
    ]


def written(names: Sequence[Key], replies: Sequence[Reply], wanted: Entry | None) -> list[Change]:
    """Write the same under each key, on the version that its reply shows."""
    return [Change(key, kept.version, wanted) for key, kept in known(names, replies)]


# ----- what shares a message


def test_only_hints_of_one_partition_share_a_message():
    names = keys(6)
    one, two = in_one_part(2)
    other = next(key for key in names if rows.part(key.id) != 0)
    asked = [
        rows.look(one.id),
        rows.listed(one, 5),
        rows.listed(other, 5),
        rows.look(two.id),
        rows.listed(two, 6),
        Statement("remove", [one.id, 5]),
    ]

    assert messages(asked) == [[0], [1, 4], [2], [3], [5]]


def test_writing_a_hint_and_removing_one_never_share_a_message():
    one, two, three = in_one_part(3)

    assert messages([rows.listed(one, 5), rows.unlisted(two.id, 5), rows.listed(three, 5)]) == [[0, 2], [1]]


@pytest.mark.parametrize("scope", ["s", "orders", "\N{GRINNING FACE}" * SCOPE_LENGTH])
@pytest.mark.parametrize("number", [0, 1, 2, 50, 2000])
def test_every_statement_leaves_once_in_batches_of_bounded_size(scope, number):
    names = keys(number, scope)
    sent = messages([rows.listed(key, 5) for key in names])

    assert sorted(at for batch in sent for at in batch) == list(range(number))
    assert all(len(batch) * (HINT_BYTES + len(scope.encode())) <= BATCH_BYTES for batch in sent)
    assert all(len({rows.part(names[at].id) for at in batch}) == 1 for batch in sent)
    # No batch is started while the last one of its partition has room.
    room = BATCH_BYTES // (HINT_BYTES + len(scope.encode()))
    assert sum(len(batch) < room for batch in sent) <= PARTS


# ----- on a server


@pytest.mark.store("cassandra")
def test_hints_of_many_partitions_in_more_than_one_batch_each_are_all_written_and_removed(store, swap):
    names = keys(PARTS * (FIT + 5))
    held = swap(claims(names))
    asked = [rows.listed(key, stored(reply).version) for key, reply in zip(names, held, strict=True)]

    assert len(messages(asked)) > PARTS
    assert hints(store) == expected_hints(names, held)
    assert sorted(listed(store), key=lambda key: key.id) == names
    swap(settle(names, held))
    assert hints(store) == {}
    assert listed(store) == []


@pytest.mark.store("cassandra")
def test_a_hint_in_a_batch_is_written_at_the_time_of_its_version(store, swap):
    held = swap(claims(in_one_part(FIT + 1)))
    table = store.client.address.table("open")
    found = store.client.query(f"SELECT version, writetime(version) AS at FROM {table}")

    assert sorted(row["at"] for row in found) == sorted(stored(reply).version for reply in held)
    assert all(row["at"] == row["version"] for row in found)


@pytest.mark.store("cassandra")
def test_a_batch_of_all_kinds_of_changes_in_which_some_lose_leaves_the_hints_of_what_is_open(store, swap):
    names = in_one_part(60)
    free, bobs, stale, settled, parked, gone = (names[at::6] for at in range(6))
    bob = store.swap(claims(bobs, "bob"))
    old = store.swap(claims(stale))
    renewed = store.swap(written(stale, old, entry()))
    mine = store.swap(claims(settled))
    failing = store.swap(claims(parked))
    over = store.swap([Change(key, None, entry("done"), keep=-1.0) for key in gone])
    changes = in_order([
        *claims([*free, *bobs]),
        *settle(stale, old),
        *settle(settled, mine),
        *written(parked, failing, entry("parked")),
        *written(gone, over, None),
    ])  # fmt: skip
    replies = dict(zip([change.key for change in changes], swap(changes), strict=True))

    def told(of: Sequence[Key]) -> list[Reply]:
        return [replies[key] for key in of]

    assert tokens(told(free)) == ["ann"] * 10
    assert [stored(reply) for reply in told(bobs)] == [stored(reply) for reply in bob]
    assert [stored(reply) for reply in told(stale)] == [stored(reply) for reply in renewed]
    assert {stored(reply).state for reply in told(settled)} == {"done"}
    assert {stored(reply).state for reply in told(parked)} == {"parked"}
    assert told(gone) == [NOTHING] * 10
    still = [*free, *bobs, *stale, *parked]
    assert hints(store) == expected_hints(still, told(still))
    assert set(listed(store)) == set(still)


@pytest.mark.store("cassandra")
def test_a_settle_leaves_every_other_field_as_it_is_stored(store, swap):
    names = in_one_part(3)
    held = swap([
        Change(key, None, Entry(
            "held", token=f"ann {n}", effect="keyed", lease=7.5, attempt=n, fingerprint="f" * n,
            label=f"\N{SNOWMAN} {n}", source="orders.csv", body='{"amount": 5}',
        ), begin=True)
        for n, key in enumerate(names, 1)
    ])  # fmt: skip
    before = {row["id"]: json.loads(row["entry"]) for row in lying(store, "entries")}
    changes = [replace(change, keep=3600.0) for change in settle(names, held, body='"receipt"')]
    done = swap(changes)
    after = {row["id"]: json.loads(row["entry"]) for row in lying(store, "entries")}

    for key, reply in zip(names, done, strict=True):
        kept = stored(reply)
        changed = {"state": "done", "body": '"receipt"', "written": kept.written, "expires": kept.expires}
        assert after[key.id] == before[key.id] | changed
        assert after[key.id] == json.loads(rows.text(key, kept)), "the reply shows what is stored"
        assert kept.expires == pytest.approx(kept.written + 3600.0)


@pytest.mark.store("cassandra")
def test_hints_that_the_server_has_to_prepare_again_are_written(store):
    store.swap(claims([NEW]))
    # A server forgets its prepared statements when their table changes, and when it restarts.
    store.client.query(f"ALTER TABLE {store.client.address.table('open')} ADD more int")
    names = in_one_part(FIT + 1)
    held = store.swap(claims(names))

    assert hints(store) == expected_hints(names, held) | {NEW.id: hints(store)[NEW.id]}
    store.swap(settle(names, held))
    assert list(hints(store)) == [NEW.id]


@pytest.mark.store("cassandra")
def test_a_batch_that_the_driver_cannot_write_fails_for_its_statements_only(store):
    one, two, other = *in_one_part(2), next(key for key in keys(9) if rows.part(key.id) != 0)
    wrong = Statement("list", [0, two.id, "no number", "orders", 5])
    first, second, third = store.client.execute_many([rows.listed(other, 5), rows.listed(one, 5), wrong])

    assert first == []
    assert second is third
    assert isinstance(second, OnefoldError)
    assert list(hints(store)) == [other.id]


# ----- lost on the way


@pytest.mark.store("cassandra")
@pytest.mark.parametrize("mishap", [Drop(), Swallow(), Reset(300, "request"), Reset(1, "reply")], ids=str)
def test_claims_whose_batch_of_hints_is_lost_are_unknown_and_asked_again_are_listed(store, proxy, mishap):
    names = in_one_part(FIT + 5)
    with closing(connect(proxy.url)) as shaky:
        shaky.get([NEW])
        proxy.arm(mishap, when=LIST)
        first = shaky.swap(claims(names))
        again = shaky.swap(claims(names))

    assert first.count(UNKNOWN) >= 5, "a batch is lost as a whole"
    assert tokens(again) == ["ann"] * len(names)
    assert hints(store) == expected_hints(names, again)


@pytest.mark.store("cassandra")
@pytest.mark.parametrize("mishap", [Drop(), Swallow()], ids=str)
def test_settles_whose_batch_of_removals_is_lost_are_known_and_not_listed(store, proxy, mishap):
    names = in_one_part(FIT)
    with closing(connect(proxy.url)) as shaky:
        held = shaky.swap(claims(names))
        proxy.arm(mishap, when=UNLIST)
        done = shaky.swap(settle(names, held))

    assert {stored(reply).state for reply in done} == {"done"}
    assert len(hints(store)) == (len(names) if mishap == Drop() else 0)
    assert listed(store) == []
    assert hints(store) == {}


# ----- late


@contextmanager
def delayed(proxy: Proxy, when: bytes) -> Iterator[None]:
    """Hold the next request with these bytes back until the end of the block."""
    proxy.arm(Delay(60.0, "request"), when=when)
    try:
        yield
    finally:
        proxy.release()


@pytest.mark.store("cassandra")
def test_hints_of_claims_that_arrive_after_their_end_stay_removed(store, proxy):
    names = in_one_part(FIT)
    with closing(connect(proxy.url)) as slow, ThreadPoolExecutor(1) as pool:
        with delayed(proxy, LIST):
            claiming = pool.submit(slow.swap, claims(names))
            proxy.wait(lambda proxy: proxy.held == 1)
            store.swap(settle(names, store.get(names)))
        claiming.result()

    assert hints(store) == {}


@pytest.mark.store("cassandra")
def test_removals_that_arrive_after_a_newer_claim_of_the_same_keys_leave_its_hints(store, proxy):
    names = in_one_part(FIT)
    with closing(connect(proxy.url)) as slow, ThreadPoolExecutor(1) as pool:
        held = slow.swap(claims(names))
        with delayed(proxy, UNLIST):
            settling = pool.submit(slow.swap, settle(names, held))
            proxy.wait(lambda proxy: proxy.held == 1)
            newer = store.swap(written(names, store.get(names), entry("held", "bob")))
        settling.result()

    assert hints(store) == expected_hints(names, newer)
    assert set(listed(store)) == set(names)


@pytest.mark.store("cassandra")
def test_after_a_race_of_many_writers_every_open_entry_has_its_hint(store):
    names = [*in_one_part(12), *keys(12, "charges")]

    def race(writer: int) -> None:
        chance = Random(writer)
        for turn in range(6):
            some = in_order_of_id(chance.sample(names, 16))
            seen = store.get(some)
            store.swap([
                Change(
                    key,
                    one.entry.version if one.entry and chance.random() < 0.9 else None,
                    entry(chance.choice(STATES), f"{writer} {turn}"),
                )
                for key, one in zip(some, seen, strict=True)
            ])  # fmt: skip

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(race, range(4)))

    ordered = in_order_of_id(names)
    found = [(key, seen.entry) for key, seen in zip(ordered, store.get(ordered), strict=True)]
    still = {key: kept.version for key, kept in found if kept and kept.state in OPEN}
    pointed = hints(store)
    assert still
    assert {key: pointed.get(key.id) for key in still} == still
    assert set(listed(store)) == set(still)


def in_order_of_id(names: Sequence[Key]) -> list[Key]:
    return sorted(names, key=lambda key: key.id)
