"""The command of the simulation: an account of a run, replays, and how a failure is told.

What starts processes is tested in tests/processes/simulation.
"""

import re

import pytest

from proof.sim import campaign, trace
from proof.sim.__main__ import main
from proof.sim.history import live
from proof.sim.planted import BUGS

SEED = 2


def test_a_run_with_a_violation_is_not_fine():
    account = campaign.Account(0, 10)
    account.add({"histories": 10, "violations": 1, "broken": [{"seed": 3}]})

    assert not account.is_fine
    assert account.closing().startswith("10 histories and 0 of workers, 1 violations, 0/0 planted bugs found")


def test_a_run_that_misses_a_bug_is_not_fine():
    account = campaign.Account(0, 0)
    account.add({"bug": "some-bug", "found": None})

    assert not account.is_fine
    assert account.missed == ["some-bug: not found in 10000 histories"]


def test_a_run_is_split_into_parts_that_cover_every_seed_once():
    parts = [order.args for order in campaign.orders(10, 5200, ["a"])]

    assert parts == [("10", "2500"), ("2510", "2500"), ("5010", "200"), ("10", "104"), ("a", "0", "10000")]


def test_the_list_names_every_bug(capsys):
    assert main(["--list"]) == 0

    shown = capsys.readouterr().out
    assert all(bug.name in shown and bug.sentence in shown for bug in BUGS)


def test_a_replay_shows_the_trace_the_verdicts_and_the_same_digest_twice(capsys):
    assert main(["--seed", "2"]) == 0

    shown = capsys.readouterr().out
    assert "asks swap" in shown
    assert re.search(r"^kept    lost:", shown, re.M)
    assert re.search(r"digest [0-9a-f]{16}, the same twice\n$", shown)


def test_a_bug_that_nobody_knows_is_refused(capsys):
    with pytest.raises(SystemExit, match="no-such-bug"):
        main(["--seed", "7", "--plant", "no-such-bug"])


def test_a_failure_tells_the_seed_the_last_lines_the_history_of_the_key_and_the_command():
    world = live(SEED, tracing=True)
    subject = next(one for one in world.subjects if one.writes)
    world.fail("effects", subject, "planted by hand")
    told = trace.failure(world, "some-bug").splitlines()

    assert told[0].startswith("seed 2: effects: ")
    assert len(told[2 : told.index("", 2)]) == trace.LINES
    assert f"everything written about {subject}:" in told
    assert told[-1] == "see it all: ./dev sim --seed 2 --plant some-bug"
