"""A retraction takes back what was done, once; it waits for an original that may still be on its way."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from onefold.core.cursor import Cursor
from onefold.core.documents import save
from onefold.core.errors import Later, Misconfigured
from onefold.core.key import Key
from onefold.core.record import Page, Record
from onefold.drive import Ports, run
from onefold.sinks.function import Function
from onefold.sinks.table import Table
from onefold.worker import Worker
from onefold.worker.progress import cursor_key, put_back
from onefold.worker.retraction import Undo
from tests.fast.worker.stage import QUICK, FarSide, Feed, pipeline, records, run_until, store, until

FORK = Record("fork-1", {}, 8, retracts="r7")


def taking_back(feed: Feed, far: FarSide, back: FarSide) -> Any:
    return pipeline(feed, far, undo=Function(back.act), key=lambda r: r.retracts or r.id)


def undoing(memory: Any) -> Any:
    [seen] = memory.get([Key("stage", "r7", "undo", "fork-1")])
    return seen.entry


@pytest.mark.parametrize(("original", "undone"), [(True, 1), (False, 0)])
def test_a_retraction_takes_back_what_was_done_and_nothing_else(original, undone):
    _, awaited = store()
    far, back = FarSide(), FarSide()
    shown = records(7) if original else []
    feed = Feed(shown)
    plan = taking_back(feed, far, back)
    Worker([plan], store=awaited).run()
    feed.records.append(FORK)
    for _ in range(2):
        Worker([plan], store=awaited).run()

    assert sum(back.happened.values()) == undone


def test_a_retraction_that_nobody_can_take_back_is_parked_by_hand():
    memory, awaited = store()
    far = FarSide()
    feed = Feed([*records(7), FORK])
    Worker([pipeline(feed, far, key=lambda r: r.retracts or r.id)], store=awaited).run()

    assert undoing(memory).why == "by-hand"


class Waiting(Feed):
    """Shows nothing until a condition holds."""

    def __init__(self, shown: list[Record], condition: Any) -> None:
        super().__init__(shown, finite=False)
        self._condition = condition

    async def read(self, cursor: Cursor) -> AsyncIterator[Page]:
        await until(self._condition)
        async for page in super().read(cursor):
            yield page


def test_a_retraction_waits_for_an_original_that_has_to_be_read_again():
    """The worker died between the two: the retraction is kept, and nobody has claimed its original."""
    memory, awaited = store()
    far, back = FarSide(), FarSide()
    Worker([taking_back(Feed([FORK]), far, back)], store=awaited).run()
    run(save(cursor_key("stage", "feed"), "t", lambda stands: put_back(stands, 5, "ann")), Ports(memory))
    begun = undoing(memory).fence

    feed = Waiting([*records(7), FORK], lambda: undoing(memory).fence > begun + QUICK.attempts)
    run_until(Worker([taking_back(feed, far, back)], store=awaited), lambda: bool(back.happened))

    assert far.happened["r7", ""] == 1
    assert back.happened["fork-1", ""] == 1


def test_a_retraction_that_is_shown_first_ends_with_its_attempts_and_its_original_then_stands():
    memory, awaited = store()
    far, back = FarSide(), FarSide()
    feed = Feed([FORK], finite=False)

    def late() -> bool:
        known = undoing(memory)
        if known and known.state == "done" and len(feed.records) == 1:
            feed.records += records(9)
        return bool(far.happened)

    plan = pipeline(feed, far, undo=Function(back.act), key=lambda record: "r7")
    run_until(Worker([plan], store=awaited), late)

    assert "never done" in undoing(memory).body
    assert not back.happened


def test_a_retraction_of_what_waits_for_its_retry_uses_no_attempt_up():
    memory, awaited = store()
    far, back = FarSide(), FarSide()

    async def act(record: Record) -> None:
        if undoing(memory) is None or undoing(memory).fence <= QUICK.attempts:
            raise Later("not final yet", 0.05)

    feed = Feed([*records(7), FORK], finite=False)
    plan = pipeline(feed, far, sink=Function(act), undo=Function(back.act), key=lambda r: r.retracts or r.id)
    run_until(Worker([plan], store=awaited), lambda: bool(back.happened))

    assert back.happened["fork-1", ""] == 1


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
    feed = Feed([*records(7), FORK])
    plan = pipeline(feed, FarSide(), undo=undo, key=lambda r: r.retracts or r.id)
    for _ in range(2):
        Worker([plan], store=awaited).run()

    assert Undo(plan, undo, None).window == 3600.0  # type: ignore[arg-type]
    assert sent == ["take back r7"]
