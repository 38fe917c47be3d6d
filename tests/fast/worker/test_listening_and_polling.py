"""A websocket and a poller over the same events, on a network that cuts, stalls, lies and goes half-open.

Effects are counted from the world's own journal. A seed that fails is replayed by
`./dev test tests/fast/worker/test_listening_and_polling.py -k "seed-N"`.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from functools import partial
from random import Random
from typing import Any

import anyio
import pytest

from onefold.core.backoff import Backoff
from onefold.core.cursor import Cursor, start
from onefold.core.record import Fate, Page, Record
from onefold.core.terms import Terms
from onefold.runtime import current
from onefold.runtime.http import Ask
from onefold.sinks.function import Function
from onefold.sources.websocket import Websocket
from onefold.worker import Pipeline, Worker
from onefold.worlds.mischief import Mischief, Trick
from onefold.worlds.site import Site
from onefold.worlds.stream import Events, Stream
from tests.fast.worker.stage import FarSide, Feed, pipeline, records, store
from tests.waiting import until

TERMS = Terms(lease=20, backoff=(0.05, 0.2))
LAG = 200
"""More than the events of a run: whatever a line loses, the next back-fill finds."""

STREAM: dict[Trick, float] = {
    "cut-before": 0.02, "stall": 0.02, "half-open": 0.01, "repeat": 0.05, "swap": 0.05, "garbage": 0.03,
}  # fmt: skip
SITE: dict[Trick, float] = {"error": 0.1, "half": 0.05, "stale": 0.1, "empty": 0.1, "garbage": 0.05}

SEEDS = [pytest.param(seed, id=f"seed-{seed}") for seed in range(3)]
MORE = [pytest.param(seed, id=f"seed-{seed}", marks=pytest.mark.slow) for seed in range(3, 40)]


async def asked(url: str, body: Any = None) -> Any:
    method, content = ("GET", b"") if body is None else ("POST", json.dumps(body).encode())
    answer = await current().http(Ask(method, url, body=content))
    if answer.status >= 400 or not answer.whole:
        raise OSError(f"{url} answered {answer.status}")
    return json.loads(answer.body)


class Poller:
    """Reads the list, one chain of pages per round; its rows look different from the stream's messages."""

    reach = None
    repeats = True
    lag = 5.0
    backoff = Backoff(0.02, 0.2)

    def __init__(self, url: str) -> None:
        self._url = url

    async def read(self, cursor: Cursor) -> AsyncIterator[Page]:
        at = int(start(cursor, self.lag) or 0)
        while True:
            rows = await asked(f"{self._url}/events?since={max(at, 0)}")
            yield Page([Record(f"row-{row['id']}", {"event": row}, row["at"]) for row in rows])
            if len(rows) < 100:
                return
            at = rows[-1]["at"] + 1

    async def tell(self, fates: Sequence[tuple[Record, Fate]]) -> None:
        """A poller ignores it."""


def parse(message: str | bytes) -> Record | None:
    event = json.loads(message)
    return None if "subscribed" in event else Record(event["id"], event, event["at"])


def websocket(stream: Stream, site: Site, **more: Any) -> Websocket:
    async def backfill(cursor: Cursor) -> AsyncIterator[Page]:
        at = max(int(cursor.at or 0), 0)
        while rows := await asked(f"{site.url}/events?since={at}"):
            yield Page([Record(row["id"], row, row["at"]) for row in rows])
            at += len(rows)

    def confirms(message: str | bytes) -> bool:
        return "subscribed" in json.loads(message)

    how = {
        "confirms": confirms,
        "ping": 0.2,
        "lag": LAG,
        "backoff": (0.02, 0.2),
        "stable": 1,
        "backfill": backfill,
        **more,
    }
    return Websocket(stream.url, parse, subscribe=["please"], **how)


def plan(sources: dict[str, Any], site: Site) -> Pipeline:
    async def act(record: Record) -> Any:
        event = record.body.get("event", record.body)
        return await asked(f"{site.url}/effects", {"id": event["id"], "by": record.source})

    keys = {"stream": lambda record: record.id, "poll": lambda record: record.body["event"]["id"]}
    return Pipeline("race", sources, {name: keys[name] for name in sources}, Function(act), terms=TERMS)


Mishap = Callable[[], Awaitable[object]]
Mishaps = Mapping[int, Mishap]


async def let_happen(events: Events, number: int, mishaps: Mishaps) -> None:
    """Let events happen, never far ahead of their effects, so that every mishap meets some of them."""
    for n in range(number):
        if n in mishaps:
            await mishaps[n]()
        events.happen()
        await until(lambda n=n: len(events.effects()) >= n - 20)  # type: ignore[misc]


def drive(
    workers: Sequence[Worker], events: Events, number: int, mishaps: Mishaps, done: Callable[[], bool]
) -> list[int]:
    """Run workers beside a world in which so many events happen, until all is done and a condition holds."""
    codes: list[int] = []

    async def work(worker: Worker) -> None:
        codes.append(await worker.arun())

    def all_done() -> bool:
        return {line["id"] for line in events.journal.of("event")} == set(events.effects()) and done()

    async def live() -> None:
        async with anyio.create_task_group() as group:
            for worker in workers:
                group.start_soon(work, worker)
            await let_happen(events, number, mishaps)
            await until(all_done)
            for worker in workers:
                worker.stop()

    try:
        anyio.run(live)
    except BaseException:
        print(*[line for line in events.journal.lines() if line["kind"] not in ("event", "effect")], sep="\n")
        raise
    return codes


