"""What a swap writes, what it replies, and how many exchanges it takes: a look is for losers only."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from secrets import token_hex
from typing import Any

import pytest
from msgspec.structs import replace

from onefold import Key
from onefold.core.entry import FIELDS, NOTHING, UNKNOWN, Change, Entry, due
from onefold.stores import connect
from onefold.testing.contract.words import LONG, entry, in_order
from onefold.testing.proxy import Drop, Proxy, Reset, Swallow
from tests.servers.stores.words import at, claims, keys, stored, tokens

pytestmark = pytest.mark.store("postgresql")

KEY = Key("writing", 1)
LOOK = b"WHERE id = ANY"
WRITES = {"claim": b"INSERT INTO onefold_entries", "update": b"UPDATE onefold_entries"}
MISHAPS = pytest.mark.parametrize("mishap", [Swallow(), Drop(), Reset(0, "request"), Reset(7)], ids=str)

FULL = Entry(
    "held",
    token="ann",
    effect="keyed",
    lease=33.0,
    attempt=4,
    fingerprint="f",
    label="l",
    source="s",
    body="0",
)
"""A claim with every column set."""


@pytest.fixture
def proxy(postgresql_url: str) -> Iterator[Proxy]:
    with Proxy.before(postgresql_url) as proxy:
        yield proxy


@pytest.fixture
def store(opened, proxy: Proxy) -> Any:
    store = opened(proxy.url)
    store.get([])
    return store


@pytest.fixture
def exchanges(proxy: Proxy) -> Callable[[Callable[[], object]], int]:
    """Count how often the server is asked while something is done."""

    def count(act: Callable[[], object]) -> int:
        before = len(proxy.journal)
        act()
        return len(proxy.journal) - before

    return count


# ----- batches of every kind


def test_a_batch_of_every_kind_of_change_replies_with_what_is_stored(store):
    names = {name: Key("writing", name) for name in KINDS}
    held = {
        name: stored(reply)
        for name, key in names.items()
        if name not in ("inserted", "settled but absent")
        for reply in store.swap([_prepared(name, key)])
    }
    versions = {name: one.version for name, one in held.items()}
    bob, done = entry("held", "bob", body="2"), {name: _done(one) for name, one in held.items()}
    changes = {
        "inserted": Change(names["inserted"], None, bob),
        "taken": Change(names["taken"], None, bob),
        "updated": Change(names["updated"], versions["updated"], bob, begin=True),
        "updated too late": Change(names["updated too late"], versions["updated too late"] - 1, bob),
        "settled": Change(names["settled"], versions["settled"], done["settled"], keep=LONG, settles=True),
        "settled too late": Change(
            names["settled too late"],
            versions["settled too late"] - 1,
            done["settled too late"],
            settles=True,
        ),
        "settled but absent": Change(names["settled but absent"], 7, done["settled"], settles=True),
        "removed": Change(names["removed"], versions["removed"], None),
        "not to be removed": Change(names["not to be removed"], versions["not to be removed"], None),
    }
    batch = in_order(changes.values())

    told = dict(zip([change.key for change in batch], store.swap(batch), strict=True))
    replies = {name: told[key] for name, key in names.items()}

    assert [seen.entry for seen in store.get(list(names.values()))] == [one.entry for one in replies.values()]
    assert replies["removed"] == replies["settled but absent"] == NOTHING
    for name in ("taken", "updated too late", "settled too late", "not to be removed"):
        assert stored(replies[name]) == held[name]
    assert {name: tokens([replies[name]]) for name in ("inserted", "updated")} == {
        "inserted": ["bob"],
        "updated": ["bob"],
    }
    assert stored(replies["updated"]).begun == stored(replies["updated"]).written
    settled = stored(replies["settled"])
    assert (settled.state, settled.body, settled.version) == ("done", "receipt", versions["settled"] + 1)
    assert settled.expires == settled.written + LONG


KINDS = (
    "inserted", "taken", "updated", "updated too late", "settled", "settled too late", "settled but absent",
    "removed", "not to be removed",
)  # fmt: skip


def _prepared(name: str, key: Key) -> Change:
    if name == "removed":
        return Change(key, None, entry("done"), keep=0.0)
    return Change(key, None, FULL, begin=True)


def _done(one: Entry) -> Entry:
    return replace(one, state="done", body="receipt")


# ----- endings

COLUMNS = ("id", "scope", *FIELDS, "due")
WRITTEN = {"state", "why", "version", "written", "not_before", "expires", "body", "due"}
ENDINGS: dict[str, dict[str, Any]] = {
    "done": {"keep": LONG},
    "done for good": {},
    "parked": {},
    "free": {"delay": 7.0},
    "free at once": {},
}


@pytest.mark.parametrize("count", [1, 3], ids=["single", "batch"])
@pytest.mark.parametrize("ending", ENDINGS)
def test_an_ending_leaves_every_other_column_as_it_is_stored(store, sql, ending, count):
    names = keys(count, "writing")
    before = [stored(reply) for reply in store.swap([Change(key, None, FULL, begin=True) for key in names])]
    rows = _rows(sql)
    state = ending.partition(" ")[0]
    why = "failed" if state == "parked" else None

    replies = store.swap(
        [
            Change(
                key,
                one.version,
                replace(one, state=state, why=why, body=None),
                settles=True,
                **ENDINGS[ending],
            )
            for key, one in zip(names, before, strict=True)
        ]
    )

    after = _rows(sql)
    assert [seen.entry for seen in store.get(names)] == [stored(reply) for reply in replies]
    for key, reply in zip(names, replies, strict=True):
        old, new = rows[key.id], after[key.id]
        assert {name: new[name] for name in COLUMNS if name not in WRITTEN} == {
            name: old[name] for name in COLUMNS if name not in WRITTEN
        }
        assert (new["state"], new["why"], new["body"], new["version"]) == (
            state,
            why,
            None,
            old["version"] + 1,
        )
        assert new["due"] == due(stored(reply))
        assert new["written"] > old["written"]


def test_an_ending_that_says_when_its_effect_began_is_written_whole(store):
    [claimed] = store.swap([Change(KEY, None, FULL)])
    [ended] = store.swap(
        [Change(KEY, stored(claimed).version, _done(stored(claimed)), begin=True, settles=True)]
    )

    assert stored(ended).begun == stored(ended).written
    assert [seen.entry for seen in store.get([KEY])] == [stored(ended)]


def _rows(sql: Any) -> dict[bytes, dict[str, Any]]:
    found = sql(f"SELECT {', '.join(COLUMNS)} FROM onefold_entries")
    return {row[0]: dict(zip(COLUMNS, row, strict=True)) for row in found}


# ----- exchanges


def test_a_change_that_wins_is_one_exchange_and_only_losers_are_looked_at(store, exchanges):
    names = keys(5, "writing")

    assert exchanges(lambda: store.swap(claims(names[:1]))) == 1
    assert exchanges(lambda: store.swap(claims(names[:1], "bob"))) == 1
    assert exchanges(lambda: store.swap(claims(names[1:]))) == 1
    assert exchanges(lambda: store.swap(claims(names, "bob"))) == 2
    stale = [Change(names[0], 7, Entry("done", token="ann"))]
    assert exchanges(lambda: store.swap(stale)) == 2


@pytest.mark.parametrize("settles", [False, True], ids=["updated", "settled"])
@pytest.mark.parametrize("count", [1, 3], ids=["single", "batch"])
def test_a_claim_of_a_key_that_was_written_again_is_one_exchange(store, exchanges, count, settles):
    """A batch locks its rows before it writes them, which must not count as a change by somebody else."""
    names = keys(count, "writing")
    first = [stored(reply) for reply in store.swap(claims(names))]
    later = [
        Change(key, one.version, _done(one), settles=settles) for key, one in zip(names, first, strict=True)
    ]
    assert exchanges(lambda: store.swap(later)) == 1

    for key in names:
        assert exchanges(lambda key=key: store.swap(claims([key], "bob"))) == 1
        assert [stored(reply).state for reply in store.swap(claims([key], "bob"))] == ["done"]


def test_a_claim_of_a_key_whose_row_somebody_locked_looks_again(store, exchanges, sql, other):
    store.swap(claims([KEY]))
    other.execute("SELECT FROM onefold_entries FOR UPDATE")
    other.rollback()

    assert exchanges(lambda: store.swap(claims([KEY], "bob"))) == 2
    assert tokens(store.swap(claims([KEY], "bob"))) == ["ann"]


# ----- lost replies


@MISHAPS
@pytest.mark.parametrize("count", [1, 4], ids=["single", "batch"])
def test_a_write_without_a_reply_is_unknown_for_winners_and_losers(store, proxy, mishap, count):
    names = keys(count, "writing")
    if count > 1:
        store.swap(claims(names[:1], "bob"))
    proxy.arm(mishap, when=WRITES["claim"])

    assert list(store.swap(claims(names))) == [UNKNOWN] * count
    assert proxy.armed == 0
    assert tokens(store.swap(claims(names))) == (["ann"] if count == 1 else ["bob", "ann", "ann", "ann"])


@MISHAPS
def test_a_look_without_a_reply_leaves_losers_unknown_and_winners_known(store, proxy, mishap):
    names = keys(4, "writing")
    store.swap(claims(names[:2], "bob"))
    proxy.arm(mishap, when=LOOK)

    replies = store.swap(claims(names))

    assert list(replies[:2]) == [UNKNOWN, UNKNOWN]
    assert [stored(reply) for reply in replies[2:]] == [seen.entry for seen in store.get(names[2:])]
    assert tokens(store.swap(claims(names))) == ["bob", "bob", "ann", "ann"]


@MISHAPS
@pytest.mark.parametrize("settles", [False, True], ids=["update", "settle"])
def test_a_single_later_write_whose_look_has_no_reply_is_unknown(store, proxy, mishap, settles):
    [first] = store.swap(claims([KEY]))
    stale = Change(KEY, stored(first).version - 1, _done(stored(first)), settles=settles)
    proxy.arm(mishap, when=LOOK)

    assert list(store.swap([stale])) == [UNKNOWN]
    assert list(map(stored, store.swap([stale]))) == [stored(first)]


@MISHAPS
@pytest.mark.parametrize("count", [1, 4], ids=["single", "batch"])
def test_an_ending_without_a_reply_is_unknown_and_happens_once(store, proxy, mishap, count):
    names = keys(count, "writing")
    first = [stored(reply) for reply in store.swap(claims(names))]
    ends = [Change(key, one.version, _done(one), settles=True) for key, one in zip(names, first, strict=True)]
    proxy.arm(mishap, when=WRITES["update"])

    assert list(store.swap(ends)) == [UNKNOWN] * count
    again = [stored(reply) for reply in store.swap(ends)]

    assert {one.state for one in again} == {"done"}
    assert [one.version for one in again] == [one.version + 1 for one in first]


@pytest.fixture
def half_blind(postgresql_url: str, sql: Any) -> Iterator[str]:
    """The URL of a user who may claim, and may not read whole rows."""
    with closing(connect(postgresql_url)) as store:
        store.get([])
    [[schema]], user = sql("SELECT current_schema()"), f"half_blind_{token_hex(4)}"
    sql(f"CREATE ROLE {user} LOGIN PASSWORD 'only-for-guests'")
    sql(f"GRANT USAGE ON SCHEMA {schema} TO {user}")
    sql(f"GRANT SELECT ON onefold_meta TO {user}")
    sql(f"GRANT INSERT, SELECT (id, version, written) ON onefold_entries TO {user}")
    yield at(postgresql_url, user=user, password="only-for-guests")
    sql(f"DROP OWNED BY {user}")
    sql(f"DROP ROLE {user}")


def test_a_look_that_the_server_refuses_leaves_losers_unknown_and_winners_known(opened, half_blind, sql):
    names = keys(2, "writing")
    opened(half_blind).swap(claims([names[0], Key("writing", "other")], "bob"))

    replies = opened(half_blind).swap(claims(names))

    assert list(replies[:1]) == [UNKNOWN]
    assert tokens(replies[1:]) == ["ann"]
    assert sql("SELECT count(*) FROM onefold_entries") == [(3,)]
