"""A worker that is to read once ends when it has, and does what is due in entries before it ends."""

from __future__ import annotations

import anyio
import pytest

from onefold.core.cursor import Cursor
from onefold.core.errors import Refused
from onefold.core.record import Record
from onefold.core.terms import Terms
from onefold.sources.function import Function as Reads
from onefold.stores.memory import MemoryStore
from onefold.worker import Worker
from tests.fast.worker.stage import FarSide, Feed, pipeline, records, store, until


@pytest.mark.parametrize("finite", [True, False])
def test_a_worker_that_reads_once_ends_when_every_source_was_read_to_its_present(finite: bool):
    _, awaited = store()
    far = FarSide()

    code = Worker([pipeline(Feed(records(*range(250)), finite=finite), far)], store=awaited, once=True).run()

    assert code == 0
    assert len(far.happened) == 250


def test_a_worker_that_reads_once_gives_a_failing_source_up_and_says_so():
    _, awaited = store()

    def read(cursor: Cursor) -> list[Record]:
        raise OSError("no such host")

    assert Worker([pipeline(Reads(read), FarSide())], store=awaited, once=True).run() == 1


def test_what_is_due_in_entries_is_done_before_a_worker_ends_with_its_sources():
    memory, awaited = store()
    far, closed = FarSide(), [True]

    def trouble(record: Record) -> None:
        if closed[0]:
            raise Refused("closed")

    terms = Terms(lease=60, backoff=("10ms", "10ms"), attempts=50)
    shut = pipeline(Feed(records(*range(20))), FarSide(trouble), terms=terms)
    Worker([shut], store=awaited).run()

    closed[0] = False
    wait_until_due(memory)
    Worker([pipeline(Feed(), far, terms=terms)], store=awaited).run()

    assert len(far.happened) == 20


def wait_until_due(memory: MemoryStore) -> None:
    """Wait until everything that was refused may be tried again."""

    async def due() -> None:
        await until(lambda: len(memory.scan("stage", ("free",), True, None, 100)[0]) == 20)

    anyio.run(due)