async def strike(stream: Stream, trick: Trick) -> None:
    """Spoil the line in this way for certain, even if it is down at this moment."""

    def struck() -> bool:
        if trick in tricks(stream.events):
            return True
        if stream.connections:
            stream.spoil(trick)
        return False

    await until(struck)


def tricks(events: Events) -> set[str]:
    return {line["trick"] for line in events.journal.of("trick")}


@pytest.mark.parametrize("seed", [*SEEDS, *MORE])
def test_a_websocket_and_a_poller_make_one_effect_of_each_event_through_cuts_stalls_and_half_open_lines(seed):
    events, mischief = Events(), Mischief(seed, {**STREAM, "drop": 0.05}, stall=0.2)
    with Stream(events, mischief) as stream, events.site() as site, events.site(Mischief(seed, SITE)) as bad:
        sources = {"stream": websocket(stream, site), "poll": Poller(bad.url)}
        worker = Worker([plan(sources, site)], store="memory:")
        tally = worker.tallies["race"]

        async def fail() -> None:
            bad.mischief.rates["error"] = 1.0

        async def wait_for_the_stream() -> None:
            await until(lambda: tally.race.first["stream"] > 0)
            bad.mischief.rates = dict(SITE)

        # For a while the list only fails, so that the stream is first with some, however quick the poller is.
        mishaps: dict[int, Mishap] = {5: fail, 10: wait_for_the_stream}
        mishaps |= {n: partial(strike, stream, trick) for n, trick in zip((30, 60, 90), STREAM, strict=False)}
        codes = drive([worker], events, 120, mishaps, lambda: tally.total("late") > 0)

    assert codes == [0]
    assert Counter(events.effects()) == Counter({f"e{n}": 1 for n in range(120)})
    assert {"cut-before", "stall", "half-open"} <= tricks(events)
    # Both were first with some, and whoever was second is counted with how far behind it was.
    first = tally.race.first
    assert first["stream"] + first["poll"] == 120
    assert min(first["stream"], first["poll"]) > 0, first
    winners = Counter(line["by"] for line in events.journal.of("effect"))
    assert {name: tally.total("won", name) for name in winners} == winners
    assert sum(sum(classes.values()) for classes in tally.late.values()) == tally.total("late")


@pytest.mark.parametrize("seed", [*SEEDS, *MORE])
def test_a_websocket_alone_loses_nothing_to_storms_of_cuts_stalls_and_half_open_lines(seed):
    events, mischief = Events(), Mischief(seed, STREAM, stall=0.2)
    for _ in range(10):
        events.happen()
    with Stream(events, mischief) as stream, events.site() as site:
        worker = Worker([plan({"stream": websocket(stream, site)}, site)], store="memory:")
        mishaps = {30: partial(strike, stream, "half-open"), 60: partial(strike, stream, "cut-before")}

        async def last() -> None:
            # A message that is held back for the next one would wait for ever after the last.
            mischief.stop()
            stream.spoil("cut-before")

        drive([worker], events, 110, {**mishaps, 109: last}, lambda: True)

    assert Counter(events.effects()) == Counter({f"e{n}": 1 for n in range(120)})
    assert len(events.journal.of("connected")) > 1


def test_a_slow_consumer_that_is_closed_by_the_far_side_reads_what_it_missed():
    events = Events()

    async def burst() -> None:
        # While the line stalls, more waits for it than the far side lets wait.
        await strike(stream, "stall")
        for _ in range(30):
            events.happen()

    with Stream(events, Mischief(stall=5.0), backlog=10) as stream, events.site() as site:
        worker = Worker([plan({"stream": websocket(stream, site)}, site)], store="memory:")
        drive([worker], events, 40, {10: burst}, lambda: True)

    assert Counter(events.effects()) == Counter({f"e{n}": 1 for n in range(70)})
    assert "slow" in tricks(events)


def test_two_workers_one_listening_and_one_polling_share_the_race_through_the_store(tmp_path):
    events, url = Events(), f"sqlite:///{tmp_path}/race.db"
    with Stream(events, Mischief(7, STREAM, stall=0.1)) as stream, events.site() as site:
        listening = Worker([plan({"stream": websocket(stream, site)}, site)], store=url)
        polling = Worker([plan({"poll": Poller(site.url)}, site)], store=url)
        drive([listening, polling], events, 120, {}, lambda: True)

    assert Counter(events.effects()) == Counter({f"e{n}": 1 for n in range(120)})
    assert sum(one.tallies["race"].total("won") for one in (listening, polling)) == 120


@pytest.mark.parametrize("seed", range(20))
def test_in_whatever_order_two_sources_show_their_records_each_has_one_effect_and_its_winner_is_recorded(
    seed,
):
    random, (memory, awaited), far = Random(seed), store(), FarSide()
    feeds = {}
    for name in ("stream", "poll"):
        shown = records(*range(60))
        random.shuffle(shown)
        feeds[name] = Feed(shown, page=random.randint(1, 20))
    worker = Worker([pipeline(None, far, sources=feeds)], store=awaited)
    worker.run()

    assert set(far.happened.values()) == {1}
    assert len(far.happened) == 60
    found, _ = memory.scan("stage", ("done",), False, None, 100)
    recorded = Counter(seen.entry.source for _, seen in found if seen.entry)
    assert recorded == {name: worker.tallies["stage"].total("won", name) for name in recorded}


def test_a_worker_that_reads_once_ends_when_the_history_of_its_stream_is_read():
    events = Events()
    for _ in range(30):
        events.happen()
    with Stream(events) as stream, events.site() as site:
        worker = Worker([plan({"stream": websocket(stream, site)}, site)], store="memory:", once=True)
        code = worker.run()

    assert code == 0
    assert Counter(events.effects()) == Counter({f"e{n}": 1 for n in range(30)})
