"""A whole run of the simulation, spread over processes, and the command that replays a planted bug."""

import re
import subprocess
import sys

from proof.sim import campaign
from tests.checkout import ROOT

BUG = "in-doubt-auto-retried"


def test_a_run_ends_with_one_line_that_says_it_all():
    account = campaign.run(start=40, histories=60, jobs=2, say=print, bugs=["done-not-remembered"])

    assert account.is_fine
    line = r"60 histories and 1 of workers, 0 violations, 1/1 planted bugs found, seeds 40\.\.99, \d+\.\d s"
    assert re.fullmatch(line, account.closing())


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
