"""Raced sources: the failure of the first makes nobody wait, and every sighting is counted right."""

from __future__ import annotations

import anyio
import pytest
from msgspec.structs import replace

from onefold.core.claims import Bid
from onefold.core.entry import Effect, Entry
from onefold.core.errors import Later, Refused
from onefold.core.key import Key
from onefold.core.record import Record
from onefold.core.terms import Terms
from onefold.sinks.function import Function
from onefold.worker import Worker
from onefold.worker.racing import RunnersUp, made_due, may_overtake
from onefold.worker.tally import Race, Tally
from onefold.worker.work import Task, bid, written
from tests.fast.worker.stage import FarSide, Feed, pipeline, records, run_until, store, until

KEY = Key("stage", "r1")
PATIENT = Terms(lease=6, backoff=(600, 600), attempts=8)


def entry(source: str = "fast", *, attempt: int = 1, later: bool = False, **more) -> Entry:
    body = written(Task(KEY, Record("r1", {}, 1, source), error="Refused: no", later=later))
    kept = Entry("free", token="t", version=7, attempt=attempt, not_before=99.0, source=source, body=body)
    return replace(kept, **more)


def second(source: str = "slow") -> Bid:
    return bid(Task(KEY, Record("r1", {"full": True}, 1, source)), "late", PATIENT, "one-shot", None, 0.0)


@pytest.mark.parametrize(
    ("stands", "rivals", "expected"),
    [
        (entry(), 1, True),
        (entry(attempt=0), 1, True),
        (entry(attempt=2), 2, True),
        (entry(body=None), 1, True),
        (None, 1, False),
        (entry("slow"), 1, False),
        (entry(""), 1, False),
        (entry(attempt=7), 1, True),
        (entry(), 0, False),
        (entry(later=True), 1, False),
        (entry(begun=5.0, effect="keyed"), 1, False),
        (entry(not_before=None), 1, False),
        (entry(state="held"), 1, False),
        (entry(state="parked", why="failed"), 1, False),
        (entry(state="done"), 1, False),
    ],
)
def test_another_source_need_not_wait_where_nothing_happened_and_nobody_said_when(stands, rivals, expected):
    ours = second()

    assert may_overtake(ours, stands, rivals) is expected
    change = made_due(ours, stands, rivals)
    assert (change is not None) is expected
    if change and change.entry:
        due = change.entry
        assert (change.expected, due.not_before, due.source, due.body) == (7, None, "slow", ours.body)


def raced(far: FarSide, fast: Feed, slow: Feed, effect: Effect = "one-shot", terms: Terms = PATIENT):
    sources = {"fast": fast, "slow": slow}
    return pipeline(None, far, effect=effect, sources=sources, terms=terms)


def knows_too_little(record: Record) -> None:
    if record.source == "fast":
        raise Refused("the first one does not know enough")


@pytest.mark.parametrize("effect", ["one-shot", "idempotent"])
def test_a_winner_that_cannot_finish_lets_the_other_source_win_at_once(effect):
    memory, awaited = store()
    far, fast, slow = FarSide(knows_too_little), Feed(records(1), finite=False), Feed(finite=False)
    worker = Worker([raced(far, fast, slow, effect)], store=awaited)
    tally = worker.tallies["stage"]

    def refused() -> bool:
        if tally.total("refused") and not slow.records:
            slow.records += records(1)
        return sum(far.happened.values()) == 1

    run_until(worker, refused)

    [seen] = memory.get([KEY])
    assert seen.entry is not None
    assert (seen.entry.state, seen.entry.source, seen.entry.attempt) == ("done", "slow", 2)


def test_a_source_that_came_second_while_the_first_was_at_work_is_tried_when_the_first_fails():
    memory, awaited = store()
    busy: list[bool] = []

    async def act(record: Record) -> str:
        if record.source == "fast":
            await until(lambda: bool(tally.total("busy", "slow")))
            raise Refused("the first one does not know enough")
        busy.append(True)
        return record.source

    fast, slow = Feed(records(1), finite=False), Feed(finite=False)
    plan = pipeline(None, FarSide(), sink=Function(act), sources={"fast": fast, "slow": slow}, terms=PATIENT)
    worker = Worker([plan], store=awaited)
    tally = worker.tallies["stage"]

    def second_shows_it() -> bool:
        if tally.total("won", "fast") and not slow.records:
            slow.records += records(1)
        return bool(busy)

    run_until(worker, second_shows_it)

    assert busy == [True]
    [seen] = memory.get([KEY])
    assert seen.entry is not None
    assert seen.entry.source == "slow"


def test_each_source_tries_once_and_then_the_back_off_counts():
    memory, awaited = store()
    tried: list[str] = []

    def never(record: Record) -> None:
        tried.append(record.source)
        raise Refused("never")

    feeds = Feed(records(1), finite=False), Feed(records(1), finite=False)
    worker = Worker([raced(FarSide(never), *feeds)], store=awaited)
    tally = worker.tallies["stage"]
    run_until(worker, lambda: len(tried) == 2 and tally.total("refused") == 2 and len(feeds[1].cursors) > 20)

    assert sorted(tried) == ["fast", "slow"]
    [seen] = memory.get([KEY])
    assert seen.entry is not None
    assert (seen.entry.state, seen.entry.attempt) == ("free", 2)


