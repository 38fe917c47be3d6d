"""Workers remove done entries whose `keep` is over: bounded, in turn, and nothing else."""

from __future__ import annotations

import logging
from typing import Any

import anyio
import pytest

from onefold.core.claims import Bid, Ending, Hold
from onefold.core.documents import load
from onefold.core.errors import Unreachable
from onefold.core.key import Key
from onefold.core.protocol import claim, end, set_aside
from onefold.core.terms import Terms
from onefold.drive import AsyncPorts, Inline, Ports, run
from onefold.runtime import current
from onefold.stores.memory import MemoryStore
from onefold.worker import Worker, purging
from onefold.worker.purging import DOCUMENT, EVERY, LONGEST, PAGE, TRIES, WALK_EVERY, Purging, reached, taken
from onefold.worker.tally import Tally
from tests.fast.worker.stage import FarSide, Feed, pipeline, records, run_until

DAY = 86400.0
SHORT, FOREVER = Terms(keep="1h"), Terms()


class World:
    """A store, and workers that purge it as time passes."""

    def __init__(self) -> None:
        self.memory = MemoryStore()
        self.tallies = {"stage": Tally(["feed", "other"])}

    def later(self, seconds: float) -> None:
        """Let time pass."""
        current().wait(seconds)

    def done(self, *numbers: int, terms: Terms = SHORT, scope: str = "stage", source: str = "feed") -> None:
        for number in numbers:
            bid = Bid(Key(scope, number), f"t{number}", terms, source=source)
            [won] = run(claim([bid]), Ports(self.memory))
            assert won.entry is not None
            run(
                end([(Hold(bid.key, bid.token, won.entry), Ending("returned", "1"), terms)]),
                Ports(self.memory),
            )

    def purge(self, worker: str = "w1") -> int:
        """Let a worker take its turn."""
        own = Purging(worker, self.tallies, lambda: False)
        return anyio.run(own.round, AsyncPorts(Inline(self.memory)))

    def rounds(self, number: int) -> list[int]:
        removed = []
        for _ in range(number):
            removed.append(self.purge())
            self.later(EVERY)
        return removed

    def left(self, scope: str | None = None) -> int:
        found, _ = self.memory.scan(scope, ("done", "free", "held", "parked"), False, None, 100_000)
        return sum(not key.scope.startswith("onefold.") for key, _ in found)

    @property
    def walk(self) -> dict[str, Any]:
        [document] = run(load([DOCUMENT]), Ports(self.memory))
        assert document is not None
        value: dict[str, Any] = document.value
        return value


@pytest.fixture
def world() -> World:
    return World()


def test_what_is_over_is_removed_and_what_is_open_parked_young_or_kept_for_ever_stays(world: World):
    world.done(*range(10))
    world.done(*range(10, 15), terms=FOREVER)
    run(claim([Bid(Key("stage", "held"), "h", SHORT)]), Ports(world.memory))
    doubt = Bid(Key("stage", "doubt"), "d", SHORT)
    run(set_aside([doubt], "in-doubt"), Ports(world.memory))
    world.later(DAY)
    world.done(20, 21)

    assert world.purge() == 10
    assert world.left() == 5 + 2 + 2
    assert world.memory.get([doubt.key])[0].entry is not None


def test_a_round_is_bounded_and_the_next_one_goes_on_where_it_ended(world: World):
    world.done(*range(3 * PAGE), terms=FOREVER)
    world.done(*range(3 * PAGE, 4 * PAGE))
    world.later(DAY)
    looked: list[int] = []
    scan = world.memory.scan

    def counted(*args: Any) -> Any:
        looked.append(args[-1])
        return scan(*args)

    world.memory.scan = counted  # type: ignore[method-assign, assignment]

    first = world.purge()
    assert sum(looked) == purging.PAGES * PAGE
    world.later(EVERY)

    assert first + sum(world.rounds(2)) == PAGE
    assert world.left() == 3 * PAGE


