"""The two ends of a pipeline: effects begin in the order of their records, and what was opened is closed."""

from __future__ import annotations

from typing import Any

import pytest

from onefold.core.errors import Misconfigured
from onefold.core.record import Record
from onefold.sinks.function import Function
from onefold.sinks.table import Table
from onefold.worker import Worker
from onefold.worker.retraction import Undo
from tests.worker.stage import FarSide, Feed, pipeline, records, store


def test_effects_begin_in_the_order_in_which_records_were_shown():
    _, awaited = store()
    begun: list[str] = []

    async def act(record):
        begun.append(record.id)

    shown = records(*range(100))
    Worker([pipeline(Feed(shown), FarSide(), sink=Function(act), at_once=1)], store=awaited).run()

    assert begun == [record.id for record in shown]


def test_taking_back_cannot_be_joined_and_says_so_before_anything_is_read():
    _, awaited = store()
    feed, undo = Feed(records(1)), Table("sqlite:///shop.db", "flats", lambda record: None)
    with pytest.raises(BaseExceptionGroup) as told:
        Worker([pipeline(feed, FarSide(), undo=undo)], store=awaited).run()

    assert told.group_contains(Misconfigured, match="give a sink of another class")
    assert feed.cursors == []


def test_taking_back_keeps_to_the_window_and_the_prepared_request_of_its_sink():
    _, awaited = store()
    sent: list[Any] = []

    async def prepare(claim: Any, record: Any) -> str:
        return f"take back {record.retracts}"

    async def back(record: Any, claim: Any) -> None:
        sent.append(claim.request)

    undo = Function(back, effect="keyed", window="1h", prepare=prepare)
    feed = Feed([*records(7), Record("fork-1", {}, 8, retracts="r7")])
    plan = pipeline(feed, FarSide(), undo=undo, key=lambda r: r.retracts or r.id)
    for _ in range(2):
        Worker([plan], store=awaited).run()

    assert Undo(plan, undo, None).window == 3600.0  # type: ignore[arg-type]
    assert sent == ["take back r7"]


def test_sources_and_sinks_are_closed_when_the_worker_ends_even_if_one_cannot_be():
    _, awaited = store()
    closed: list[str] = []

    class Closing(Feed):
        async def aclose(self) -> None:
            closed.append("source")
            raise OSError("gone already")

    class Sink(Function):
        async def aclose(self) -> None:
            closed.append("sink")

    sink: Any = Sink(FarSide().act)
    Worker([pipeline(Closing(records(1)), FarSide(), sink=sink)], store=awaited).run()

    assert closed == ["source", "sink"]
