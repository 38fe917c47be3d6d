"""A worker that is killed again and again walks back through a newest-first feed all the same.

A life ends at an answer of the feed: from then on its store takes nothing more, and its tasks are cancelled.
What the next life knows is what the store holds.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from random import Random
from typing import Any

import anyio
import pytest

from onefold.core.cursor import Cursor
from onefold.core.paging import highest
from onefold.core.record import Page
from onefold.core.wire import Unreadable
from onefold.sources.poll import Next, Offset, Poll, Token
from onefold.stores.memory import MemoryStore
from onefold.testing.clock import FakeClock
from onefold.worker import Worker
from onefold.worker.progress import cursor_key
from onefold.worlds.feed import EPOCH, Feed, trades
from onefold.worlds.site import Response, Site
from tests.fast.sources.reading import TERMS, Mortal, acted, exist, gaps, pipeline, polled

PAGE = 10
LIVES = 300
PAGINGS = [Offset(limit=PAGE, overlap=2), Token(), Next()]
WAYS = ["offset", "token", "next"]


class Dying:
    """A world in which no worker lives longer than a few answers of its feed."""

    def __init__(self, site: Site, feed: Feed, answers: int, paging: Any, **more: Any) -> None:
        self.site, self.feed, self.answers = site, feed, answers
        self.clock = FakeClock()
        self.memory = MemoryStore(self.clock)
        self._settings = {"paging": paging, "rows": feed.body_field, **more}
        self._left = 0
        self._die: Callable[[], Any] = lambda: None
        site.routes["GET", feed.path] = self._answer

    def _answer(self, request: Any) -> Response:
        self._left -= 1
        if self._left == 0:
            self._die()
        return self.feed.answer(request)

    def live(self) -> bool:
        """Let one worker live; say whether it came to the end of its work."""
        whole = anyio.run(self._life)
        self.clock.jump(TERMS.lease)  # what the dead worker held is free again
        return whole

    async def _life(self) -> bool:
        self._left = self.answers
        store = Mortal(self.memory)
        source = polled(self.site, self.feed, **self._settings)
        worker = Worker([pipeline(source, self.feed.journal)], store=store, once=True)
        async with anyio.create_task_group() as group:

            def die() -> None:
                store.die()
                group.cancel_scope.cancel()

            # Before the answer is sent: it finds nobody.
            self._die = partial(asyncio.get_running_loop().call_soon, die)
            await worker.arun()
            group.cancel_scope.cancel()
        return not store.died.is_set()

    @property
    def cursor(self) -> dict[str, Any]:
        [seen] = self.memory.get([cursor_key("feed", "poll")])
        return json.loads(seen.entry.body) if seen.entry and seen.entry.body else {}

    @property
    def reached(self) -> float:
        """How far back the walk has come, as the store knows it."""
        return min((at for at, *_ in self.cursor.get("mark", {}).get("steps", [])), default=float("inf"))

    def account(self, besides: set[str] = frozenset()) -> None:  # type: ignore[assignment]
        assert exist(self.feed.journal) - besides - set(acted(self.feed.journal)) == set(), "lost"
        assert gaps(self.memory) == []


@pytest.fixture(autouse=True)
def lives_are_short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a life of milliseconds write its cursor as often as one of seconds would."""
    monkeypatch.setattr("onefold.worker.reading.SAVE_EVERY", 0.0)


def feed_for(paging: Any, **more: Any) -> Feed:
    kind = {Offset: "offset", Token: "token", Next: "next"}[type(paging)]
    return Feed(page=PAGE, paging=kind, rows=None if kind == "offset" else "data", **more)  # type: ignore[arg-type]


# ----- lives