def test_a_round_goes_on_while_half_of_a_page_is_over(world: World, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(purging, "PAGE", 10)
    monkeypatch.setattr(purging, "MOST", 5)
    world.done(*range(200))
    world.later(DAY)

    assert world.rounds(4) == [50, 50, 50, 50]


def test_more_workers_do_not_purge_more_often_and_share_one_walk(world: World):
    world.done(*range(10))
    world.later(DAY)

    assert [world.purge(name) for name in ("w1", "w2", "w3")] == [10, 0, 0]
    assert world.walk["by"] == "w1"


def test_a_walk_that_is_over_rests(world: World):
    world.purge()
    world.done(1)
    world.later(WALK_EVERY - EVERY - 1)
    assert world.rounds(1) == [0]
    world.later(1 + DAY)

    assert world.rounds(1) == [1]


def test_a_worker_that_dies_in_its_round_leaves_the_walk_to_the_next(world: World):
    place = {"at": 0.0, "by": "w1", "token": "t", "after": "abc", "begun": 0.0, "tries": 0, "is_over": False}

    def again(text: Any) -> Any:
        return taken(text, "t2", "w2", text["at"] + EVERY)

    text: Any = place
    for number in range(1, TRIES + 1):
        text = again(text)
        assert (text["after"], text["tries"]) == ("abc", number)
    text = again(text)
    assert (text["after"], text["tries"]) == (None, 0), "its place may be what is wrong"


@pytest.mark.parametrize(
    ("stands", "is_due"),
    [
        (None, True),
        ({"at": 100.0 - EVERY + 1}, False),
        ({"at": 100.0 - EVERY}, True),
        ({"at": 100.0 + DAY}, True),
        ({"at": 0.0, "begun": 90.0, "is_over": True}, False),
        ({"at": 0.0, "begun": 100.0 - WALK_EVERY, "is_over": True}, True),
        ({"at": 0.0, "begun": 90.0, "is_over": False}, True),
    ],
)
def test_a_round_is_taken_only_when_it_is_due(stands, is_due):
    assert (taken(stands, "t", "w", 100.0) is not None) is is_due


def test_the_end_of_a_round_is_not_written_over_that_of_another():
    stands = {"token": "theirs", "after": "x"}

    assert reached(stands, "mine", "y") is None
    assert reached(None, "mine", "y") is None


@pytest.mark.parametrize(
    ("after", "place", "is_over"), [("x", "x", False), (None, None, True), ("x" * (LONGEST + 1), None, False)]
)
def test_a_round_that_ended_says_where_the_next_begins(after, place, is_over):
    text = reached({"token": "mine", "after": "old", "tries": 2}, "mine", after)

    assert text == {"token": "mine", "after": place, "tries": 0, "is_over": is_over}


def test_what_was_removed_is_counted_by_pipeline_and_source_and_logged(world: World, caplog):
    caplog.set_level(logging.INFO)
    world.done(1, 2, source="feed")
    world.done(3, source="gone")
    world.done(4, 5, 6, source="other", scope="stage.each")
    world.done(7, scope="library")
    world.later(DAY)

    assert world.purge() == 7
    assert [world.tallies["stage"].total("purged", name) for name in ("feed", "other")] == [3, 3]
    assert "removed 7 done entries whose keep is over" in caplog.text


def test_entries_that_were_claimed_again_meanwhile_are_not_removed(world: World):
    world.done(1)
    world.later(DAY)
    swap = world.memory.swap

    def raced(changes: Any) -> Any:
        if any(change.entry is None for change in changes):
            world.memory.swap = swap  # type: ignore[method-assign]
            [won] = run(claim([Bid(Key("stage", 1), "again", SHORT)]), Ports(world.memory))
            assert won.state == "won"
        return swap(changes)

    world.memory.swap = raced  # type: ignore[method-assign]

    assert world.purge() == 0
    assert world.left() == 1


# ----- in a worker


@pytest.mark.parametrize("turned_off", [False, True])
def test_a_worker_purges_while_it_runs_unless_that_is_turned_off(world: World, turned_off: bool):
    world.done(*range(10))
    world.later(DAY)
    feed = Feed(records(100), finite=False)
    more: dict[str, Any] = {"purge": False} if turned_off else {}
    plan = pipeline(feed, far := FarSide(), terms=SHORT)
    worker = Worker([plan], store=Inline(world.memory), **more)

    wanted = 1 if turned_off else 0
    run_until(worker, lambda: bool(far.happened) and world.left() - 1 == 10 * wanted)

    assert worker.tallies["stage"].total("purged") == 10 * (1 - wanted)


def test_a_worker_whose_pipelines_keep_for_ever_does_not_look(world: World):
    plan = pipeline(Feed(records(1)), FarSide(), terms=FOREVER)
    Worker([plan], store=Inline(world.memory)).run()

    assert world.memory.get([DOCUMENT])[0].entry is None


def test_a_store_that_cannot_purge_now_stops_no_worker(world: World, caplog):
    class Broken(Inline):
        async def scan(self, scope: Any, states: Any, *rest: Any) -> Any:
            if "done" in states:
                raise Unreachable("away")
            return await super().scan(scope, states, *rest)

    plan = pipeline(Feed(records(1), finite=False), FarSide(), terms=SHORT)
    worker = Worker([plan], store=Broken(world.memory))
    run_until(worker, lambda: "old entries could not be removed now: away" in caplog.text)

    assert run(load([DOCUMENT]), Ports(world.memory))[0] is not None


def test_a_worker_that_stops_takes_no_more_rounds(world: World):
    world.done(1)
    world.later(DAY)
    own = Purging("w", world.tallies, lambda: True)

    async def some() -> None:
        with anyio.move_on_after(0.01):
            await own.attend(AsyncPorts(Inline(world.memory)))

    anyio.run(some)

    assert world.left() == 1
