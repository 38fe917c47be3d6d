"""A function as a source: called at its pace, and its records handed on in their order."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import anyio
import pytest

from onefold.core.cursor import Cursor
from onefold.core.errors import Misconfigured
from onefold.core.record import Page, Record
from onefold.sinks.function import Function
from onefold.sources.function import Function as Reads
from onefold.worker import Worker
from tests.fast.worker.stage import FarSide, pipeline, records, run_until, store


async def read(source: Reads, at: float | None = None) -> list[Page]:
    return [page async for page in source.read(Cursor(at))]


def numbers(pages: list[Page]) -> list[float]:
    return [one.at for page in pages for one in page.records]


@pytest.mark.parametrize(("given", "every"), [({}, 2.0), ({"every": "10s"}, 10.0)])
def test_a_function_is_called_again_only_when_it_is_due(given, every):
    rounds: list[float] = []

    async def shown(cursor: Cursor) -> AsyncIterator[Record]:
        rounds.append(anyio.current_time())
        yield records(1)[0]

    async def hour() -> None:
        source = Reads(shown, **given)
        while anyio.current_time() < 3600:
            await read(source)

    anyio.run(hour)

    assert rounds == [every * number for number in range(len(rounds))]
    assert len(rounds) >= 3600 / every


def test_a_function_that_says_there_is_more_is_called_again_immediately():
    rounds: list[float] = []

    async def shown(cursor: Cursor) -> AsyncIterator[Page]:
        rounds.append(anyio.current_time())
        yield Page(records(len(rounds)), more=len(rounds) < 5)

    async def some() -> None:
        source = Reads(shown)
        for _ in range(6):
            await read(source)

    anyio.run(some)

    assert rounds == [0, 0, 0, 0, 0, 2]


@pytest.mark.parametrize("kind", [list, tuple, iter])
def test_records_and_pages_are_handed_on_in_order_and_the_last_page_is_the_present(kind):
    shown = [*records(1, 2), Page(records(3), more=True), *records(4), Page([], more=True), *records(5)]
    pages = anyio.run(read, Reads(lambda cursor: kind(shown), page=4))

    assert numbers(pages) == [1, 2, 3, 4, 5]
    assert [page.more for page in pages][-1] is False
    assert all(page.more for page in pages[:-1])


def test_a_function_whose_last_page_says_more_has_not_caught_up():
    pages = anyio.run(read, Reads(lambda cursor: [Page(records(1), more=True)]))

    assert [page.more for page in pages] == [True]


@pytest.mark.parametrize("given", [{"every": 0}, {"every": "soon"}, {"page": 0}])
def test_settings_that_cannot_work_are_refused(given):
    with pytest.raises(Misconfigured, match=next(iter(given))):
        Reads(lambda cursor: [], **given)


def test_an_async_function_that_yields_nothing_is_refused():
    async def shown(cursor: Cursor) -> list[Record]:
        return []

    with pytest.raises(Misconfigured, match="is async and yields nothing"):
        Reads(shown)  # type: ignore[arg-type]


def test_one_effect_that_hangs_lets_others_through_and_memory_is_bounded():
    _, awaited = store()
    rounds = [0]

    def shown(cursor: Cursor) -> list[Record]:
        rounds[0] += 1
        return records(*range(rounds[0] + 20))

    far = FarSide()

    async def act(record: Record, claim: Any) -> None:
        if record.id == "r3":
            await anyio.sleep_forever()
        await far.act(record, claim)

    source = Reads(shown, every=0.0001)
    worker = Worker([pipeline(source, far, sink=Function(act, effect="keyed"))], store=awaited, grace=0.01)
    remembered: list[int] = []

    def enough() -> bool:
        remembered.extend(reader._track.remembered for reader in worker.readers)
        return rounds[0] >= 300 and len(far.happened) >= 300

    run_until(worker, enough)

    assert max(remembered) < 2500, "a few pages under way, however often the source was read"
    assert set(far.happened.values()) == {1}