@pytest.mark.parametrize("paging", PAGINGS, ids=WAYS)
def test_a_first_walk_that_is_killed_every_few_pages_gets_further_each_time_and_ends(site, paging):
    feed = feed_for(paging)
    feed.add(*trades(1, 150, tie=0.2))
    world = Dying(site, feed, 4, paging)
    before, lives = float("inf"), 0
    while not acted(feed.journal):
        world.live()
        lives += 1
        assert world.reached < before or acted(feed.journal), "a life without progress"
        before = world.reached
    assert lives > 3, "the walk must be longer than a life for this to show anything"

    while not world.live():
        lives += 1
        assert lives < LIVES
    world.account()
    assert world.cursor["mark"]["steps"] == []


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("paging", PAGINGS, ids=WAYS)
def test_nothing_is_lost_while_rows_come_late_and_go_and_workers_die(site, paging, seed):
    chance = Random(seed)
    lag = chance.choice((None, 8))
    feed = feed_for(paging, by_arrival=lag is not None and chance.random() < 0.5)
    tie = chance.choice((0.0, 0.3, 0.8))
    feed.add(*trades(seed, 160, tie=tie))
    late = 0.3 if lag else 0.0
    coming = [
        {**row, "id": f"new-{row['id']}", "timestamp": row["timestamp"] + 1000}
        for row in trades(seed + 100, 40, late=late, lateness=8)
    ]
    feed.let_come(coming, seed, 0, 2)
    # A round reads the lag again and keeps a tie whole: a life must have time for it, and `most` room.
    answers = chance.randint(7, 10) * (2 if tie > 0.5 else 1)
    more = {"lag": lag, "unit": None, "most": chance.choice((60, 10_000))}
    world = Dying(site, feed, answers, paging, **more)
    gone: set[str] = set()
    for life in range(LIVES):
        if world.live() and not feed.is_growing:
            break
        if life % 5 == 0 and isinstance(paging, Offset):  # others move up, past where the walk is to go on
            victims = [line["id"] for line in feed.journal.of("exists")][-33:-30]
            gone |= set(victims)
            feed.remove(*victims)
    else:
        raise AssertionError(f"it never ended: {world.cursor}, {feed.is_growing}")
    while not world.live():  # once more, for what the last of the dead held
        pass

    world.account(besides=gone)


# ----- rounds of one source


def read(source: Poll, cursor: Cursor) -> list[Page]:
    async def pages() -> list[Page]:
        return [page async for page in source.read(cursor)]

    return anyio.run(pages)


def worked(source: Poll, cursor: Cursor, rounds: int) -> tuple[list[Page], Cursor]:
    """Read as a worker does that accounts for everything at once, up to the present."""
    shown: list[Page] = []

    async def work() -> Cursor:
        at, mark = cursor
        for _ in range(rounds):
            with suppress(Unreadable):
                async for page in source.read(Cursor(at, mark)):
                    shown.append(page)
                    at = highest(at, *(one.at for one in page.records))
                    mark = page.mark.known if page.mark else mark
                    if not page.more:
                        return Cursor(at, mark)
        raise AssertionError(f"{rounds} rounds did not lead to the present: {at}, {mark}")

    return shown, anyio.run(work)


def numbers(pages: list[Page]) -> list[int]:
    return [int(one.at - EPOCH) for page in pages for one in page.records]


def row(number: int) -> dict[str, Any]:
    return {"id": f"r{number}", "timestamp": EPOCH + number}


@pytest.fixture
def feed(site: Site) -> Feed:
    feed = Feed(page=PAGE)
    feed.add(*(row(number) for number in range(60)))
    site.routes.update(feed.routes)
    return feed


OFFSET = Offset(limit=PAGE, overlap=2)


def walked(source: Poll) -> Any:
    """Walk back through a feed, and return what the worker would have stored before anything is handed on."""
    return marks([page for page in read(source, Cursor()) if not page.records])[-1]


def marks(pages: list[Page]) -> list[Any]:
    return [page.mark.known for page in pages if page.mark]


def test_a_walk_goes_on_at_its_lowest_step_then_above_it_and_at_last_at_the_newest_row(site, feed):
    mark = walked(polled(site, feed, paging=OFFSET))
    source = polled(site, feed, paging=OFFSET)
    rounds = [read(source, Cursor(None, mark)) for _ in range(len(mark["steps"]) + 2)]

    # Though the cursor stays, as it does behind a record that is open.
    tops = [numbers(pages)[-1] for pages in rounds]
    assert tops == sorted(tops)
    assert tops[-3] < 59
    assert tops[-2:] == [59, 59]
    assert [pages[-1].more for pages in rounds] == [True] * (len(rounds) - 2) + [False, False]


def test_a_walk_that_goes_on_hands_on_nothing_that_may_also_stand_above_it(site, feed):
    mark = walked(polled(site, feed, paging=OFFSET))
    feed.add(*(row(number) for number in range(60, 65)))
    site.requests.clear()
    pages = read(polled(site, feed, paging=OFFSET), Cursor(None, mark))

    first = int(site.requests[0].query["offset"])
    assert numbers(pages) == list(range(64 - first - 1)), "up to the oldest of the first three rows"
    assert [one[0] for one in marks(pages)[-1]["steps"]] == [one[0] for one in mark["steps"][1:]]


def test_a_step_behind_the_cursor_is_dropped_and_nothing_is_passed_over(site, feed):
    mark = walked(polled(site, feed, paging=OFFSET))
    feed.remove(*(f"r{number}" for number in range(30, 60)))
    shown, cursor = worked(
        polled(site, feed, paging=OFFSET), Cursor(EPOCH + 20, mark), len(mark["steps"]) + 1
    )

    assert set(range(20, 30)) <= set(numbers(shown))
    assert cursor.mark["steps"] == []


