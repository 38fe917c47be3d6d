"""What is read again on purpose is told apart from what a source repeats, also after a restart."""

from __future__ import annotations

from typing import Any

import anyio

from onefold.core.cursor import Cursor
from onefold.core.documents import save
from onefold.core.record import Page
from onefold.drive import Ports, run
from onefold.sources.function import Function as Reads
from onefold.worker import Worker
from onefold.worker.progress import cursor_key, moved, position, put_back, read_before
from tests.fast.worker.stage import FarSide, Feed, pipeline, records, run_until, store


def counts(worker: Worker, *names: Any) -> list[int]:
    return [worker.tallies["stage"].total(name) for name in names]


def test_what_lies_before_the_cursor_is_a_re_read_after_a_restart():
    _, awaited = store()
    far, feed = FarSide(), Feed(records(*range(100)))
    feed.lag = 10.0
    Worker([pipeline(feed, far)], store=awaited).run()

    again = Worker([pipeline(feed, far)], store=awaited)
    again.run()

    assert counts(again, "seen", "reread", "duplicate") == [11, 11, 0]


def test_what_a_source_repeats_is_a_duplicate():
    _, awaited = store()
    worker = Worker([pipeline(Feed([*records(*range(10)), *records(*range(10))]), FarSide())], store=awaited)
    worker.run()

    assert counts(worker, "seen", "reread", "duplicate") == [20, 0, 10]


def test_what_an_operator_went_back_for_is_a_re_read():
    memory, awaited = store()
    feed = Feed(records(*range(100)))
    Worker([pipeline(feed, FarSide())], store=awaited).run()
    key = cursor_key("stage", "feed")
    run(save(key, "t", lambda stands: put_back(stands, 20, "ann")), Ports(memory))

    again = Worker([pipeline(feed, FarSide())], store=awaited)
    again.run()

    assert counts(again, "seen", "reread", "duplicate") == [80, 80, 0]


def test_how_far_a_source_had_been_read_is_forgotten_once_it_is_there_again():
    back = put_back({"at": 100, "generation": 3}, 20, "ann")
    halfway = moved(back, Cursor(50), 4, {})

    assert (position(back), read_before(back)) == ((Cursor(20), 4), 100)
    assert halfway == {"at": 50, "generation": 4, "read_before": 100}
    assert moved(halfway, Cursor(100), 4, {}) == {"at": 100, "generation": 4}


# ----- how far behind


def test_a_source_that_is_read_to_its_present_is_not_behind_however_old_its_last_record():
    _, awaited = store()
    feed = Feed(records(5), finite=False)
    feed.timed = True  # type: ignore[attr-defined]
    worker = Worker([pipeline(feed, FarSide())], store=awaited)
    run_until(worker, lambda: worker.ready and not worker.readers[0].under_way)

    assert worker.readers[0].lag == 0.0


def test_a_source_that_has_more_is_as_far_behind_as_its_cursor():
    _, awaited = store()

    async def read(cursor: Cursor) -> Any:
        yield Page(records(5), more=True)
        await anyio.sleep_forever()

    worker = Worker([pipeline(Reads(read, timed=True), FarSide())], store=awaited)
    run_until(worker, lambda: bool(worker.readers) and worker.readers[0].lag > 1e9)

    assert not worker.ready
