"""How a ledger lies in a Redis: as its layout says, with nothing left behind, and found without a walk."""

from collections.abc import Callable, Sequence
from contextlib import closing
from itertools import pairwise
from typing import Any

import pytest

from onefold.core.entry import FIELDS, OPEN, Change, Entry
from onefold.core.key import Key
from onefold.core.protocol import purge
from onefold.drive import Ports, run
from onefold.testing.contract.words import entry, in_order

pytest.importorskip("redis", reason="redis is not installed: it comes with the test servers")

from onefold.stores.lua import scripts
from onefold.stores.redis import connect, ddl
from onefold.stores.redis.client import Client
from onefold.stores.redis.plan import Command, RedisPlan
from onefold.stores.shells import Blocking
from tests.servers.stores.redis.ledgers import Server, names
from tests.servers.stores.words import NEW, claims, keys, stored

pytestmark = pytest.mark.store("redis")

DAY = 86400


@pytest.fixture
def store(redis_url):
    store = connect(redis_url)
    yield store
    store.close()


@pytest.fixture
def server(redis_url):
    with Server(redis_url) as client:
        yield client


def write(store, key: Key, wanted: Entry, expected: int | None = None, **asked) -> Entry:
    [reply] = store.swap([Change(key, expected, wanted, **asked)])
    return stored(reply)


def test_the_scripts_know_the_fields_of_an_entry_in_their_order():
    fields = ", ".join(f"'{name}'" for name in (*FIELDS, "scope"))

    assert fields in " ".join(ddl().split())


def test_what_is_printed_is_the_layout_once_and_every_script():
    assert ddl().count("local FIELDS") == 1
    assert list(scripts("redis")) == ["get", "scan", "swap", "walk"]
    assert all(f"\n-- {name}\n" in ddl() for name in scripts("redis"))


def test_a_held_entry_lies_where_the_layout_says(store, server):
    held = write(store, NEW, entry("held", "ann", lease=60.0, label="new", body=""), begin=True)

    assert names(server) == [
        f"{{onefold}}:entry:{NEW.id.hex()}",
        "{onefold}:meta",
        "{onefold}:open:held:orders",
        "{onefold}:scopes",
    ]
    told = server.hgetall(f"{{onefold}}:entry:{NEW.id.hex()}")
    assert told.pop("written") == told.pop("begun")
    assert told == {
        "scope": "orders",
        "state": "held",
        "token": "ann",
        "version": str(held.version),
        "fence": str(held.version),
        "effect": "one-shot",
        "lease": "60",
        "attempt": "0",
        "label": "new",
        "source": "",
        "body": "",
    }
    assert server.zscore("{onefold}:open:held:orders", NEW.id.hex()) == held.written + 60
    assert server.zrange("{onefold}:scopes", 0, -1) == ["orders"]


def test_an_entry_stands_in_the_index_of_its_state_and_in_no_other(store, server):
    now = write(store, NEW, entry("held"))
    for state in ("free", "parked", "held", "done", "parked", "done"):
        now = write(store, NEW, entry(state), now.version)
        indexed = [name for name in names(server) if ":open:" in name]
        assert indexed == [f"{{onefold}}:open:{state}:orders"] * (state != "done")


def test_versions_and_times_are_stored_to_the_last_digit(store, server):
    big = write(store, NEW, entry("held", fence=2**53 - 1, begun=1_700_000_000.123457, lease=0.1 + 0.2))
    told = server.hgetall(f"{{onefold}}:entry:{NEW.id.hex()}")

    assert told["fence"] == str(2**53 - 1)
    assert float(told["begun"]) == big.begun == 1_700_000_000.123457
    assert float(told["lease"]) == big.lease == 0.1 + 0.2
    assert "e" not in told["version"] + told["written"] + told["fence"]


# ----- forgetting


@pytest.mark.parametrize(("keep", "stays"), [(0.5, DAY), (3600, DAY + 3600), (10 * DAY, 20 * DAY)])
def test_a_done_entry_leaves_by_itself_long_after_it_may_be_forgotten(store, server, keep, stays):
    write(store, NEW, entry("done"), keep=keep)

    left = server.pttl(f"{{onefold}}:entry:{NEW.id.hex()}") / 1000
    assert stays - 60 < left <= stays + keep


def test_what_is_kept_for_ever_or_is_open_never_leaves_by_itself(store, server):
    for number, state in enumerate((*OPEN, "done")):
        write(store, Key("orders", number), entry(state), **({"keep": 60} if state in OPEN else {}))

    assert [server.ttl(name) for name in names(server)] == [-1] * len(names(server))


@pytest.mark.parametrize("state", [*OPEN, "done"])
def test_every_later_write_undoes_the_leaving(store, server, state):
    done = write(store, NEW, entry("done"), keep=0.001)
    again = write(store, NEW, entry(state), done.version)

    assert again.version == done.version + 1
    assert server.ttl(f"{{onefold}}:entry:{NEW.id.hex()}") == -1


def test_a_renewed_memory_leaves_later(store, server):
    done = write(store, NEW, entry("done"), keep=0.001)
    write(store, NEW, entry("done"), done.version, keep=10 * DAY)

    assert server.ttl(f"{{onefold}}:entry:{NEW.id.hex()}") > 19 * DAY


def test_nothing_is_left_of_what_was_done_and_purged(store, server):
    held = [stored(reply) for reply in store.swap(claims(keys(120)))]
    finished = [
        Change(key, was.version, entry("done"), keep=1e-6) for key, was in zip(keys(120), held, strict=True)
    ]
    store.swap(finished)
    store.scan(None, OPEN, False, None, 10)

    assert run(purge(page=7), Ports(store)) == 120
    assert names(server) == ["{onefold}:meta"]


