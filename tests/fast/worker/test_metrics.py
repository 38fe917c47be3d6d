"""Every number that an operator is promised is exposed under its name, and is the right one of them."""

from __future__ import annotations

from collections import Counter

import pytest

from onefold.worker import Worker
from onefold.worker.metrics import COUNTERS, NEWLY_PARKED, exposition
from onefold.worker.observing import Observation, Waiting
from tests.fast.worker.stage import FarSide, Feed, pipeline

LABELS = 'pipeline="stage",source="feed"'


@pytest.fixture
def observation() -> Observation:
    """An observation in which no two numbers are the same, so that none can stand in for another."""
    worker = Worker([pipeline(None, FarSide(), sources={"feed": Feed(), "other": Feed()})])
    tally = worker.tallies["stage"]
    for number, count in enumerate([*COUNTERS, *NEWLY_PARKED], 101):
        for _ in range(number):
            tally.add(count, "feed")
    tally.race.first["feed"], tally.race.missed["feed"] = 201, 202
    tally.late["feed"].update({0.5: 3, 120.0: 4})
    observation = Observation(worker)
    whys = Counter({"in-doubt": 301, "failed": 302, "by-hand": 303, "beyond-memory": 304})
    observation.waiting["stage"] = Waiting(Counter(free=305, held=306, parked=307), whys)
    observation.gaps["stage"] = 308
    observation.open_tiles["stage", "EURUSD"] = 309
    return observation


def test_every_count_is_exposed_under_a_name_of_its_own(observation: Observation):
    told = exposition(observation).decode()

    for number, (name, what) in enumerate(COUNTERS.values(), 101):
        assert f"onefold_{name}_total{{{LABELS}}} {number}.0" in told, name
        assert f"# HELP onefold_{name}_total {what}" in told
    for number, why in enumerate(NEWLY_PARKED.values(), 101 + len(COUNTERS)):
        assert f'onefold_parked_total{{{LABELS},why="{why}"}} {number}.0' in told


@pytest.mark.parametrize(
    "line",
    [
        f"onefold_race_first_total{{{LABELS}}} 201.0",
        f"onefold_race_missed_total{{{LABELS}}} 202.0",
        'onefold_race_late_seconds_bucket{le="0.5",pipeline="stage",source="feed"} 3.0',
        'onefold_race_late_seconds_bucket{le="+Inf",pipeline="stage",source="feed"} 7.0',
        'onefold_parked_entries{pipeline="stage",why="in-doubt"} 301.0',
        'onefold_parked_entries{pipeline="stage",why="failed"} 302.0',
        'onefold_parked_entries{pipeline="stage",why="by-hand"} 303.0',
        'onefold_parked_entries{pipeline="stage",why="beyond-memory"} 304.0',
        'onefold_open_entries{pipeline="stage",state="free"} 305.0',
        'onefold_open_entries{pipeline="stage",state="held"} 306.0',
        'onefold_open_entries{pipeline="stage",state="parked"} 307.0',
        'onefold_unread_stretches{pipeline="stage"} 308.0',
        'onefold_coverage_gaps{pipeline="stage",series="EURUSD"} 309.0',
    ],
)
def test_what_waits_and_who_was_first_is_exposed(observation: Observation, line: str):
    assert line in exposition(observation).decode()


def test_the_names_that_alarms_and_dashboards_are_built_on_stay(observation: Observation):
    promised = {
        "claims_won_total", "duplicates_total", "duplicate_rate", "claims_busy_total", "take_overs_total",
        "claims_lost_total", "parked_total", "parked_entries", "cursor_lag_seconds", "coverage_gaps",
        "race_first_total", "race_late_seconds", "queue_depth", "alarm",
    }  # fmt: skip
    told = exposition(observation).decode()

    assert {name for name in promised if f"# TYPE onefold_{name} " not in told} == set()
