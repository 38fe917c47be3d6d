"""What workers tell of their sources adds up, whoever tells it and however often a reply is lost."""

from __future__ import annotations

import json
from typing import Any

import anyio
import pytest

from onefold.core.documents import listed
from onefold.core.entry import UNKNOWN
from onefold.core.errors import Unreachable
from onefold.drive import AsyncPorts, Inline, Ports, run
from onefold.worker import Worker
from onefold.worker.report import FORGOTTEN, MOST, Teller, Told, added, told
from tests.fast.worker.stage import FarSide, Feed, pipeline, records, store


def says(worker: str, number: int, **counted: int) -> Told:
    return Told(worker, number, {"status": "running"}, counted)


def test_totals_grow_by_what_was_counted_since_it_was_last_told():
    first = told(None, says("a", 1, seen=5), {}, {}, 10.0)
    second = told(first, says("a", 2, seen=8, done=3), {"seen": 5}, {"seen": 5}, 20.0)

    assert second["totals"] == {"seen": 8, "done": 3}
    assert (second["since"], second["workers"]["a"]["at"]) == (10.0, 20.0)


def test_workers_add_up_and_a_restarted_one_starts_at_nothing():
    text = told(None, says("a", 1, seen=5), {}, {}, 10.0)
    text = told(text, says("b", 1, seen=7), {}, {}, 11.0)
    text = told(text, says("a2", 1, seen=1), {}, {}, 12.0)

    assert text["totals"] == {"seen": 13}
    assert set(text["workers"]) == {"a", "b", "a2"}


@pytest.mark.parametrize("arrived", [True, False])
def test_a_write_that_was_never_confirmed_is_counted_once_whether_it_arrived_or_not(arrived: bool):
    stands = told(None, says("a", 1, seen=5), {}, {}, 10.0)
    unsure = told(stands, says("a", 2, seen=8), {"seen": 5}, {"seen": 5}, 20.0)
    text = told(unsure if arrived else stands, says("a", 3, seen=9), {"seen": 5}, {"seen": 8}, 30.0)

    assert text["totals"] == {"seen": 9}


def test_a_worker_that_says_nothing_more_is_left_out_and_its_counts_stay():
    text = told(None, says("a", 1, seen=5), {}, {}, 10.0)
    text = told(text, says("b", 1, seen=1), {}, {}, 10.0 + FORGOTTEN)

    assert set(text["workers"]) == {"b"}
    assert text["totals"] == {"seen": 6}


def test_a_worker_that_dies_in_a_loop_does_not_fill_the_list():
    text = None
    for number in range(3 * MOST):
        text = told(text, says(f"w{number}", 1, seen=1), {}, {}, float(number))

    assert text is not None
    assert len(text["workers"]) == MOST + 1
    assert text["totals"] == {"seen": 3 * MOST}


def test_adding_keeps_what_only_one_side_has():
    assert added({"a": 1, "b": 2}, {"b": 5, "c": 1}, {"b": 3}) == {"a": 1, "b": 4, "c": 1}


class LosesReplies(Inline):
    """A store that writes, and whose replies are lost for a while."""

    losing = 0

    async def swap(self, changes: Any) -> Any:
        replies = await super().swap(changes)
        if self.losing:
            self.losing -= 1
            return [UNKNOWN for _ in replies]
        return replies


def documents(memory: Any) -> list[dict[str, Any]]:
    return [one.value for _, one in run(listed("sources"), Ports(memory))]


def test_a_run_leaves_its_counts_in_the_store_and_the_next_adds_to_them():
    memory, awaited = store()
    feed = Feed(records(*range(50)))
    for name in ("one", "two"):
        Worker([pipeline(feed, FarSide())], store=awaited, name=name).run()

    [text] = documents(memory)
    assert (text["pipeline"], text["source"]) == ("stage", "feed")
    assert text["totals"]["seen"] == 51
    assert (text["totals"]["done"], text["totals"]["reread"]) == (50, 1)
    assert {name: one["status"] for name, one in text["workers"].items()} == {"one": "ended", "two": "ended"}


def test_lost_replies_do_not_count_anything_twice():
    memory, awaited = store()
    worker = Worker([pipeline(Feed(records(*range(10))), FarSide())], store=awaited)
    anyio.run(worker.arun)
    losing = LosesReplies(memory)
    teller = Teller(worker.readers[0], "w")

    async def tell() -> None:
        ports = AsyncPorts(losing)
        losing.losing = 6
        with pytest.raises(Unreachable):
            await teller.tell(ports, "running")
        await teller.tell(ports, "running")
        await teller.tell(ports, "ended")

    anyio.run(tell)

    [text] = documents(memory)
    assert text["totals"]["seen"] == 10
    assert json.dumps(text)
