"""Hints to open entries: they may be late, lost or left over, and lists show what is so all the same."""

from collections.abc import Iterator, Sequence
from contextlib import closing

import pytest
from msgspec.structs import replace

from onefold.core.entry import NOTHING, OPEN, UNKNOWN, Change, Entry
from onefold.core.errors import Misconfigured, Unanswered, Unreachable
from onefold.core.key import Key
from onefold.testing.contract.words import entry

pytest.importorskip("cassandra", reason="cassandra-driver is not installed: it comes with the test servers")

from onefold.stores.cassandra import connect, rows
from onefold.stores.cassandra.errors import Full
from onefold.stores.cassandra.plan import CHUNK, CassandraPlan
from onefold.stores.cassandra.rows import Outcome, Statement
from onefold.stores.shells import Blocking
from tests.servers.stores.cassandra.ledgers import listed, lying
from tests.servers.stores.words import NEW, claims, keys, stored

NOW = 1_700_000_000.5
LATE = Unanswered("it was asked and did not answer")
APPLIED: Outcome = [{"[applied]": True}]
SILENT: Outcome = []
MINE = Entry("held", token="ann", version=5, fence=5, lease=60.0, written=NOW - 1)
REFUSED = {"[applied]": False}


@pytest.fixture
def store(cassandra_url: str) -> Iterator[Blocking]:
    with closing(connect(cassandra_url)) as store:
        yield store


def forget(store: Blocking) -> None:
    """Take all hints away, as if their writers had died before they wrote them."""
    store.client.query(f"TRUNCATE {store.client.address.table('open')}")
    assert lying(store, "open") == []


def ended(store: Blocking, key: Key, version: int) -> Entry:
    [reply] = store.swap([Change(key, version, entry("done"))])
    return stored(reply)


# ----- on a server


@pytest.mark.store("cassandra")
def test_there_is_one_hint_for_each_open_entry_and_none_for_done_ones(store):
    held = [stored(reply) for reply in store.swap(claims(keys(20)))]
    for name, each in list(zip(keys(20), held, strict=True))[:15]:
        ended(store, name, each.version)

    assert sorted(row["id"] for row in lying(store, "open")) == [name.id for name in keys(20)[15:]]


@pytest.mark.store("cassandra")
def test_a_hint_that_is_left_over_is_not_believed_and_goes_away(store):
    [held] = store.swap(claims([NEW]))
    done = ended(store, NEW, stored(held).version)
    store.client.execute_many([rows.listed(NEW, done.version + 5)])
    assert len(lying(store, "open")) == 1

    assert listed(store) == []
    assert listed(store, "done") == [NEW]
    # At the time of what was found, which is older than this hint: it is tried again, and never believed.
    store.client.execute_many([rows.listed(keys(1)[0], 7)])
    assert listed(store) == []
    assert [row["id"] for row in lying(store, "open")] == [NEW.id]


@pytest.mark.store("cassandra")
def test_the_end_of_an_old_hint_does_not_hide_a_newer_one(store):
    [held] = store.swap(claims([NEW]))
    done = ended(store, NEW, stored(held).version)
    [again] = store.swap([Change(NEW, done.version, entry("held", "bob"))])
    store.client.execute_many([rows.unlisted(NEW.id, done.version)])  # of a slow worker

    assert stored(again).version == done.version + 1
    assert listed(store) == [NEW]


@pytest.mark.store("cassandra")
@pytest.mark.parametrize("healer", ["the same token", "a renewal", "a walk"])
def test_an_entry_whose_hint_was_never_written_is_listed_again_after(store, healer):
    claim = claims([NEW])
    [held] = store.swap(claim)
    forget(store)
    assert listed(store) == []
    if healer == "the same token":
        store.swap(claim)
    elif healer == "a renewal":
        store.swap([Change(NEW, stored(held).version, entry("held"))])
    else:
        assert listed(store, "done") == []

    assert listed(store) == [NEW]


