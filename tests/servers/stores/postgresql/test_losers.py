"""Changes that lose a race: the reply shows the row they lost to, even if their own statement cannot see it.

Another connection holds its transaction open until the store waits for it. So the store's snapshot is always
older than the commit it loses to.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from typing import Any

import psycopg
import pytest
from msgspec.structs import replace

from onefold import Key
from onefold.core.entry import NOTHING, Change, Entry, Reply
from onefold.core.errors import Unreachable
from onefold.stores import join
from onefold.testing.contract.words import entry, in_order
from tests.servers.stores.postgresql.ledgers import option
from tests.servers.stores.words import claims, keys, stored, tokens
from tests.waiting import wait_for

pytestmark = pytest.mark.store("postgresql")

KEY = Key("losers", 1)
COUNTS = pytest.mark.parametrize("count", [1, 5], ids=["single", "batch"])

Race = Callable[[Any, Sequence[Change], Callable[[], object]], Sequence[Reply]]


@pytest.fixture
def store(opened, postgresql_url: str) -> Any:
    """A store that waits for locks longer than any test takes."""
    store = opened(option(postgresql_url, lock_timeout="60s"))
    store.get([])
    return store


@pytest.fixture
def rival(other: psycopg.Connection, store: Any) -> Any:
    """A store in another connection's open transaction."""
    return join(other)


@pytest.fixture
def race(sql: Any) -> Race:
    """Send changes, and let the rival end its transaction only once the server makes them wait."""

    def race(store: Any, changes: Sequence[Change], end: Callable[[], object]) -> Sequence[Reply]:
        number = pid(store)  # read now: once the changes are sent, the connection is busy
        with ThreadPoolExecutor(1) as pool:
            sent: Future[Sequence[Reply]] = pool.submit(store.swap, changes)
            wait_for_lock(sql, number, sent)
            end()
            return sent.result()

    return race


def pid(store: Any) -> int:
    [[number]] = store.ask("SELECT pg_backend_pid()")
    return int(number)


def wait_for_lock(sql: Any, pid: int, sent: Future[Any]) -> None:
    """Return when a session waits for another one's transaction."""
    blocked = "SELECT cardinality(pg_blocking_pids(%s)) > 0"
    wait_for(lambda: sql(blocked, pid) == [(True,)] or sent.done())
    assert not sent.done(), f"nothing was waited for: {sent.result()}"


def changed(replies: Sequence[Reply], names: Sequence[Key], **fields: Any) -> list[Change]:
    """Ask for a later write on the versions that replies show."""
    found = [stored(reply) for reply in replies]
    return [Change(name, one.version, replace(one, **fields)) for name, one in zip(names, found, strict=True)]


@COUNTS
def test_a_claim_sees_a_row_that_was_committed_after_its_snapshot(store, rival, other, race, count):
    names = keys(count)
    rival.swap(claims(names[-1:], "bob"))

    replies = race(store, claims(names, "ann"), other.commit)

    assert tokens(replies) == ["ann"] * (count - 1) + ["bob"]
    assert [seen.entry for seen in store.get(names)] == [stored(reply) for reply in replies]


@COUNTS
def test_a_claim_that_waited_for_a_rollback_wins(store, rival, other, race, count):
    names = keys(count)
    rival.swap(claims(names, "bob"))

    assert tokens(race(store, claims(names, "ann"), other.rollback)) == ["ann"] * count


def test_a_batch_of_claims_sees_the_versions_that_were_written_while_it_waited(store, rival, other, race):
    names = keys(5)
    before = store.swap(claims(names, "bob"))
    rival.swap(changed(before, names, state="done", body="1"))

    replies = race(store, claims(names, "ann"), other.commit)

    assert {(stored(reply).state, stored(reply).body) for reply in replies} == {("done", "1")}


def test_a_single_claim_does_not_wait_for_a_change_of_the_row_it_loses_to(store, rival, other):
    [before] = store.swap(claims([KEY], "bob"))
    rival.swap(changed([before], [KEY], state="done"))

    during = store.swap(claims([KEY], "ann"))
    other.commit()
    after = store.swap(claims([KEY], "ann"))

    assert [stored(reply).state for reply in (*during, *after)] == ["held", "done"]


@COUNTS
@pytest.mark.parametrize("settles", [False, True], ids=["update", "settle"])
def test_a_later_write_sees_the_version_it_lost_to(store, rival, other, race, count, settles):
    names = keys(count)
    before = store.swap(claims(names, "ann"))
    rival.swap(changed(before[:1], names[:1], token="bob"))
    mine = [replace(change, settles=settles) for change in changed(before, names, state="done", body="2")]

    replies = race(store, mine, other.commit)

    assert tokens(replies) == ["bob"] + ["ann"] * (count - 1)
    assert [stored(reply).state for reply in replies] == ["held"] + ["done"] * (count - 1)


