"""A source that fails is read again after pauses that grow, until it was stable for a while."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from onefold.core.backoff import Backoff
from onefold.core.cursor import Cursor
from onefold.core.record import Page
from onefold.worker import Worker
from tests.fast.worker.stage import FarSide, Feed, pipeline, records, run_until, store


class Flapping(Feed):
    """Shows a page and then fails, every time."""

    def __init__(self, backoff: Backoff) -> None:
        super().__init__(records(1), finite=False)
        self.backoff = backoff
        self.rounds = 0

    async def read(self, cursor: Cursor) -> AsyncIterator[Page]:
        self.rounds += 1
        yield Page(self.records)
        raise OSError("cut")


@pytest.mark.parametrize(("stable", "in_a_row"), [(60.0, True), (0.0, False)])
def test_a_source_that_opens_and_is_cut_at_once_waits_longer_each_time_unless_any_page_is_enough(
    stable, in_a_row, caplog
):
    _, awaited = store()
    feed = Flapping(Backoff(0.002, 0.02, stable))
    worker = Worker([pipeline(feed, FarSide())], store=awaited)
    run_until(worker, lambda: feed.rounds >= 8)

    pauses = [record.args[2] for record in caplog.records if "reading again" in record.msg]
    assert len(pauses) >= 7
    assert (max(pauses) > 0.008) is in_a_row
    assert max(pauses) <= 0.02
