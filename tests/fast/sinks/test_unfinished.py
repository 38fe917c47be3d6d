"""Sinks whose function returns something still to run: an error for that record, and never done."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pytest

from onefold.core.errors import Misconfigured, Unfinished
from onefold.core.key import Key
from onefold.core.record import Record
from onefold.drive import Inline
from onefold.sinks.function import Function
from onefold.sinks.table import Table
from onefold.sinks.transaction import Transaction
from onefold.stores.memory import MemoryStore
from onefold.tables import Database
from onefold.worker import Worker
from tests.fast.sinks.stage import Won, put_one, run_until
from tests.fast.worker.stage import FarSide, Feed, pipeline, records

RECORD = Record("r1", {}, 1)


def numbers(record: Record) -> Any:
    yield record


async def later_numbers(record: Record) -> Any:
    yield record


async def nothing(*_: Any) -> None: ...


async def returns_numbers(record: Record) -> Any:
    return numbers(record)


@pytest.mark.parametrize(
    "act", [lambda record: numbers(record), lambda record: later_numbers(record), returns_numbers]
)
def test_a_function_that_returns_a_generator_did_nothing_and_is_told_so(act):
    answer = put_one(Function(act), RECORD)

    assert isinstance(answer, Unfinished)
    assert "generator: do the work in the function" in str(answer)


@pytest.mark.parametrize("act", [numbers, later_numbers, partial(numbers)])
def test_a_generator_is_refused_when_the_sink_is_made(act):
    with pytest.raises(Misconfigured, match="is a generator, nothing would run its body"):
        Function(act)


@pytest.mark.parametrize(("effect", "why"), [("one-shot", "in-doubt"), ("idempotent", "failed")])
def test_a_sink_of_ones_own_that_answers_with_a_generator_is_never_done(effect, why):
    class Lazy:
        def __init__(self) -> None:
            self.effect = effect

        async def put(self, work: Any) -> Any:
            return [numbers(record) for _, record in work]

    store = MemoryStore()
    plan = pipeline(Feed(records(1), finite=False), FarSide(), sink=Lazy())
    worker = Worker([plan], store=Inline(store))

    def entry() -> Any:
        return store.get([Key("stage", "r1")])[0].entry

    run_until(worker, lambda: entry() is not None and entry().state == "parked")

    assert entry().why == why


def test_a_transaction_whose_function_returns_a_generator_is_rolled_back(tmp_path: Path):
    (tmp_path / "t.db").touch()
    database = Database(f"sqlite:///{tmp_path}/t.db")
    with database.transaction() as connection:
        database.run(connection, "CREATE TABLE sent (id TEXT)", [])

    def write(connection: Any, claim: Any, record: Record) -> Any:
        database.run(connection, "INSERT INTO sent (id) VALUES (?)", [record.id])
        return numbers(record)

    sink = Transaction(database, write, effect="idempotent")

    assert isinstance(put_one(sink, RECORD), Unfinished)
    with database.transaction() as connection:
        assert database.run(connection, "SELECT count(*) FROM sent")[1] == [(0,)]
        with pytest.raises(Unfinished):
            Transaction(database, write).write(connection, [(Won(Key("stage", "r1")), RECORD)])
    database.close()


def test_async_functions_are_refused_where_a_transaction_or_a_row_cannot_await_them():
    with pytest.raises(Misconfigured, match="nothing is async"):
        Transaction(Database("sqlite:///x.db"), nothing)
    with pytest.raises(Misconfigured, match="nothing is async"):
        Table("sqlite:///x.db", "sent", nothing)  # type: ignore[arg-type]