def test_a_batch_of_claims_that_waited_for_a_removal_wins(store, rival, other, race):
    names = keys(5)
    assert list(rival.swap(removals(store, names))) == [NOTHING] * 5

    assert tokens(race(store, claims(names, "ann"), other.commit)) == ["ann"] * 5


def test_a_single_claim_wins_as_soon_as_the_row_is_removed(store, rival, other):
    rival.swap(removals(store, [KEY]))

    during = store.swap(claims([KEY], "ann"))
    other.commit()
    after = store.swap(claims([KEY], "ann"))

    assert tokens([*during, *after]) == ["bob", "ann"]


@COUNTS
@pytest.mark.parametrize("entry", [Entry("held", token="ann"), None], ids=["update", "removal"])
def test_a_later_write_on_a_row_that_is_being_removed_finds_nothing(store, rival, other, race, count, entry):
    names = keys(count)
    gone = removals(store, names)
    rival.swap(gone)

    replies = race(store, [replace(change, entry=entry) for change in gone], other.commit)

    assert list(replies) == [NOTHING] * count


def removals(store: Any, names: Sequence[Key]) -> list[Change]:
    """Store entries that may be removed at once, and ask for their removal."""
    done = [Change(name, None, entry("done", "bob"), keep=0.0) for name in names]
    return [
        Change(name, stored(reply).version, None) for name, reply in zip(names, store.swap(done), strict=True)
    ]


# ----- deadlocks


def test_batches_of_several_kinds_of_changes_do_not_deadlock(opened, postgresql_url, store, sql, other):
    """Without a common order, each would hold a row that it updates and wait for one that it settles."""
    second = opened(option(postgresql_url, lock_timeout="60s"))
    low, middle, high = names = keys(3)
    claimed = {key: stored(reply) for key, reply in zip(names, store.swap(claims(names)), strict=True)}
    other.execute("SELECT FROM onefold_entries WHERE id = %s FOR UPDATE", [high.id])

    def batch(settled: Key, *updated: Key) -> list[Change]:
        ending = Change(
            settled, claimed[settled].version, replace(claimed[settled], state="done"), settles=True
        )
        return in_order(
            [
                ending,
                *(Change(key, claimed[key].version, replace(claimed[key], token="bob")) for key in updated),
            ]
        )

    numbers = pid(store), pid(second)
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(store.swap, batch(low, middle, high))
        wait_for_lock(sql, numbers[0], first)
        later = pool.submit(second.swap, batch(middle, low))
        wait_for_lock(sql, numbers[1], later)
        other.rollback()

        assert [stored(reply).state for reply in first.result()] == ["done", "held", "held"]
        assert [stored(reply).token for reply in first.result()] == ["ann", "bob", "bob"]
        assert [stored(reply) for reply in later.result()] == [stored(reply) for reply in first.result()[:2]]


# ----- callers' transactions


def test_a_joined_claim_sees_a_row_that_was_committed_while_it_waited(store, postgresql_url, sql, other):
    rival = join(other)
    rival.swap(claims([KEY], "bob"))
    with closing(psycopg.connect(postgresql_url)) as connection, ThreadPoolExecutor(1) as pool:
        mine = join(connection)
        mine.get([])
        sent = pool.submit(mine.swap, claims([KEY, Key("losers", 2)], "ann"))
        wait_for_lock(sql, connection.info.backend_pid, sent)
        other.commit()
        replies = sent.result()

    assert sorted(map(str, tokens(replies))) == ["ann", "bob"]


@pytest.mark.parametrize("level", ["REPEATABLE READ", "SERIALIZABLE"])
def test_a_joined_claim_that_its_snapshot_cannot_decide_is_refused_and_undone(
    store, postgresql_url, sql, level
):
    sql("CREATE TABLE flats (n int)")
    with closing(psycopg.connect(postgresql_url)) as connection:
        connection.execute(f"SET TRANSACTION ISOLATION LEVEL {level}")
        mine = join(connection)
        [free] = mine.get([KEY])
        connection.execute("INSERT INTO flats VALUES (1)")
        store.swap(claims([KEY], "bob"))
        with pytest.raises(Unreachable, match="nothing was written: could not serialize access"):
            mine.swap(claims([KEY], "ann"))
        [other_key] = mine.swap(claims([Key("losers", 2)], "ann"))
        connection.commit()

    assert free == NOTHING
    assert stored(other_key).token == "ann"
    assert sql("SELECT n FROM flats") == [(1,)]
