"""Histories of workers: none breaks a promise, each is the same again, and planted bugs are found."""

import pytest

from proof.sim import covering
from proof.sim.__main__ import main
from proof.sim.planted_workers import WORKERS
from proof.sim.working import PROMISES, live
from tests.fast.simulation.living import ABANDONED, seen

HISTORIES = 12


@ABANDONED
@pytest.mark.parametrize("seed", range(HISTORIES))
def test_a_history_of_workers_breaks_no_promise(seed):
    assert [str(one) for one in live(seed).violations] == []


@ABANDONED
@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("start", range(1000, 1600, 100))
def test_many_histories_of_workers_break_no_promise(start):
    broken = {seed: str(one) for seed in range(start, start + 100) for one in live(seed).violations}

    assert broken == {}


@ABANDONED
def test_a_history_of_workers_is_the_same_whenever_it_is_lived():
    first, second = live(3, tracing=True), live(3, tracing=True)

    assert first.lines == second.lines
    assert first.lines


@ABANDONED
@pytest.mark.parametrize("bug", WORKERS, ids=lambda bug: bug.name)
def test_a_bug_of_workers_is_found(bug):
    checkers = seen(bug, range(200))

    assert checkers
    assert checkers <= {*PROMISES, *covering.PROMISES, "errors"}


@pytest.mark.parametrize("seed", range(60))
def test_a_history_of_coverage_breaks_no_promise(seed):
    assert [str(one) for one in covering.live(seed).violations] == []


@ABANDONED
def test_a_history_of_workers_can_be_seen_again(capsys):
    assert main(["--workers", "--seed", "3"]) == 0

    shown = capsys.readouterr().out
    assert "a life begins" in shown
    assert "./dev sim --workers --seed 3" in shown
