"""Histories of workers: none breaks a promise, each is the same again, and planted bugs are found."""

import pytest

from proof.sim import campaign, covering
from proof.sim.__main__ import main
from proof.sim.planted_workers import WORKERS
from proof.sim.working import PROMISES, live
from tests.simulation.living import ABANDONED

HISTORIES = 12
MANY = 600


@ABANDONED
@pytest.mark.parametrize("seed", range(HISTORIES))
def test_a_history_of_workers_breaks_no_promise(seed):
    assert [str(one) for one in live(seed).violations] == []


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_many_histories_of_workers_break_no_promise():
    told = campaign.carry_out(campaign.Order("work", ("1000", str(MANY))))

    assert told["violations"] == 0, told["broken"]


@ABANDONED
def test_a_history_of_workers_is_the_same_whenever_it_is_lived():
    first, second = live(3, tracing=True), live(3, tracing=True)

    assert first.lines == second.lines
    assert first.lines


@pytest.mark.parametrize("bug", WORKERS, ids=lambda bug: bug.name)
def test_a_bug_of_workers_is_found(bug):
    told = campaign.carry_out(campaign.Order("hunt", (bug.name, "0", "200")))

    assert told["found"], told
    assert set(told["found"]["checkers"]) <= {*PROMISES, *covering.PROMISES, "errors"}


@pytest.mark.parametrize("seed", range(60))
def test_a_history_of_coverage_breaks_no_promise(seed):
    assert [str(one) for one in covering.live(seed).violations] == []


@ABANDONED
def test_a_history_of_workers_can_be_seen_again(capsys):
    assert main(["--workers", "--seed", "3"]) == 0

    shown = capsys.readouterr().out
    assert "a life begins" in shown
    assert "./dev sim --workers --seed 3" in shown
