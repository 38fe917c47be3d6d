"""The demo, which kills real workers: its account adds up, and it fails where something is wrong.

How the account is counted is tested in tests/fast/cli/test_demo.py.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import pytest

from onefold.worlds.demo.frame import Demo
from onefold.worlds.demo.parts import PARTS, made
from tests.checkout import ROOT
from tests.fast.cli.test_help import PAGES, examples

SECONDS = 5


def ran(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "onefold", "demo", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=280, check=False)


def told(ended: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    result: dict[str, Any] = json.loads(ended.stdout)
    return result


@pytest.mark.timeout(300)
def test_an_application_survives_kills_and_the_account_adds_up():
    ended = ran("--json", "--seconds", str(SECONDS), "--app", "whales")

    assert ended.returncode == 0, ended.stderr + ended.stdout
    result = told(ended)
    [whales], [naive] = result["applications"], result["naive"]
    assert result["adds_up"]
    assert result["kills"] > 0
    assert (whales["lost"], whales["twice"]) == (0, 0)
    assert whales["events"] == naive["events"] > 0
    assert naive["lost"] > 0


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_all_applications_survive_kills_between_claim_and_settle_and_naive_workers_do_not():
    ended = ran("--json")

    assert ended.returncode == 0, ended.stderr + ended.stdout
    result = told(ended)
    assert [one["name"] for one in result["applications"]] == list(PARTS)
    assert result["kills_between_claim_and_settle"] >= 10
    assert all((one["lost"], one["twice"]) == (0, 0) for one in result["applications"])
    assert all(one["lost"] > 0 and one["twice"] > 0 for one in result["naive"]), result["naive"]


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_the_example_of_its_help_works():
    [example] = examples(PAGES["onefold demo"])

    ended = ran(*example.split()[2:])

    assert ended.returncode == 0, ended.stderr + ended.stdout
    assert ended.stdout.endswith("The account adds up.\n")


@pytest.mark.timeout(300)
def test_the_account_of_workers_with_a_bug_does_not_add_up(tmp_path, monkeypatch):
    # Workers run in the folder of the demo, where `proof` would not be found.
    paths = [str(ROOT), os.environ.get("PYTHONPATH", "")]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, paths)))
    worker = ("-m", "proof.sim.planted_worker", "key-without-log-index")

    result = Demo(made(("whales",)), tmp_path, 1, print, worker=worker, drain=2.0).run(3.0)

    [whales] = result.accounts
    assert not result.adds_up
    # A worker that cannot start loses everything; this bug loses some.
    assert whales.effects > 0
    assert whales.lost > 0
