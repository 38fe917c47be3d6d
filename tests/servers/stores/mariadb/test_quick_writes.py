"""First claims and settles, which are written without being read back: replies, races, losses and texts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from itertools import pairwise
from random import Random
from typing import Any

import pytest
from msgspec.structs import replace
from pymysql.constants import CLIENT

from onefold import Key
from onefold.core.entry import NOTHING, UNKNOWN, Change, Entry
from onefold.core.errors import Unreachable
from onefold.testing.clock import FakeClock
from onefold.testing.contract.words import in_order
from onefold.testing.contract.writing import TEXTS
from onefold.testing.proxy import Delay, Drop, Proxy, Reset, Swallow
from tests.servers.stores.mariadb.hands import timed
from tests.servers.stores.mariadb.ledgers import dialled
from tests.servers.stores.mariadb.test_errors import Background, waiting
from tests.servers.stores.words import inserts, keys, stored, tokens

pytestmark = pytest.mark.store("mariadb")

KEY = Key("quick", 1)
CLAIM = b"INSERT INTO onefold_entries"
SETTLE = b"entry.state = 'done'"
LOOK = b"SELECT\n    entry.id"
"""Words in a look, and in no write of claims and settles."""

HOSTILE = (
    *TEXTS, "\0", "a\0b", "\x1a", "\\", "\\'", "'", "''", '"', "`", "\\\\'", "%", "%s", "%%", "x'00'", " ",
    "NULL", "x'); DELETE FROM onefold_entries; --", "@onefold_now", "/*! x */", "\U0010ffff", "\ud7ff\ue000",
    "😀'\\\0",
)  # fmt: skip

BY_COUNT = pytest.mark.parametrize("count", [1, 5])


@pytest.fixture
def proxy(mariadb_url: str) -> Iterator[Proxy]:
    with Proxy.before(mariadb_url) as proxy:
        yield proxy


def settles(names: Sequence[Key], entries: Sequence[Entry], body: str = "sent", **asked: Any) -> list[Change]:
    """Settle entries as a ledger does."""
    done = [
        replace(entry, state="done", why=None, not_before=None, expires=None, body=body) for entry in entries
    ]
    return [
        Change(name, before.version, entry, settles=True, **asked)
        for name, before, entry in zip(names, entries, done, strict=True)
    ]


def exact(seen: Sequence[Any]) -> list[str]:
    """Show entries with every digit and type, which `==` would not compare."""
    return [repr(one.entry) for one in seen]


# ----- what is counted


def test_a_claim_that_meets_a_row_counts_as_no_row(opened, mariadb_url):
    """CLIENT_FOUND_ROWS would count it as one, and the loser would believe that it has won."""
    store = opened(mariadb_url)
    store.swap(inserts([KEY]))
    again = store.ask("INSERT INTO onefold_meta VALUES ('schema', '1') ON DUPLICATE KEY UPDATE name = name")
    flags = store.store.client._link.connection.client_flag

    assert again == [(0,)]
    assert not flags & CLIENT.FOUND_ROWS


@BY_COUNT
def test_writes_take_one_round_trip_and_a_second_only_if_some_were_refused(opened, proxy, count):
    store = opened(proxy.url)
    names = keys(count)
    store.get(names)
    turns = [len(proxy.journal)]
    held = [stored(reply) for reply in store.swap(inserts(names))]
    turns.append(len(proxy.journal))
    store.swap(settles(names, held))
    turns.append(len(proxy.journal))
    store.swap(settles(names, held))
    turns.append(len(proxy.journal))

    assert [after - before for before, after in pairwise(turns)] == [1, 1, 2]


# ----- replies are what is stored


@BY_COUNT
def test_replies_are_what_a_later_look_finds_to_the_last_digit(mariadb_url, count):
    chance, clock = Random(7), FakeClock()
    with closing(timed(mariadb_url, clock)) as store:
        for turn in range(40):
            clock.jump(chance.uniform(-1e6, 1e6))
            names = keys(count, f"turn {turn}")
            spans = [chance.choice((0.1, 1 / 3, 1e-7, 1e16, chance.uniform(0, 1e5))) for _ in range(4)]
            wanted = Entry("held", None, "ann", lease=spans[0], begun=spans[1], attempt=3)
            changes = [
                Change(name, None, wanted, chance.random() < 0.5, delay=spans[2], keep=spans[3])
                for name in names
            ]
            claimed = store.swap(changes)
            found = store.get(names)
            held = [stored(reply) for reply in found]
            clock.jump(chance.uniform(0, 100))
            done = store.swap(settles(names, held, keep=spans[3]))

            assert exact(claimed) == exact(found)
            assert exact(done) == exact(store.get(names))


@pytest.mark.parametrize("state", ["free", "held", "parked", "done"])
def test_a_first_claim_in_any_state_is_due_when_a_slow_write_would_say(opened, mariadb_url, sql, state):
    """Alone it is a row; beside an update it is a part of a JSON array."""
    store = opened(mariadb_url)
    row, other, json = keys(3)
    [[first]] = [store.swap(inserts([other]))]
    wanted = Entry(state, "failed" if state == "parked" else None, "ann", lease=9.0)
    update = Change(other, stored(first).version, Entry("held", token="ann"))
    store.swap([Change(row, None, wanted, delay=5.0)])
    store.swap(in_order([Change(json, None, wanted, delay=5.0), update]))
    dues = "SELECT ROUND(due - written, 3), not_before - written FROM onefold_entries WHERE id = x'{}'"

    assert sql(dues.format(row.id.hex())) == sql(dues.format(json.id.hex()))


def test_in_a_batch_of_claims_and_settles_some_are_written_and_some_are_not(opened, mariadb_url):
    store = opened(mariadb_url)
    names = keys(12)
    held = dict(zip(names, map(stored, store.swap(inserts(names[:8]))), strict=False))
    moved = names[4:6]
    store.swap([Change(name, held[name].version, replace(held[name], token="eve")) for name in moved])
    taken = [
        Change(name, None, Entry("held", token="bob", lease=60.0)) for name in (*names[6:8], *names[8:10])
    ]
    absent = settles(names[10:], [held[names[0]]] * 2)
    both = in_order([*settles(names[:6], [held[name] for name in names[:6]]), *taken, *absent])

    replies = store.swap(both)

    assert [reply.entry for reply in replies] == [seen.entry for seen in store.get(names)]
    assert tokens(replies) == ["ann"] * 4 + ["eve"] * 2 + ["ann"] * 2 + ["bob"] * 2 + [None] * 2
    assert [reply.entry.state for reply in replies[:10]] == ["done"] * 4 + ["held"] * 6
    assert replies[10:] == [NOTHING] * 2


def test_a_batch_of_claims_and_settles_that_are_all_written_tells_both(opened, mariadb_url):
    store = opened(mariadb_url)
    names = keys(6)
    held = [stored(reply) for reply in store.swap(inserts(names[::2]))]
    both = in_order([*settles(names[::2], held), *inserts(names[1::2])])

    replies = store.swap(both)

    assert [reply.entry.state for reply in replies] == ["done", "held"] * 3
    assert exact(replies) == exact(store.get(names))


# ----- races


@BY_COUNT
@pytest.mark.parametrize(("end", "winner"), [("COMMIT", "other"), ("ROLLBACK", "ann")])
def test_a_claim_that_waited_for_another_insert_sees_who_won(opened, mariadb_url, count, end, winner):
    """The winner's row is committed after the loser's statement began."""
    store = opened(mariadb_url)
    names = keys(count)
    store.get(names)
    with closing(dialled(mariadb_url)) as other:
        other.query(TAKEN.format(names[-1].id.hex()))
        with Background(lambda: store.swap(inserts(names))) as swapping:
            swapping.until(lambda: waiting(mariadb_url) == 1)
            other.query(end)

    assert tokens(swapping.answer) == ["ann"] * (count - 1) + [winner]
    assert exact(swapping.answer) == exact(store.get(names))


TAKEN = (
    "INSERT INTO onefold_entries (id, scope, state, token, version, fence, effect, lease, written, attempt, "
    "label, source) VALUES (x'{}', 'orders', 'held', 'other', 7, 7, 'keyed', 1, 1, 1, '', '')"
)


@BY_COUNT
@pytest.mark.parametrize(("end", "state"), [("COMMIT", "parked"), ("ROLLBACK", "done")])
def test_a_settle_that_waited_for_another_update_sees_who_won(opened, mariadb_url, count, end, state):
    store = opened(mariadb_url)
    names = keys(count)
    held = [stored(reply) for reply in store.swap(inserts(names))]
    with closing(dialled(mariadb_url)) as other:
        other.query(PARKED.format(names[-1].id.hex()))
        with Background(lambda: store.swap(settles(names, held))) as swapping:
            swapping.until(lambda: waiting(mariadb_url) == 1)
            other.query(end)

    assert [reply.entry.state for reply in swapping.answer] == ["done"] * (count - 1) + [state]
    assert exact(swapping.answer) == exact(store.get(names))


PARKED = (
    "UPDATE onefold_entries SET state = 'parked', why = 'by-hand', version = version + 1 WHERE id = x'{}'"
)


# ----- lost replies


LOSSES = pytest.mark.parametrize(
    "mishap", [Swallow(), Drop(), Reset(1), Reset(40), Reset(9, "request")], ids=str
)


@BY_COUNT
@LOSSES
def test_writes_whose_reply_is_lost_are_unknown_until_they_are_asked_again(opened, proxy, count, mishap):
    store = opened(proxy.url)
    names = keys(count)
    store.get(names)
    proxy.arm(mishap, when=CLAIM)
    claimed = [store.swap(inserts(names)) for _ in range(2)]
    proxy.arm(mishap, when=SETTLE)
    changes = settles(names, [stored(reply) for reply in claimed[1]])
    settled = [store.swap(changes) for _ in range(2)]

    assert (list(claimed[0]), list(settled[0])) == ([UNKNOWN] * count, [UNKNOWN] * count)
    assert tokens(claimed[1]) == ["ann"] * count
    assert [reply.entry.state for reply in settled[1]] == ["done"] * count
    assert exact(settled[1]) == exact(store.get(names))
    assert proxy.armed == 0


@BY_COUNT
@LOSSES
def test_a_lost_look_leaves_the_batch_unknown_and_what_was_written_stays(opened, proxy, count, mishap):
    store = opened(proxy.url)
    names = keys(count)
    store.swap([Change(names[-1], None, Entry("held", token="bob", lease=60.0))])
    proxy.arm(mishap, when=LOOK)
    claimed = store.swap(inserts(names))
    after = store.get(names)
    held = [stored(seen) for seen in after]
    stale = settles(names, [*held[:-1], replace(held[-1], version=1)])
    proxy.arm(mishap, when=LOOK)
    settled = store.swap(stale)

    assert (list(claimed), list(settled)) == ([UNKNOWN] * count, [UNKNOWN] * count)
    assert tokens(after) == ["ann"] * (count - 1) + ["bob"]
    assert [seen.entry.state for seen in store.get(names)] == ["done"] * (count - 1) + ["held"]
    assert proxy.armed == 0


def test_a_look_that_the_server_refuses_is_unknown_because_the_write_is_committed(opened, proxy, sql):
    store = opened(proxy.url)
    names = keys(3)
    store.swap([Change(names[0], None, Entry("held", token="bob", lease=60.0))])
    proxy.arm(Delay(30.0), when=LOOK)
    with Background(lambda: store.swap(inserts(names))) as swapping:
        proxy.wait(lambda proxy: proxy.held == 1)
        sql("RENAME TABLE onefold_entries TO elsewhere")
        proxy.release()
    sql("RENAME TABLE elsewhere TO onefold_entries")

    assert (list(swapping.answer), swapping.error) == ([UNKNOWN] * 3, None)
    assert tokens(store.get(names)) == ["bob", "ann", "ann"]


def test_a_write_that_the_server_refuses_is_a_definite_no(opened, mariadb_url, sql):
    store = opened(mariadb_url)
    store.get([KEY])
    sql("ALTER TABLE onefold_entries MODIFY token varchar(2) NOT NULL")

    with pytest.raises(Unreachable, match="nothing was written"):
        store.swap(inserts(keys(3)))
    assert sql("SELECT COUNT(*) FROM onefold_entries") == [(0,)]


# ----- columns


@BY_COUNT
def test_a_settle_leaves_every_other_column_as_it_is_stored(opened, mariadb_url, sql, count):
    """Even where it differs from what the caller believes: only what a settle changes is written."""
    store = opened(mariadb_url)
    names = keys(count)
    wanted = Entry(
        "parked", "in-doubt", "ann'\\", 0, 77, "keyed", 1 / 3, 0.1, 0.0, 3, None, None,
        "print ", "label", "source", "body",
    )  # fmt: skip
    held = [stored(one) for one in store.swap([Change(name, None, wanted, delay=9.0) for name in names])]
    sql("UPDATE onefold_entries SET label = ' by hand ', attempt = 9, begun = 0.1, source = '', lease = 1e-7")
    before = sql(KEPT)
    replies = store.swap(settles(names, held, "sent"))

    assert sql(KEPT) == before
    assert [seen.entry.label for seen in store.get(names)] == [" by hand "] * count
    assert sql(CHANGED) == [("done", None, None, None, None, "sent")] * count
    assert [reply.entry.version for reply in replies] == [one.version + 1 for one in held]


KEPT = (
    "SELECT id, scope, token, fence, effect, begun, lease, attempt, fingerprint, label, source "
    "FROM onefold_entries ORDER BY id"
)
CHANGED = "SELECT state, why, not_before, expires, due, body FROM onefold_entries"


@pytest.mark.parametrize("odd", ["why", "state", "begin", "delay", "fence"])
def test_a_settle_that_changes_more_than_usual_is_written_completely(opened, mariadb_url, odd):
    store = opened(mariadb_url)
    [held] = [stored(reply) for reply in store.swap(inserts([KEY]))]
    [usual] = settles([KEY], [held])
    done = replace(held, state="done")
    change = {
        "why": replace(usual, entry=replace(done, state="parked", why="failed")),
        "state": replace(usual, entry=replace(done, state="free")),
        "begin": replace(usual, begin=True),
        "delay": replace(usual, delay=3.0),
        "fence": replace(usual, entry=replace(done, fence=0)),
    }[odd]
    replies = store.swap([change])

    assert exact(replies) == exact(store.get([KEY]))
    assert stored(replies[0]).version == held.version + 1


# ----- texts


MODES = (
    "STRICT_ALL_TABLES",
    "STRICT_ALL_TABLES,NO_BACKSLASH_ESCAPES",
    "ANSI,ANSI_QUOTES,NO_BACKSLASH_ESCAPES",
)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("alone", [True, False], ids=["alone", "in a batch"])
def test_hostile_texts_come_back_from_every_column_in_every_mode(opened, mariadb_url, mode, alone):
    store = opened(mariadb_url)
    store.ask(f"SET SESSION sql_mode = '{mode}'")
    words = {Key("hostile", repr(text)): text for text in HOSTILE}
    claims = in_order(
        Change(name, None, Entry("held", None, text, fingerprint=text, label=text, source=text, body=text))
        for name, text in words.items()
    )
    names = [change.key for change in claims]
    parts = [[change] for change in claims] if alone else [claims]
    held = [stored(reply) for part in parts for reply in store.swap(part)]
    found = [stored(seen) for seen in store.get(names)]
    ends = [
        Change(name, one.version, replace(one, state="done", body=words[name] * 2), settles=True)
        for name, one in zip(names, held, strict=True)
    ]
    done = [reply for part in ([[end] for end in ends] if alone else [ends]) for reply in store.swap(part)]

    assert held == found
    for name, one in zip(names, found, strict=True):
        assert {one.token, one.fingerprint, one.label, one.source, one.body} == {words[name]}
    assert exact(done) == exact(store.get(names))
    assert [stored(reply).body for reply in done] == [words[name] * 2 for name in names]


def test_scopes_that_look_like_commands_are_stored_letter_by_letter(opened, mariadb_url):
    store = opened(mariadb_url)
    scopes = ["it's", "back\\slash", "100%s", "żółw 😀", "x'00'", 'say "hi"']
    names = sorted((Key(scope, 1) for scope in scopes), key=lambda key: key.id)
    store.swap(inserts(names))
    found = {bytes(row[0]).decode() for row in store.ask("SELECT scope FROM onefold_entries")}

    assert found == set(scopes)
