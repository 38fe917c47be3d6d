"""A network that loses, cuts, delays and falls silent: unknown stays so until it is known; nothing hangs."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing

import pytest

from onefold import Key
from onefold.core.entry import UNKNOWN
from onefold.core.errors import Unreachable
from onefold.stores import connect
from onefold.testing.proxy import Delay, Drop, Mishap, Proxy, Reset, Swallow
from tests.servers.stores.relational.databases import on_each
from tests.servers.stores.words import inserts, token

KEY = Key("network", 1)
CLAIM = b"INSERT INTO onefold_entries"
COUNT = "SELECT count(*) FROM onefold_entries"


@pytest.fixture
def proxy(url: str) -> Iterator[Proxy]:
    with Proxy.before(url) as proxy:
        yield proxy


@on_each(
    "mishap, written",
    postgresql=[(Swallow(), {2}), (Drop(), {0})],
    # A server that notices on its way that nobody listens any more does not commit; another one has.
    mariadb=[(Swallow(), {0, 2}), (Drop(), {0})],
)
def test_a_write_whose_answer_does_not_come_is_unknown(opened, proxy, sql, mishap, written):
    store = opened(proxy.url)
    store.get([KEY])
    proxy.arm(mishap, when=CLAIM)

    replies = store.swap(inserts([KEY, Key("network", 2)]))

    assert list(replies) == [UNKNOWN, UNKNOWN]
    assert sql(COUNT)[0][0] in written
    assert {token(reply) for reply in store.swap(inserts([KEY, Key("network", 2)]))} == {"ann"}


@pytest.mark.parametrize("mishap", [Swallow(), Drop(), Reset(0, "request"), Reset(7), Reset(40, "request")])
@pytest.mark.parametrize("during", ["claim", "settle"])
def test_a_call_whose_cable_was_cut_runs_once_and_is_done(opened, database, proxy, caplog, mishap, during):
    store = opened(proxy.url)
    store.get([KEY])
    proxy.arm(mishap, when={"claim": CLAIM, "settle": database.settle}[during])

    states = [store.call(KEY, "sent"), store.call(KEY, "sent again")]

    assert states == ["ran", "done"]
    assert proxy.armed == 0
    assert caplog.messages == []


@on_each(
    "side, cuts",
    postgresql=[("request", [1, 5, 6, 40, 200, 900, 1500]), ("reply", [1, 4, 5, 9, 30, 60, 200])],
    mariadb=[("request", [1, 4, 5, 40, 900, 1200]), ("reply", [1, 4, 5, 11, 12, 60, 90, 120])],
)
def test_a_cable_that_is_cut_at_any_byte_leaves_all_of_a_batch_or_nothing(proxy, sql, side, cuts):
    with closing(connect(proxy.url)) as store:
        store.get([KEY])
        for cut in cuts:
            keys = [Key("network", side, cut, part) for part in range(3)]
            proxy.arm(Reset(cut, side), when=CLAIM)
            replies = store.swap(inserts(keys))
            [[between]] = sql(COUNT)
            again = store.swap(inserts(keys))

            assert list(replies) == [UNKNOWN] * 3
            assert between % 3 == 0
            assert {token(reply) for reply in again} == {"ann"}
    written = sql(COUNT)

    assert written == [(3 * len(cuts),)]


def test_a_slow_server_is_waited_for(opened, database, proxy):
    store = opened(proxy.url)
    store.get([KEY])
    proxy.arm(Delay(0.1, "reply"), when=CLAIM)
    proxy.arm(Delay(0.1), when=database.settle)

    began = time.monotonic()

    assert store.call(KEY) == "ran"
    assert time.monotonic() - began >= 0.2


@on_each("words", postgresql=["Connection refused"], mariadb=["Can't connect"])
def test_a_cable_that_is_cut_refuses_and_one_that_is_mended_serves(opened, proxy, words):
    store = opened(proxy.url)
    store.call(KEY)
    proxy.cut()
    with pytest.raises(Unreachable, match=f"cannot be reached: .*{words}"):
        store.call(Key("network", 2))
    proxy.heal()

    assert [store.call(KEY), store.call(Key("network", 2))] == ["done", "ran"]


MISHAPS: list[Mishap] = [Swallow(), Drop(), Reset(3, "request"), Reset(9, "reply")]


@pytest.mark.parametrize("mishap", MISHAPS)
def test_making_the_tables_is_repeated_when_its_answer_is_lost(opened, proxy, sql, mishap):
    store = opened(proxy.url)
    proxy.arm(mishap, when=b"CREATE TABLE")

    assert store.call(KEY) == "ran"
    assert sql("SELECT value FROM onefold_meta") == [("1",)]