def test_a_walk_through_a_feed_that_fails_now_and_then_goes_on_after_each_failure(site, feed):
    feed.add(*(row(number) for number in range(60, 160)))
    asked = 0

    def failing(request: Any) -> Response:
        nonlocal asked
        asked += 1
        return Response({}, 500) if asked % 5 == 0 else feed.answer(request)

    site.routes["GET", feed.path] = failing
    shown, _ = worked(polled(site, feed, paging=OFFSET, tries=1), Cursor(), 60)

    assert set(numbers(shown)) == set(range(160))
    assert [page.gap for page in shown if page.gap] == []


@pytest.mark.parametrize("answer", [Response({"error": "unknown cursor"}, 400), Response({}, 410)])
@pytest.mark.parametrize("paging", PAGINGS, ids=WAYS)
def test_a_step_that_the_feed_no_longer_knows_is_dropped(site, paging, answer):
    feed = feed_for(paging)
    feed.add(*(row(number) for number in range(60)))
    site.routes.update(feed.routes)
    mark = walked(polled(site, feed, paging=paging, rows=feed.body_field))
    site.routes["GET", feed.path] = lambda request: (
        answer
        if {"offset", "cursor"} & set(request.query) and request.query.get("offset") != "0"
        else feed.answer(request)
    )
    [page] = read(polled(site, feed, paging=paging, rows=feed.body_field), Cursor(None, mark))

    assert (list(page.records), page.gap, page.more) == ([], None, True)
    assert len(marks([page])[-1]["steps"]) == len(mark["steps"]) - 1


def test_a_step_whose_page_cannot_be_read_is_passed_over_by_the_next_round(site, feed):
    mark = walked(polled(site, feed, paging=OFFSET))
    steps = {str(ask["offset"]) for _, ask, _ in mark["steps"]}
    site.routes["GET", feed.path] = lambda request: (
        Response({"error": "what?"}) if request.query["offset"] in steps else feed.answer(request)
    )
    source = polled(site, feed, paging=Offset(limit=60, overlap=2))
    for _ in mark["steps"]:
        with pytest.raises(Unreadable):
            read(source, Cursor(None, mark))

    assert numbers(read(source, Cursor(None, mark)))[-1] == 59


@pytest.mark.parametrize("more", [{"params": {"min": 5}}, {"paging": None}])
def test_a_feed_that_is_asked_for_other_rows_takes_nothing_up(site, feed, more):
    mark = walked(polled(site, feed, paging=OFFSET))
    source = polled(site, feed, **{"paging": OFFSET, **more})

    assert numbers(read(source, Cursor(None, mark)))[-1] == 59


def test_no_step_is_left_where_the_lag_is_read_again(site, feed):
    pages = read(polled(site, feed, paging=OFFSET, lag=30), Cursor(EPOCH + 10))

    assert min(at for mark in marks(pages) for at, *_ in mark["steps"]) > EPOCH + 10


def test_a_round_of_one_page_leaves_no_mark(site, feed):
    pages = read(polled(site, feed, paging=OFFSET), Cursor(EPOCH + 56))

    assert [page.mark for page in pages] == [None]


def test_no_step_holds_a_key_of_the_feeds_url(site):
    feed = Feed(page=PAGE, paging="next", rows="data")
    feed.add(*(row(number) for number in range(60)))

    def keyed(request: Any) -> Response:
        body = feed.answer(request).body
        following = body["next"] and f"{site.url}{body['next']}&apiKey=very-secret&min=6"
        return Response({**body, "next": following})

    site.routes["GET", feed.path] = keyed
    more: dict[str, Any] = {"paging": Next(), "rows": "data", "params": {"apiKey": "very-secret", "min": 5}}
    mark = walked(polled(site, feed, **more))

    assert "very-secret" not in str(mark)
    assert "min=6" in str(mark)
    site.requests.clear()
    assert numbers(read(polled(site, feed, **more), Cursor(None, mark)))
    assert {request.query["apiKey"] for request in site.requests} == {"very-secret"}


@pytest.mark.parametrize("newest_first", [True, False])
def test_a_feed_that_refuses_its_second_page_has_shown_all_it_shows(site, newest_first):
    feed = Feed(page=PAGE, newest_first=newest_first, max_offset=0)
    feed.add(*(row(number) for number in range(20)))
    site.routes.update(feed.routes)
    pages = read(polled(site, feed, paging=OFFSET, start="start"), Cursor(EPOCH + 15))

    assert set(numbers(pages)) >= set(range(15, 20))
