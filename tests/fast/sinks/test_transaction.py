"""A function in a transaction: with the mark or not at all, and a bad record stands for itself."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from onefold.core.errors import Later, Misconfigured, Refused, Unreachable
from onefold.core.record import Record
from onefold.sinks.transaction import Transaction
from onefold.tables import Database
from tests.databases import SQLITE, Place, opened
from tests.fast.sinks.stage import QUICK, put_one, records, run_until, settled, worker

FLATS = "CREATE TABLE flats (name VARCHAR(80))"


@pytest.fixture(params=[SQLITE])
def place(request: pytest.FixtureRequest, tmp_path: Any) -> Iterator[Place]:
    for one in opened(request, tmp_path):
        one.run(FLATS)
        yield one


class Flats:
    """Writes a row for each record, then raises for those that it is told to."""

    def __init__(self, place: Place, *bad: str) -> None:
        self.database = Database(place.url)
        self._bad = bad

    def __call__(self, connection: Any, claim: Any, record: Record) -> dict[str, str]:
        self.database.run(connection, "INSERT INTO flats (name) VALUES (?)", [record.id])
        if record.id in self._bad:
            raise Refused("no such city")
        return {"name": record.id}


def test_what_a_function_writes_commits_with_its_mark_and_a_poison_record_leaves_nothing(place):
    flats = Flats(place, "r3")
    one = worker(records(8), Transaction(flats.database, flats), place.url, terms=QUICK)
    run_until(one, settled(place.store, 8))

    assert sorted(name for [name] in place.run("SELECT name FROM flats")) == [
        f"r{n}" for n in range(8) if n != 3
    ]


def test_beside_the_ledger_each_record_has_a_transaction_of_its_own(place):
    flats = Flats(place, "r1")
    sink = Transaction(flats.database, flats, effect="idempotent")

    assert put_one(sink, Record("r0", {}, 0)) == {"name": "r0"}
    assert isinstance(put_one(sink, Record("r1", {}, 1)), Refused)
    assert place.run("SELECT name FROM flats") == [("r0",)]


def test_a_database_that_is_away_is_asked_again_later(place):
    def away(connection: Any, claim: Any, record: Record) -> None:
        raise Unreachable("gone")

    sink = Transaction(Database(place.url), away, effect="idempotent")

    assert isinstance(put_one(sink, Record("r0", {}, 0)), Later)


def test_a_transaction_cannot_be_one_shot():
    with pytest.raises(Misconfigured, match="joined or idempotent"):
        Transaction(Database("sqlite:///x.db"), lambda *_: None, effect="one-shot")
