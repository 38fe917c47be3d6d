"""Sites that lie about their pages, their load and their bodies, drawn from seeds, through real workers.

A failing run is repeated by its seed:
`./dev test tests/fast/sources/test_poll_faults.py -k "mixes and seed17"`.
"""

from __future__ import annotations

import gzip
import json
import logging
import tracemalloc
from collections.abc import Callable, Iterator
from random import Random
from typing import Any

import pytest

from onefold.core.backoff import Backoff
from onefold.sources.poll import Next, Offset, Poll, Token
from onefold.stores.memory import MemoryStore
from onefold.worlds.feed import Feed, trades
from onefold.worlds.site import Request, Response, Site
from tests.fast.sources.reading import acted, exist, gaps, polled, read_all

EVERYDAY = 8
"""How many seeds of each lie run every day; the rest is for `--slow`."""

SEEDS = pytest.mark.parametrize(
    "seed",
    [
        pytest.param(seed, id=f"seed{seed}", marks=[] if seed < EVERYDAY else pytest.mark.slow)
        for seed in range(20)
    ],
)
WAYS = {"offset": Offset(limit=10), "token": Token(), "next": Next()}

Lie = Callable[["Liar", Request], Response]


class Liar:
    """Stands before a truthful feed, and draws what it makes of each answer; it counts its lies by name."""

    def __init__(self, feed: Feed, seed: int, lies: dict[str, Lie], rate: float) -> None:
        self.feed = feed
        self.random = Random(seed)
        self.told: list[str] = []
        self.last: Response | None = None
        self._lies = lies
        self._rate = rate

    def answer(self, request: Request) -> Response:
        if self.random.random() >= self._rate:
            self.last = self.feed.answer(request)
            return self.last
        name = self.random.choice(list(self._lies))
        self.told.append(name)
        return self._lies[name](self, request)

    def altered(self, request: Request, change: Callable[[list[Any]], list[Any]], **more: Any) -> Response:
        """Answer with other rows, and perhaps with another way to the next page."""
        body = self.feed.answer(request).body
        return Response({**body, "data": change(body["data"]), **more})


@pytest.fixture
def world() -> Iterator[Site]:
    with Site({}) as site:
        yield site


def set_up(world: Site, feed: Feed, seed: int, lies: dict[str, Lie], rate: float = 0.3) -> Liar:
    rows = trades(seed, 40)
    feed.add(*rows[:20])
    feed.let_come(rows[20:], seed, 0, 5)
    liar = Liar(feed, seed, lies, rate)
    world.routes = {("GET", feed.path): liar.answer}
    return liar


def read_whole(source: Poll, feed: Feed, memory: MemoryStore) -> None:
    """Read until everything that exists was acted upon; hold it against the journal."""
    source.backoff = Backoff(0.001, 0.01)  # type: ignore[attr-defined]
    read_all(source, feed, memory, lambda: set(acted(feed.journal)) == exist(feed.journal), again=2)

    assert set(acted(feed.journal)) == exist(feed.journal)
    assert set(acted(feed.journal).values()) == {1}


# ----- pages (fault 17)


def _mixed(liar: Liar, request: Request) -> Response:
    return liar.altered(request, lambda rows: liar.random.sample(rows, len(rows)))


def _doubled(liar: Liar, request: Request) -> Response:
    return liar.altered(
        request, lambda rows: [row for row in rows for _ in range(liar.random.choice((1, 2)))]
    )


def _missing(liar: Liar, request: Request) -> Response:
    return liar.altered(request, lambda rows: [])


def _before(liar: Liar, request: Request) -> Response:
    return liar.last or liar.feed.answer(request)


def _led(where: Any) -> Lie:
    return lambda liar, request: liar.altered(request, list, next=where, next_cursor=where)


PAGES: dict[str, Lie] = {
    "mixed": _mixed,
    "doubled": _doubled,
    "missing": _missing,
    "the page before": _before,
    "led to another site": _led("http://127.0.0.2/feed?cursor=1"),
    "led in a circle": _led("/feed?cursor=again"),
    "led nowhere": _led({"page": 2}),
    "led on without end": lambda liar, request: _led(f"/feed?cursor=x{liar.random.random()}")(liar, request),
}