def test_when_the_far_side_said_when_to_come_again_nobody_comes_sooner():
    _, awaited = store()
    tried: list[str] = []

    def busy(record: Record) -> None:
        tried.append(record.source)
        raise Later("too many requests", 600)

    fast, slow = Feed(records(1), finite=False), Feed(finite=False)
    worker = Worker([raced(FarSide(busy), fast, slow)], store=awaited)
    tally = worker.tallies["stage"]

    def shown() -> bool:
        if tally.total("released") and not slow.records:
            slow.records += records(1)
        return bool(tally.total("busy", "slow"))

    run_until(worker, shown)
    assert tried == ["fast"]


def test_a_second_is_remembered_only_behind_another_source_and_in_bounded_number():
    seconds, held = RunnersUp(limit=2), entry(state="held")
    tasks = [Task(Key("stage", n), Record(f"r{n}", {}, n, "slow")) for n in range(3)]
    for task in tasks:
        seconds.note(task, held)

    assert [seconds.take(task.key.id) for task in tasks] == [None, *tasks[1:]]
    assert seconds.take(tasks[2].key.id) is None
    for wrong in (None, entry(), entry("slow", state="held"), entry("", state="held")):
        seconds.note(tasks[0], wrong)
        assert seconds.take(tasks[0].key.id) is None


# ----- counting


def test_what_another_source_won_is_counted_as_raced_and_feeds_no_alarm():
    _, awaited = store()
    far = FarSide()
    for name in ("ws", "poll"):
        feed = Feed([*records(*range(20)), *records(3)])
        sources = {"ws": Feed(), "poll": Feed(), name: feed}
        worker = Worker([pipeline(None, far, sources=sources)], store=awaited)
        worker.run()
        tally = worker.tallies["stage"]

    assert set(far.happened.values()) == {1}
    assert (tally.total("raced", "poll"), tally.total("duplicate", "poll")) == (20, 1)
    assert tally.duplicate_rate("poll") < 0.1
    assert tally.race.first["poll"] == 0


def test_the_late_are_counted_by_how_late_they_are_and_the_missing_when_their_time_is_over():
    tally = Tally(("ws", "poll"))
    tally.race = Race(tally.sources, window=60.0)
    for key, source, now in [(b"a", "ws", 0.0), (b"a", "poll", 0.3), (b"b", "ws", 1.0), (b"c", "poll", 2.0)]:
        tally.sighted(key, source, now)
    tally.sighted(b"c", "ws", 42.0)
    tally.sighted(b"c", "ws", 43.0)

    assert tally.race.first == {"ws": 1, "poll": 1}
    tally.won(b"b", "ws")
    assert tally.race.first == {"ws": 2, "poll": 1}

    tally.race.close(60.9)
    assert tally.race.missed == {}
    tally.race.close(61.0)
    assert tally.race.missed == {"poll": 1}
    assert tally.race.first == {"ws": 2, "poll": 1}
    assert tally.late == {"poll": {0.5: 1}, "ws": {120.0: 1}}
    assert (tally.total("late", "ws"), tally.total("late", "poll")) == (1, 1)


def test_what_is_forgotten_for_want_of_room_is_not_missed_and_one_source_alone_races_nobody():
    race = Race(("ws", "poll"), limit=2)
    for key in (b"a", b"b", b"c"):
        race.sight(key, "ws", 0.0)
    assert race.missed == {}
    assert Race(("ws",)).sight(b"a", "ws", 0.0) is None


def test_a_sighting_that_two_sources_shared_is_not_struck_out():
    race = Race(("ws", "poll"))
    race.sight(b"a", "ws", 0.0)
    race.sight(b"a", "poll", 1.0)
    race.sight(b"b", "ws", 1.0)
    for key in (b"a", b"b", b"unknown"):
        race.take_back(key, "ws")
    race.close(1e9)

    assert race.first == {"ws": 1}


def test_a_source_is_connected_since_its_first_page_and_no_longer_once_it_fails():
    _, awaited = store()
    fails = [False]

    class Failing(Feed):
        async def read(self, cursor):
            if fails[0]:
                raise OSError("no route")
            async for page in super().read(cursor):
                yield page

    good, bad = Feed(records(1), finite=False), Failing(records(1), finite=False)
    worker = Worker([raced(FarSide(), good, bad)], store=awaited)
    tally = worker.tallies["stage"]

    async def main() -> None:
        async with anyio.create_task_group() as group:
            group.start_soon(worker.arun)
            await until(lambda: set(tally.connected) == {"fast", "slow"})
            fails[0] = True
            await until(lambda: set(tally.connected) == {"fast"})
            worker.stop()

    anyio.run(main)
    assert "no route" in tally.errors["slow"]
    assert "fast" not in tally.errors
