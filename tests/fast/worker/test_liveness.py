"""Which workers live, how a source does and how far behind it is: decided from what workers reported."""

from __future__ import annotations

from typing import Any

import pytest

from onefold.worker.liveness import EVERY, MISSED, behind, dead, is_wrong, not_replaced, status_of
from onefold.worker.report import Told, told

NOW = 1_000.0
LONG_AGO = NOW - MISSED * EVERY - 1


def worker(at: float = NOW, status: str = "running", lag: float | None = 0.0, **more: Any) -> dict[str, Any]:
    return {"at": at, "status": status, "lag": lag, "every": EVERY, "since": at - 50, **more}


def source(**workers: dict[str, Any]) -> dict[str, Any]:
    return {"workers": workers}


DEAD, ALIVE = worker(LONG_AGO), worker()
FAILED = worker(LONG_AGO, "ended", error="OSError: no route")
LATER = worker(NOW, since=NOW - 1)


@pytest.mark.parametrize(
    ("workers", "status"),
    [
        ({"a": ALIVE}, "running"),
        ({"a": ALIVE, "b": worker(NOW - 1)}, "running x2"),
        ({"a": ALIVE, "b": worker(status="failing", error="OSError")}, "failing"),
        ({"a": worker(status="ended")}, "ended"),
        ({"a": worker(LONG_AGO, "ended")}, "ended"),
        ({"a": FAILED}, "failed"),
        ({}, "ended"),
        ({"a": DEAD}, "dead"),
        ({"a": DEAD, "b": worker(LONG_AGO, "ended")}, "dead"),
        ({"a": DEAD, "b": ALIVE}, "running, 1 dead"),
        ({"a": {"at": LONG_AGO, "status": "running"}}, "dead"),
    ],
)
def test_the_status_of_a_source_follows_from_who_lives(workers: dict[str, Any], status: str):
    assert status_of({"workers": workers}, NOW) == status
    assert is_wrong(status) == any(word in status for word in ("dead", "fail"))


def test_a_worker_is_dead_only_after_several_of_its_own_intervals():
    slow = worker(NOW - 100, every=60.0)

    assert status_of(source(a=slow), NOW) == "running"
    assert status_of(source(a=slow), NOW + 81) == "dead"
    assert status_of(source(a=worker(NOW - EVERY * MISSED)), NOW) == "running"


@pytest.mark.parametrize(
    ("later", "stays"),
    [
        (LATER, False),
        (worker(NOW, "ended", lag=None, since=NOW - 1), False),
        (worker(NOW, since=NOW - 1, lag=None), True),  # it has read nothing yet
        (worker(NOW, "failing", since=NOW - 1, error="OSError"), True),
        (ALIVE, True),  # it was there before, and took nobody's place
    ],
)
@pytest.mark.parametrize("lost", [DEAD, FAILED])
def test_a_worker_that_a_later_successful_run_replaced_disappears(
    lost: dict[str, Any], later: dict[str, Any], stays: bool
):
    assert ("lost" in not_replaced({"lost": lost, "later": later}, NOW)) == stays


def test_a_report_strikes_out_the_workers_that_it_replaces():
    says = Told("new", 1, {**LATER, "status": "running"}, {})

    assert set(told(source(old=DEAD), says, {}, {}, NOW)["workers"]) == {"new"}
    assert set(told(source(old=ALIVE), says, {}, {}, NOW)["workers"]) == {"new", "old"}


def test_how_far_behind_a_source_is_grows_while_nobody_reads_it():
    assert behind(source(a=worker(NOW, lag=3.0)), NOW) == 3.0
    assert behind(source(a=worker(NOW - 500, lag=3.0)), NOW) == 503.0
    assert behind(source(a=worker(NOW - 500, "ended", lag=0.0)), NOW) == 500.0
    assert behind(source(a=worker(NOW - 500, "ended", lag=0.0, finite=True)), NOW) == 0.0
    assert behind(source(a=worker(NOW - 500, lag=0.0), b=worker(NOW, lag=2.0)), NOW) == 2.0


def test_a_source_that_nobody_read_is_not_said_to_be_up_to_date():
    assert behind(source(a=worker(lag=None)), NOW) is None
    assert behind(source(), NOW) is None


def test_the_dead_are_named():
    assert set(dead(source(a=DEAD, b=ALIVE, c=FAILED), NOW)) == {"a"}