@SEEDS
@pytest.mark.parametrize("way", WAYS)
def test_a_site_that_mixes_repeats_drops_and_misdirects_its_pages_loses_and_doubles_nothing(
    world, memory, seed, way
):
    feed = Feed("/feed", paging=way, rows="data", newest_first=True, page=10)
    liar = set_up(world, feed, seed, PAGES)

    # What a page left out is read again within the lag.
    source = polled(world, feed, paging=WAYS[way], rows="data", unit=None, lag=10_000, may_be_empty=True)
    read_whole(source, feed, memory)

    assert liar.told
    assert gaps(memory) == [], "everything was read: a gap would be made up"


# ----- load (fault 19), bodies (fault 20)


def _busy(status: int, again: str | None) -> Lie:
    headers = {} if again is None else {"Retry-After": again}
    return lambda liar, request: Response({"error": "busy"}, status, headers)


def _body(raw: bytes, kind: str = "application/json") -> Lie:
    return lambda liar, request: Response(raw, headers={"Content-Type": kind})


LOAD: dict[str, Lie] = {
    "429": _busy(429, None),
    "429, come at once": _busy(429, "0"),
    "429, come before": _busy(429, "-5"),
    "429, come soon": _busy(429, "soon"),
    "503, come in the past": _busy(503, "Tue, 14 Nov 2023 22:13:10 GMT"),
    "500": _busy(500, "0.01"),
    "an error as a success": lambda liar, request: Response({"error": "maintenance"}),
    "an empty success": lambda liar, request: Response({"data": []}),
}

BODIES: dict[str, Lie] = {
    "a page for people": _body(b"<html>come back later</html>", "text/html"),
    "nothing": _body(b""),
    "half": lambda liar, request: Response(json.dumps(liar.feed.answer(request).body).encode()[:-3]),
    "no UTF-8": _body(b'{"data": ["\xff\xfe"]}'),
    "nested without end": _body(b'{"data": ' + b"[" * 100_000 + b"]" * 100_000 + b"}"),
    "an endless number": _body(b'{"data": ' + b"9" * 100_000 + b"}"),
    "not a number": _body(b'{"data": NaN}'),
    "two lists": _body(b'{"data": [], "data": [{"id": "n", "timestamp": 1700000001}]}'),
    "another kind": lambda liar, request: Response(
        json.dumps(liar.feed.answer(request).body).encode(), headers={"Content-Type": "text/plain"}
    ),
}


@SEEDS
@pytest.mark.parametrize("lies", [LOAD, BODIES], ids=["load", "bodies"])
def test_a_site_that_is_busy_or_talks_nonsense_moves_no_cursor_past_what_it_did_not_show(
    world, memory, seed, lies
):
    feed = Feed("/feed", rows="data", newest_first=seed % 2 == 0, page=10)
    liar = set_up(world, feed, seed, lies)

    source = polled(world, feed, paging=Offset(limit=10), start="start", rows="data", tries=3)
    read_whole(source, feed, memory)

    assert liar.told
    assert gaps(memory) == []


# ----- size (fault 21)

HUGE = 100 * 2**20
LIMIT = 2**20
ROOM = 16 * 2**20


@pytest.mark.parametrize("packed", [False, True], ids=["plain", "packed"])
@pytest.mark.parametrize("seed", range(3), ids=[f"seed{seed}" for seed in range(3)])
def test_an_answer_of_a_hundred_megabytes_is_cut_off_and_the_memory_stays_flat(
    world, memory, caplog, seed, packed
):
    huge = Response(bytes(HUGE))
    if packed:
        huge = Response(gzip.compress(bytes(HUGE), 1), headers={"Content-Encoding": "gzip"})
    feed = Feed("/feed", rows="data", newest_first=True, page=10)
    liar = set_up(world, feed, seed, {"huge": lambda liar, request: huge}, 0.4)
    source = polled(world, feed, paging=Offset(limit=10), rows="data", body_limit=LIMIT)

    # A log that is kept for the report would keep each error, and with it what was read until then.
    caplog.set_level(logging.CRITICAL, "onefold")
    tracemalloc.start()
    try:
        read_whole(source, feed, memory)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert liar.told
    assert peak < ROOM
