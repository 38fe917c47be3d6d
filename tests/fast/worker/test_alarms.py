"""An alarm is raised once when a limit is passed, and is over once; re-reads and races never raise it."""

from __future__ import annotations

import logging
from typing import Any, get_args

import anyio
import pytest

from onefold.core.errors import Misconfigured
from onefold.core.record import Record
from onefold.drive import AsyncPorts
from onefold.worker import Worker
from onefold.worker.alarms import FEWEST, WINDOW, Alarms, Change, Limits, Measured, sentence
from onefold.worker.metrics import COUNTERS, NEWLY_PARKED
from onefold.worker.observing import Observation, measured
from onefold.worker.tally import Count, Tally
from tests.fast.worker.stage import FarSide, Feed, pipeline, records, store


def at(new: int = 0, duplicates: int = 0, lag: float = 0.0) -> Measured:
    return Measured(new, duplicates, lag)


def test_a_share_of_duplicates_above_the_limit_is_told_once_and_its_end_once():
    alarms = Alarms(Limits(0.5, None))
    told = [
        alarms.look(0.0, at(100, 10)),
        alarms.look(10.0, at(200, 110)),
        alarms.look(20.0, at(300, 210)),
        alarms.look(20.0 + WINDOW, at(400, 215)),
        alarms.look(30.0 + WINDOW, at(500, 220)),
    ]

    assert [[change.raised for change in one] for one in told] == [[], [True], [], [False], []]


def test_a_few_records_raise_no_alarm():
    assert Alarms(Limits(0.1, None)).look(0.0, at(FEWEST - 1, FEWEST - 1)) == []


def test_a_source_that_went_quiet_does_not_repeat_itself_any_more():
    alarms = Alarms(Limits(0.5, None))
    alarms.look(0.0, at(100, 90))

    [change] = [*alarms.look(WINDOW, at(100, 90)), *alarms.look(2 * WINDOW, at(100, 90))]

    assert not change.raised
    assert alarms.raised == set()


def test_a_source_that_falls_behind_is_told_once_and_that_it_caught_up_once():
    alarms = Alarms(Limits(None, 60.0))
    told = [alarms.look(float(n), at(lag=lag)) for n, lag in enumerate([0.0, 61.0, 90.0, 60.0, 0.0])]

    assert told == [[], [Change("lag", True, 61.0, 60.0)], [], [Change("lag", False, 60.0, 60.0)], []]


def test_without_limits_there_is_no_alarm():
    assert Alarms(Limits(None, None)).look(0.0, at(1000, 1000, 1e9)) == []


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (Change("duplicates", True, 0.61, 0.5), "repeats itself: 61% of what it showed lately"),
        (Change("duplicates", False, 0.1, 0.5), "no more than it may: 10%"),
        (Change("lag", True, 61.0, 60.0), "fell behind: 61 s (limit 60 s)"),
        (Change("lag", False, 3.0, 60.0), "is not far behind any more: 3 s"),
    ],
)
def test_an_alarm_is_a_sentence(change: Change, words: str):
    assert sentence("prices", "feed", change).startswith("prices: source feed ")
    assert words in sentence("prices", "feed", change)


@pytest.mark.parametrize(
    ("limit", "words"),
    [
        ({"duplicate_alarm": 50}, "duplicate_alarm of pipeline stage is 50: write a share"),
        ({"duplicate_alarm": "half"}, "write a share"),
        ({"lag_alarm": "soon"}, "lag_alarm of pipeline stage is 'soon'"),
    ],
)
def test_a_limit_that_cannot_be_is_refused_when_the_pipeline_is_made(limit: dict[str, Any], words: str):
    with pytest.raises(Misconfigured, match=words):
        pipeline(Feed(), FarSide(), **limit)


# ----- what feeds it


def test_what_is_read_again_on_purpose_is_neither_new_nor_a_duplicate():
    tally = Tally(["feed"])
    tally.read_to["feed"] = 10
    tally.add("seen", "feed", 3)
    for place in (9, 10, 11):
        tally.repeated(Record("r", None, place, "feed"))

    assert measured(tally, "feed", 0.0) == at(1, 1)


def test_what_another_source_showed_first_is_a_race_and_no_duplicate():
    tally = Tally(["fast", "slow"])
    for number in range(10):
        key = bytes([number])
        tally.sighted(key, "fast", 1.0)
        tally.sighted(key, "slow", 2.0)
        tally.add("seen", "slow")
        tally.done_before(key, Record("r", None, number, "slow"), by="fast")

    assert measured(tally, "slow", 0.0) == at(10, 0)


def test_a_metric_is_made_of_everything_that_is_counted():
    # Lateness is a histogram, and what was parked is told by why.
    assert {*COUNTERS, *NEWLY_PARKED, "late"} == set(get_args(Count))


def look(worker: Worker) -> Observation:
    """Look at a worker that ran, as it would look at itself."""
    observation = Observation(worker)

    async def once() -> None:
        await observation.look(AsyncPorts(store()[1]))

    anyio.run(once)
    return observation


def test_a_source_that_repeats_itself_is_one_line_at_error_level(caplog: pytest.LogCaptureFixture):
    feed = Feed([*records(*range(50))] * 3)
    worker = Worker([pipeline(feed, FarSide(), duplicate_alarm=0.5)], store=store()[1])
    worker.run()
    caplog.clear()

    [(_, alarms)] = look(worker).alarms

    [line] = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert "stage: source feed repeats itself: 67%" in line.getMessage()
    assert (line.pipeline, line.source, line.alarm) == ("stage", "feed", "duplicates")  # type: ignore[attr-defined]
    assert alarms.raised == {"duplicates"}


def test_reading_everything_again_after_a_restart_raises_no_alarm(caplog: pytest.LogCaptureFixture):
    _, awaited = store()
    feed = Feed(records(*range(100)))
    feed.lag = 1000.0
    for _ in range(2):
        worker = Worker([pipeline(feed, FarSide(), duplicate_alarm=0.1)], store=awaited)
        worker.run()

    [(_, alarms)] = look(worker).alarms

    assert worker.tallies["stage"].total("reread") == 100
    assert alarms.raised == set()
    assert [record for record in caplog.records if record.levelno == logging.ERROR] == []
