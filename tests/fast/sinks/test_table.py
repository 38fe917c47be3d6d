"""The table sink, joined to the ledger or idempotent beside it; what happened is read from the table."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import contextmanager
from typing import Any

from onefold import Ledger
from onefold.core.errors import Later
from onefold.core.key import Key
from onefold.core.ports import Claim
from onefold.core.record import Record
from onefold.drive import Inline
from onefold.sinks.table import Table
from onefold.sinks.transaction import Transaction
from onefold.stores.memory import MemoryStore
from onefold.stores.sqlite import SqliteStore
from onefold.tables import Database
from tests.databases import Place
from tests.fast.sinks.stage import (
    PATIENT,
    QUICK,
    Feed,
    entry,
    records,
    run_together,
    run_until,
    settled,
    states,
    worker,
)
from tests.fast.sinks.tables import ids, log, logged, row

# ----- joined


def test_rows_and_marks_are_committed_together_each_once(place):
    shown = [*records(250), *records(100)]
    run_until(worker(shown, log(place), place.url), settled(place.store, 250))

    assert logged(place) == ids(250)
    assert states(place.store, 250) == {"done": 250}
    assert entry(place.store, "r7").body == '{"rows":1}'


def test_several_workers_write_every_row_once(place):
    workers = [worker(records(200), log(place), place.url) for _ in range(3)]
    run_together(workers, settled(place.store, 200))

    assert logged(place) == ids(200)


def test_a_poison_row_is_split_out_and_parked_with_its_error_and_its_neighbours_go_through(place):

    def make(record: Record) -> dict[str, Any]:
        return {"id": record.id, "price": None if record.id == "r3" else 1}

    run_until(worker(records(50), log(place, make), place.url), settled(place.store, 50))

    assert logged(place) == sorted(set(ids(50)) - {"r3"})
    poison = entry(place.store, "r3")
    assert (poison.why, poison.attempt) == ("failed", QUICK.attempts)
    assert "price" in poison.body


def test_a_row_that_fails_at_first_is_tried_again_from_its_entry(place):
    failures = {"r3": 2}

    def make(record: Record) -> dict[str, Any]:
        if failures.get(record.id, 0):
            failures[record.id] -= 1
            raise ValueError("not yet")
        return row(record)

    one = worker(records(10), log(place, make), place.url, terms=PATIENT)
    run_until(one, settled(place.store, 10))

    assert logged(place) == ids(10)
    # The first failure was of the whole page, which was then split: it counts for nobody.
    assert entry(place.store, "r3").attempt == 2


def test_a_row_that_is_rejected_is_parked_at_once(place):

    def make(record: Record) -> dict[str, Any]:
        return {"id": record.id, "price": 1, **({"colour": "red"} if record.id == "r3" else {})}

    run_until(worker(records(10), log(place, make), place.url), settled(place.store, 10))

    assert states(place.store, 10) == {"done": 9, "failed": 1}
    assert entry(place.store, "r3").attempt == 1
    assert "no column 'colour'" in entry(place.store, "r3").body


def test_what_is_told_to_come_later_uses_up_no_attempt(place):
    told = iter(range(5))

    def make(record: Record) -> dict[str, Any]:
        if next(told, None) is not None:
            raise Later("not final yet", 0.05)
        return row(record)

    run_until(worker(records(1), log(place, make), place.url), settled(place.store, 1))

    assert states(place.store, 1) == {"done": 1}
    assert entry(place.store, "r0").attempt == 1


def test_a_record_may_be_several_rows_or_none(place):

    def make(record: Record) -> Any:
        return [{"id": f"{record.id}-{n}", "price": n} for n in range(3)] if record.id == "r0" else None

    run_until(worker(records(2), log(place, make), place.url), settled(place.store, 2))

    assert logged(place) == ["r0-0", "r0-1", "r0-2"]
    assert entry(place.store, "r1").body == '{"rows":0}'


def test_a_competitor_that_holds_the_key_is_waited_for_and_then_left_alone(place):
    """Another transaction has claimed a key and not committed: we hear busy, and act once it went back."""
    first, second = records(2)
    feed, other = Feed([first], finite=False), Database(place.url)
    one = worker(feed, hurried(place), hurried_store(place))

    def hold() -> Generator[None, None, None]:
        with other.transaction() as connection:
            Ledger.on(connection).claim(Key("stage", second.id))
            feed.records.append(second)
            yield

    holding = hold()

    def condition() -> bool:
        if one.tallies["stage"].total("busy"):
            holding.close()  # rolls back
        elif second not in feed.records and entry(place.store, first.id) is not None:
            next(holding)
        return second in feed.records and settled(place.store, 2)()

    run_until(one, condition)
    other.close()

    assert logged(place) == ids(2)
    assert entry(place.store, second.id).attempt == 1


def hurried(place: Place) -> Table | Transaction:
    """A sink that waits for the locks of others only for a moment, and on a file of SQLite not at all."""
    if place.kind != "sqlite":
        return log(place, patience=0.1)
    database = Database(place.url, 0.0)

    def write(connection: Any, claim: Claim, record: Record) -> None:
        database.run(connection, "INSERT INTO flat_log (id, price) VALUES (?, 1)", [record.id])

    return Transaction(database, write)


def hurried_store(place: Place) -> Any:
    """The ledger of the same place. Only a whole file is locked by another's transaction."""
    if place.kind != "sqlite":
        return place.url
    return Inline(SqliteStore(place.url.removeprefix("sqlite:///"), lock_timeout=0.0))


def test_a_commit_whose_answer_is_lost_does_not_write_the_row_again(place):

    class Unsure(Table):
        lost = 0

        @contextmanager
        def transaction(self) -> Iterator[Any]:
            with super().transaction() as connection:
                yield connection
            if self.lost < 2 and logged(place):
                self.lost += 1
                raise ConnectionError("the answer to COMMIT was lost")

    sink = Unsure(place.url, "flat_log", row)
    run_until(worker(records(20), sink, place.url), settled(place.store, 20))

    assert sink.lost == 2
    assert logged(place) == ids(20)


def test_a_ledger_in_another_database_is_refused_and_nothing_is_written(place):
    memory = MemoryStore()
    one = worker(records(5), log(place), Inline(memory))
    run_until(one, lambda: "feed" in one.tallies["stage"].errors)

    assert "another database than the ledger" in one.tallies["stage"].errors["feed"]
    assert logged(place) == []


def test_a_table_that_is_not_there_parks_nothing(place):
    one = worker(records(5), Table(place.url, "nowhere", row), place.url)
    run_until(one, lambda: "feed" in one.tallies["stage"].errors)

    assert "there is no table nowhere" in one.tallies["stage"].errors["feed"]
    assert states(place.store, 5) == {"absent": 5}
