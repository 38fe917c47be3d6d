"""The command line: one closing line, an exit code that means something, and a command to see it again."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from proof.sim import campaign, trace
from proof.sim.__main__ import main
from proof.sim.history import live
from proof.sim.planted import BUGS

ROOT = Path(__file__).resolve().parents[2]
SEED = 2
BUG = "in-doubt-auto-retried"


def test_a_run_ends_with_one_line_that_says_it_all():
    account = campaign.run(start=40, histories=60, jobs=2, say=print, bugs=["done-not-remembered"])

    assert account.is_fine
    line = r"60 histories and 1 of workers, 0 violations, 1/1 planted bugs found, seeds 40\.\.99, \d+\.\d s"
    assert re.fullmatch(line, account.closing())


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


def command(*args: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "proof.sim", *args], cwd=ROOT, capture_output=True, text=True, check=False
    )


def test_a_planted_bug_is_shown_with_the_command_that_replays_it():
    hunt = command("--plant", BUG)
    again = hunt.stdout.strip().splitlines()[-1].removeprefix("see it all: ./dev sim ")
    replay = command(*again.split())

    assert hunt.returncode == 0, hunt.stderr
    assert again.endswith(f"--plant {BUG}")
    assert replay.returncode == 1
    assert re.search(r"^BROKEN  \w+: ", replay.stdout, re.M)


def test_a_failure_tells_the_seed_the_last_lines_the_history_of_the_key_and_the_command():
    world = live(SEED, tracing=True)
    subject = next(one for one in world.subjects if one.writes)
    world.fail("effects", subject, "planted by hand")
    told = trace.failure(world, "some-bug").splitlines()

    assert told[0].startswith("seed 2: effects: ")
    assert len(told[2 : told.index("", 2)]) == trace.LINES
    assert f"everything written about {subject}:" in told
    assert told[-1] == "see it all: ./dev sim --seed 2 --plant some-bug"
