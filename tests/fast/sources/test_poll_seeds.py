"""The faults of feeds, drawn from seeds, through real workers: every row is acted upon once, or in a gap.

A run that fails is repeated by its seed:
`./dev test tests/fast/sources/test_poll_seeds.py -k "late and seed17"`.
Rows arrive between requests and by the seed, so that pages shift in the same way each time.
"""

from __future__ import annotations

import json
from random import Random
from typing import Any

import anyio
import pytest

from onefold.sources.poll import Next, Offset, Token
from onefold.stores.memory import MemoryStore
from onefold.testing.clock import FakeClock
from onefold.worker import Worker
from onefold.worlds.feed import Feed, trades
from onefold.worlds.mischief import Mischief, Trick
from onefold.worlds.site import Response, Site
from tests.fast.sources.reading import TERMS, Mortal, acted, exist, gaps, parked, pipeline, polled, read_all

LATENESS = 60

EVERYDAY = 15
"""How many seeds of each fault run every day; the rest is for `--slow`."""


def seeded(number: int) -> Any:
    drawn = [pytest.param(seed, marks=[] if seed < EVERYDAY else pytest.mark.slow) for seed in range(number)]
    return pytest.mark.parametrize("seed", drawn, ids=[f"seed{seed}" for seed in range(number)])


def opened(site: Site, seed: int, **more: Any) -> Feed:
    """Let the site show one feed, newest or oldest row first by the seed."""
    feed = Feed(**{"newest_first": Random(seed).random() < 0.5, "page": 10, **more})
    site.routes = dict(feed.routes)
    return feed


def account(feed: Feed, store: MemoryStore) -> None:
    """Hold what was done against what exists, by the feed's own journal."""
    done = acted(feed.journal)

    assert exist(feed.journal) - set(done) == set(), "lost"
    assert {one: number for one, number in done.items() if number != 1} == {}, "done twice"
    assert gaps(store) == []


@seeded(200)
def test_many_events_of_one_second_are_each_acted_upon_once(site, memory, seed):
    # A worker through ten thousand takes seconds: with `--slow` nearly all seeds do it, otherwise one.
    number, page = (10_000, 100) if seed == 0 or seed >= EVERYDAY else (40, 5)
    feed = opened(site, seed, most=page)
    feed.add(*trades(seed, number, tie=1.0))

    read_all(polled(site, feed, paging=Offset(limit=page), start="start"), feed, memory, again=1)

    account(feed, memory)


@seeded(200)
def test_a_page_boundary_inside_a_tie_loses_and_repeats_nothing(site, memory, seed):
    random = Random(seed)
    feed = opened(site, seed)
    rows = trades(seed, random.randint(20, 40), tie=random.choice((0.5, 0.9, 1.0)))
    feed.add(*rows[:15])
    feed.let_come(rows[15:], seed, 0, 7)

    read_all(polled(site, feed, paging=Offset(limit=random.randint(3, 9)), start="start"), feed, memory)

    account(feed, memory)


@seeded(200)
def test_rows_that_come_late_with_an_earlier_stamp_are_read_within_the_lag(site, memory, seed):
    random = Random(seed)
    feed = opened(site, seed)
    # Oldest first and by arrival, what is late would stand before a start that was passed.
    feed.by_arrival = feed.newest_first and random.random() < 0.5
    rows = trades(seed, 35, late=0.3, lateness=LATENESS)
    feed.add(*rows[:5])
    feed.let_come(rows[5:], seed, 0, 7)

    # These times lie years back and say nothing about our present: they are an order, and no more.
    source = polled(site, feed, paging=Offset(limit=10), unit=None, start="start", lag=LATENESS)
    read_all(source, feed, memory)

    account(feed, memory)


@seeded(200)
def test_a_worker_that_is_killed_in_the_middle_of_a_newest_first_feed_abandons_nothing(site, seed):
    random = Random(seed)
    clock = FakeClock()
    memory = MemoryStore(clock)
    feed = opened(site, seed, newest_first=True)
    feed.add(*trades(seed, 40))
    settings = {"paging": Offset(limit=10), "most": random.choice((15, 1000))}

    before = kill(polled(site, feed, **settings), feed, memory, random.randint(1, 30))
    clock.jump(TERMS.lease)
    source = polled(site, feed, **settings)
    read_all(source, feed, memory, lambda: set(acted(feed.journal)) == exist(feed.journal), again=1)

    # Of what was under way at the kill nobody knows whether it happened: a keyed effect is sent again.
    done = acted(feed.journal)
    assert set(done) == exist(feed.journal)
    assert {one for one, number in done.items() if number > 1} <= set(before)
    assert gaps(memory) == []