# ----- finding


def calls(server) -> dict[str, int]:
    return {name: told["calls"] for name, told in server.info("commandstats").items()}


def test_open_entries_are_found_without_walking_over_the_done_ones(store, server):
    many = keys(3000, "done")
    store.swap(in_order(Change(key, None, entry("done")) for key in many))
    store.swap(in_order(Change(key, None, entry("parked")) for key in keys(3)))
    server.config_resetstat()
    found, after = store.scan(None, OPEN, False, None, 500)
    told = calls(server)

    assert (len(found), after) == (3, None)
    assert told["cmdstat_hmget"] == 3, "only what is open is read"
    assert "cmdstat_scan" not in told
    assert sum(told.values()) < 30


def test_scopes_in_which_nothing_is_open_are_not_looked_at_again(store, server):
    for number in range(50):
        held = write(store, Key(f"scope {number}", 1), entry("held"))
        write(store, Key(f"scope {number}", 1), entry("done"), held.version)
    assert server.zcard("{onefold}:scopes") == 50

    assert store.scan(None, ("held",), False, None, 10) == ([], None)
    assert server.zcard("{onefold}:scopes") == 0
    write(store, Key("scope 7", 2), entry("held"))
    [(key, _)], _ = store.scan(None, ("held",), False, None, 10)
    assert key.scope == "scope 7"


def test_a_scope_with_something_open_in_another_state_is_not_forgotten(store):
    write(store, NEW, entry("parked"))

    assert store.scan(None, ("held", "free"), False, None, 10) == ([], None)
    assert len(store.scan(None, ("parked",), False, None, 10)[0]) == 1


def test_an_index_that_shows_more_than_is_there_misleads_nobody(store, server):
    parked = write(store, NEW, entry("parked"))
    server.zadd("{onefold}:open:held:orders", {NEW.id.hex(): 1, "ab" * 32: 1})
    found, after = store.scan(None, OPEN, False, None, 10)

    assert [seen.entry for _, seen in found] == [parked]
    assert after is None


class Meddling(Client):
    """A connection beside which something else happens after its first call of a script."""

    def __init__(self, url: str, meddle: Callable[[], object]) -> None:
        super().__init__(url)
        self.meddle: Callable[[], object] | None = meddle

    def execute_many(self, commands: Sequence[Command]) -> list[Any]:
        replies = super().execute_many(commands)
        meddle, self.meddle = self.meddle, None
        if meddle:
            meddle()
        return replies


def test_a_claim_that_is_renewed_while_a_page_is_read_stands_in_it_once(store, redis_url):
    held = {key: stored(reply) for key, reply in zip(keys(450), store.swap(claims(keys(450))), strict=True)}
    renewals = [Change(key, was.version, entry("held", "ann")) for key, was in held.items()]
    with closing(Blocking(RedisPlan("onefold"), Meddling(redis_url, lambda: store.swap(renewals)))) as reader:
        found, after = reader.scan(None, ("held",), False, None, 1000)

    assert after is None
    assert sorted(key.id for key, _ in found) == [key.id for key in keys(450)]


def test_a_claim_that_is_settled_while_a_page_is_read_stands_in_it_once(store, redis_url):
    held = {key: stored(reply) for key, reply in zip(keys(150), store.swap(claims(keys(150))), strict=True)}
    endings = [Change(key, was.version, entry("done", "ann")) for key, was in held.items()]
    with closing(Blocking(RedisPlan("onefold"), Meddling(redis_url, lambda: store.swap(endings)))) as reader:
        found, after = reader.scan(None, ("held", "done"), False, None, 1000)

    assert after is None
    assert sorted(key.id for key, _ in found) == [key.id for key in keys(150)]


def test_a_walk_is_not_disturbed_by_what_others_keep_in_the_database(store, server):
    store.swap(in_order(Change(key, None, entry("done")) for key in keys(40)))
    server.mset({f"other:{number}": "x" for number in range(500)})
    server.hset("{onefoldx}:entry:" + "ab" * 32, mapping={"state": "done"})
    pages = [store.scan(None, ("done",), False, None, 7)]
    while pages[-1][1] is not None:
        pages.append(store.scan(None, ("done",), False, pages[-1][1], 7))

    assert sorted(key.id for found, _ in pages for key, _ in found) == [key.id for key in keys(40)]
    assert all(len(found) == 7 for found, _ in pages[:-1])


def test_ledgers_of_different_prefixes_do_not_see_each_other(redis_url):
    prefixes = ["a", "a*", "a?", "[a]", "A", "a-b", "a^", "\\"]
    stores = [connect(f"{redis_url}?prefix={prefix.replace('?', '%3F')}") for prefix in prefixes]
    for prefix, store in zip(prefixes, stores, strict=True):
        write(store, NEW, entry("done", prefix))

    for prefix, store in zip(prefixes, stores, strict=True):
        found, _ = store.scan(None, ("done",), False, None, 100)
        assert [seen.entry.token for _, seen in found if seen.entry] == [prefix]
        store.close()


def test_entries_that_one_call_wrote_share_their_moment_and_later_calls_come_later(store):
    batches = [store.swap(claims(keys(30, f"batch {number}"))) for number in range(4)]
    times = [{stored(reply).written for reply in batch} for batch in batches]

    assert all(len(moments) == 1 for moments in times)
    assert all(max(one) <= min(other) for one, other in pairwise(times))