@pytest.mark.store("cassandra")
@pytest.mark.parametrize(
    ("state", "told"),
    [
        *((state, told) for state in OPEN for told in ("a claim", "a take-over")),
        ("parked", "a look"),
    ],
)
def test_whoever_is_told_of_an_open_entry_finds_it_in_the_list(store, state, told):
    [held] = store.swap(claims([NEW]))
    [written] = store.swap([Change(NEW, stored(held).version, entry(state))])
    forget(store)  # the server died between the entry and its hint, and the worker before it asked again
    assert listed(store) == []
    if told == "a claim":
        [reply] = store.swap(claims([NEW], "bob"))
    elif told == "a look":
        [reply] = store.get([NEW])
    else:
        [reply] = store.swap([Change(NEW, stored(held).version - 2, entry("held", "bob"))])

    assert stored(reply) == stored(written)
    assert listed(store) == [NEW]


@pytest.mark.store("cassandra")
def test_an_end_that_was_refused_leaves_the_hint_of_what_was_written_instead(store):
    [held] = store.swap(claims([NEW]))
    [renewed] = store.swap([Change(NEW, stored(held).version, entry("held"))])
    [refused] = store.swap([Change(NEW, stored(held).version, entry("done"))])

    assert stored(refused) == stored(renewed)
    assert listed(store) == [NEW]


# ----- by script: answers that are lost between an entry and its hint


class Scripted:
    """Answers statements by name, and keeps the rounds in which they were asked."""

    def __init__(self, **answers: Outcome) -> None:
        self.answers = answers
        self.rounds: list[list[str]] = []

    def now(self) -> float:
        return NOW

    def execute_many(self, asked: Sequence[Statement]) -> list[Outcome]:
        self.rounds.append([statement.name for statement in asked])
        return [self.answers[statement.name] for statement in asked]

    def close(self) -> None: ...


def scripted(**answers: Outcome) -> Blocking:
    return Blocking(CassandraPlan(60.0), Scripted(**answers))


def row(key: Key, kept: Entry, **more: object) -> Outcome:
    return [{"version": kept.version, "entry": rows.text(key, kept), **more}]


def test_a_claim_takes_two_rounds_and_one_if_the_key_is_done():
    done = replace(MINE, state="done")
    won, lost = scripted(insert=APPLIED, list=SILENT), scripted(insert=row(NEW, done, **REFUSED))

    assert stored(won.swap(claims([NEW]))[0]).token == "ann"
    assert won.client.rounds == [["insert"], ["list"]]
    assert stored(lost.swap(claims([NEW], "bob"))[0]) == done
    assert lost.client.rounds == [["insert"]]


def test_a_claim_whose_hint_was_not_confirmed_is_unknown():
    assert scripted(insert=APPLIED, list=LATE).swap(claims([NEW])) == [UNKNOWN]


class Cut(Scripted):
    """Answers the first round, and cannot be reached for another."""

    def execute_many(self, asked: Sequence[Statement]) -> list[Outcome]:
        if self.rounds:
            raise Unreachable("nothing was asked")
        return super().execute_many(asked)


def test_a_claim_whose_hint_could_not_even_be_sent_is_unknown_and_not_refused():
    store = Blocking(CassandraPlan(60.0), Cut(insert=APPLIED))

    assert store.swap(claims(keys(3))) == [UNKNOWN] * 3


@pytest.mark.parametrize("reason", [Misconfigured("not allowed"), Full("no room")])
def test_a_hint_that_is_refused_is_told_with_the_reason(reason):
    with pytest.raises(type(reason)):
        scripted(insert=APPLIED, list=reason).swap(claims([NEW]))


def test_an_end_whose_hint_is_left_over_is_told_all_the_same():
    store = scripted(update=APPLIED, unlist=LATE)
    [reply] = store.swap([Change(NEW, 5, entry("done"))])

    assert stored(reply).version == 6


def test_a_claim_that_was_refused_by_itself_writes_its_hint_again():
    store = scripted(insert=row(NEW, MINE, **REFUSED), list=SILENT)

    assert stored(store.swap(claims([NEW], MINE.token))[0]) == MINE
    assert store.client.rounds == [["insert"], ["list"]]


def test_a_take_over_that_was_refused_by_itself_writes_its_hint_again():
    mine = replace(MINE, version=6)
    store = scripted(update=row(NEW, mine, **REFUSED), list=SILENT, look=row(NEW, mine))

    assert stored(store.swap([Change(NEW, 5, entry("held", mine.token))])[0]) == mine
    assert store.client.rounds == [["update"], ["list", "look"]]