@seeded(60)
def test_rows_that_slide_out_of_reach_lie_in_a_gap_that_is_written_down(site, memory, seed):
    random = Random(seed)
    feed = opened(site, seed, shows=random.choice((12, 20, 30)))
    rows = trades(seed, 80)
    feed.add(*rows[:10])
    feed.let_come(rows[10:], seed, 0, 20)

    read_all(polled(site, feed, paging=Offset(limit=10), start="start"), feed, memory)

    done = acted(feed.journal)
    spans = [(gap["since"], gap["until"]) for gap in gaps(memory)]
    places = {line["id"]: line["at"] for line in feed.journal.of("exists")}
    # What slid away before anything was read at all was never promised.
    first = min(places[one] for one in done)
    lost = [at for one, at in places.items() if one not in done and at > first]
    assert [at for at in lost if not any(since <= at <= until for since, until in spans)] == []
    assert set(done.values()) == {1}


@seeded(40)
def test_rows_that_are_taken_away_draw_no_other_row_past_the_reader(site, memory, seed):
    random = Random(seed)
    feed = opened(site, seed)
    feed.add(*trades(seed, 60))
    honest = feed.answer

    def shrinking(request: Any) -> Response:
        gone = [line["id"] for line in random.choices(feed.journal.of("exists"), k=random.choice((0, 0, 2)))]
        feed.remove(*gone)
        return honest(request)

    site.routes = {("GET", feed.path): shrinking}
    read_all(polled(site, feed, paging=Offset(limit=10, overlap=3), start="start"), feed, memory, again=1)

    taken = {line["id"] for line in feed.journal.of("gone")}
    done = acted(feed.journal)
    assert exist(feed.journal) - taken - set(done) == set()
    assert set(done.values()) == {1}


@seeded(40)
@pytest.mark.parametrize("way", ["offset", "token", "next"])
def test_a_site_that_cuts_stalls_fails_and_talks_nonsense_costs_time_and_nothing_else(
    site, memory, seed, way
):
    paging = {"offset": Offset(limit=10), "token": Token(), "next": Next()}[way]
    feed = opened(site, seed, paging=way, rows="data", newest_first=True)
    rows = trades(seed, 40)
    feed.add(*rows[:20])
    feed.let_come(rows[20:], seed, 0, 5)
    tricks: list[Trick] = ["cut-before", "cut-after", "half", "error", "garbage", "stall"]
    site.mischief = Mischief(seed, dict.fromkeys(tricks, 0.08), stall=0.01)

    read_all(polled(site, feed, paging=paging, rows="data", tries=12), feed, memory, again=2)

    account(feed, memory)


@seeded(20)
def test_empty_and_old_answers_lose_nothing_and_make_no_gaps(site, memory, seed):
    feed = opened(site, seed)
    rows = trades(seed, 40)
    feed.add(*rows[:20])
    feed.let_come(rows[20:], seed, 0, 5)
    site.mischief = Mischief(seed, {"empty": 0.05, "stale": 0.1})

    source = polled(site, feed, paging=Offset(limit=10), start="start")
    read_all(source, feed, memory, lambda: set(acted(feed.journal)) == exist(feed.journal), again=1)

    account(feed, memory)


NONSENSE = (
    '{"id": "n", "timestamp": NaN}',
    '{"id": "n", "timestamp": 1700000001, "x": -Infinity}',
    '{"id": "n", "id": "m", "timestamp": 1700000001}',
    '{"id": "n", "timestamp": 1700000001, "x": ' + "9" * 100_000 + "}",
    '{"id": "n", "timestamp": 1700000001, "x": ' + "[" * 200 + "]" * 200 + "}",
    r'{"id": "\ud800", "timestamp": 1700000001}',
    '{"id": "n", "timestamp": 99999999999}',
    '{"id": "n"}',
    "null",
    '"text"',
)


@seeded(20)
def test_rows_of_nonsense_are_set_aside_with_a_reason_and_hold_nobody_up(site, memory, seed):
    random = Random(seed)
    feed = opened(site, seed, newest_first=True)
    feed.add(*trades(seed, 30))

    def spoilt(request: Any) -> Response:
        rows = [json.dumps(row) for row in feed.answer(request).body]
        rows.insert(random.randrange(len(rows) + 1), random.choice(NONSENSE))
        return Response(f"[{','.join(rows)}]".encode())

    site.routes = {("GET", feed.path): spoilt}
    read_all(polled(site, feed, paging=Offset(limit=10)), feed, memory, again=1)

    account(feed, memory)
    assert 0 < len(parked(memory)) <= len(NONSENSE)
    assert all('"error":' in body for body in parked(memory))


# ----- killing


def kill(source: Any, feed: Feed, store: MemoryStore, writes: int) -> list[str]:
    """Run a worker that dies at its n-th write, if it comes to that; return what it had done by then."""

    async def live() -> None:
        mortal = Mortal(store, writes)
        worker = Worker([pipeline(source, feed.journal)], store=mortal, once=True)
        async with anyio.create_task_group() as group:

            async def die() -> None:
                await mortal.died.wait()
                group.cancel_scope.cancel()

            group.start_soon(die)
            await worker.arun()
            group.cancel_scope.cancel()

    anyio.run(live)
    return list(acted(feed.journal))
