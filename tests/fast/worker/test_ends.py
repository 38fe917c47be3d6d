"""The two ends of a pipeline: effects begin in the order of their records, and what was opened is closed."""

from __future__ import annotations

from typing import Any

import anyio

from onefold.core.claims import Answer
from onefold.sinks.function import Function
from onefold.worker import Worker
from tests.fast.worker.stage import FarSide, Feed, pipeline, records, store


def test_effects_begin_in_the_order_in_which_records_were_shown():
    _, awaited = store()
    begun: list[str] = []

    async def act(record):
        begun.append(record.id)

    shown = records(*range(100))
    Worker([pipeline(Feed(shown), FarSide(), sink=Function(act), at_once=1)], store=awaited).run()

    assert begun == [record.id for record in shown]


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


def test_an_effect_that_is_being_cut_off_may_be_told_again_that_its_lease_is_gone():
    _, awaited = store()
    told: list[str] = []

    async def act(record: Any, claim: Any) -> None:
        claim.pulse.hear(Answer("lost"), 0.0)
        try:
            await anyio.sleep_forever()
        finally:
            claim.pulse.hear(Answer("lost"), 0.0)
            told.append("again")

    sink = Function(act, effect="idempotent")
    Worker([pipeline(Feed(records(1)), FarSide(), sink=sink)], store=awaited, once=True).run()

    assert told[0] == "again"