@pytest.mark.parametrize(
    ("looked", "reply"), [(LATE, UNKNOWN), (SILENT, NOTHING), (Unreachable("down"), UNKNOWN)]
)
def test_what_stands_instead_is_looked_for_once(looked, reply):
    store = scripted(update=[REFUSED], look=looked)

    assert store.swap([Change(NEW, 5, entry("held"))]) == [reply]


PARKED = replace(MINE, state="parked", version=9)


@pytest.mark.parametrize(("hinted", "told"), [(SILENT, True), (LATE, False), (Unreachable("down"), False)])
def test_nobody_is_told_of_an_open_entry_unless_its_hint_is_written(hinted, told):
    claim = scripted(insert=row(NEW, PARKED, **REFUSED), list=hinted)
    take_over = scripted(update=[REFUSED], look=row(NEW, PARKED), list=hinted)
    look = scripted(look=row(NEW, PARKED), list=hinted)

    replies = [*claim.swap(claims([NEW], "bob")), *take_over.swap([Change(NEW, 4, entry("held"))])]
    assert [reply is not UNKNOWN and stored(reply) == PARKED for reply in replies] == [told, told]
    if told:
        assert stored(look.get([NEW])[0]) == PARKED
    else:
        with pytest.raises(type(hinted)):
            look.get([NEW])
    assert claim.client.rounds == [["insert"], ["list"]]
    assert take_over.client.rounds == [["update"], ["look"], ["list"]]


def test_who_may_only_read_is_told_that_a_key_is_parked():
    store = scripted(look=row(NEW, PARKED), list=Misconfigured("not allowed"))

    assert stored(store.get([NEW])[0]) == PARKED


@pytest.mark.parametrize(("removed", "reply"), [(APPLIED, NOTHING), ([REFUSED], UNKNOWN)])
def test_a_removal_that_came_too_late_is_unknown(removed, reply):
    old = replace(MINE, state="done", expires=NOW - 1)
    store = scripted(look=row(NEW, old), remove=removed)

    assert store.swap([Change(NEW, old.version, None)]) == [reply]


@pytest.mark.parametrize(
    "change", [Change(NEW, None, entry()), Change(NEW, 5, entry()), Change(NEW, 5, None)]
)
def test_what_certainly_was_not_sent_is_raised_and_what_may_have_been_is_unknown(change):
    down = Unreachable("nothing was asked")
    with pytest.raises(Unreachable, match="nothing was asked"):
        scripted(insert=down, update=down, look=down).swap([change])
    assert scripted(insert=LATE, update=LATE, look=LATE).swap([change]) == [UNKNOWN]


class Filed:
    """Open entries and their hints, in memory."""

    def __init__(self, names: Sequence[Key]) -> None:
        self.kept = {name.id: name for name in names}
        self.unread: set[bytes] = set()

    def now(self) -> float:
        return NOW

    def execute_many(self, asked: Sequence[Statement]) -> list[Outcome]:
        return [getattr(self, statement.name)(*statement.args) for statement in asked]

    def page(self, part: int, after: bytes, limit: int) -> Outcome:
        ids = sorted(id for id in self.kept if rows.part(id) == part and id > after)
        return [{"id": id, "version": 1, "scope": self.kept[id].scope} for id in ids[:limit]]

    def read(self, id: bytes) -> Outcome:
        assert id not in self.unread
        return row(self.kept[id], MINE)

    def close(self) -> None: ...


@pytest.mark.parametrize("count", [0, 1, CHUNK, CHUNK + 1, 20 * CHUNK])
def test_a_long_list_has_no_gap_and_shows_nothing_twice(count):
    store = Blocking(CassandraPlan(60.0), Filed(keys(count)))

    assert sorted(name.id for name in listed(store)) == [name.id for name in keys(count)]


def test_a_list_of_one_scope_does_not_read_the_entries_of_others():
    mine, others = keys(5, "mine"), keys(4 * CHUNK)
    filed = Filed([*mine, *others])
    filed.unread = {name.id for name in others}
    found, after = Blocking(CassandraPlan(60.0), filed).scan("mine", OPEN, False, None, 10)

    assert sorted(name.id for name, _ in found) == [name.id for name in mine]
    assert after is None
