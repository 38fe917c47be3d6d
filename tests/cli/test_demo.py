"""The demo: its account adds up through kills and fails where something is wrong; a naive worker fails it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from onefold.cli.codes import Code
from onefold.cli.demo import report
from onefold.worlds.demo.account import account, kept_in
from onefold.worlds.demo.frame import Demo, Result, table
from onefold.worlds.demo.parts import PARTS, made

ROOT = Path(__file__).resolve().parents[2]
SECONDS = 8


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


@pytest.mark.timeout(300)
def test_the_account_of_workers_with_a_bug_does_not_add_up(tmp_path, monkeypatch):
    # Workers run in the folder of the demo, where `proof` would not be found.
    paths = [str(ROOT), os.environ.get("PYTHONPATH", "")]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, paths)))
    worker = ("-m", "proof.sim.planted_worker", "key-without-log-index")

    result = Demo(made(("whales",)), tmp_path, 1, print, worker=worker, drain=5.0).run(SECONDS)

    [whales] = result.accounts
    assert not result.adds_up
    # A worker that cannot start loses everything; this bug loses some.
    assert whales.effects > 0
    assert whales.lost > 0


@pytest.mark.parametrize(
    ("happened", "code", "sentence"),
    [(1, Code.FINE, "The account adds up."), (2, Code.FAILED, "THE ACCOUNT DOES NOT ADD UP.")],
)
def test_the_command_says_whether_the_account_adds_up_and_exits_accordingly(happened, code, sentence, capsys):
    found = account("app", Counter(a=1), Counter(a=happened), 0, {})

    assert report(Result(1, 0.0, 0.0, 0, 0, [found], []), json=False) == code
    assert capsys.readouterr().out.endswith(f"{sentence}\n")


def test_an_application_that_is_not_there_is_named():
    ended = ran("--app", "minnows")

    assert ended.returncode == 2
    assert "there is no minnows in the demo" in ended.stderr


@pytest.mark.parametrize(
    ("expected", "happened", "parked", "wanted"),
    [
        ({"a": 1, "b": 2}, {"a": 1, "b": 2}, {}, (3, 0, 0, True)),
        ({"a": 1, "b": 2}, {"a": 1, "b": 1}, {}, (2, 1, 0, False)),
        ({"a": 1}, {"a": 2}, {}, (1, 0, 1, False)),
        ({"a": 1}, {"a": 1, "x": 1}, {}, (1, 0, 1, False)),
        ({"a": 1, "b": 1}, {"a": 1}, {"b": "in-doubt"}, (1, 0, 0, True)),
    ],
)
def test_what_is_neither_done_nor_parked_is_lost_and_what_is_too_much_happened_twice(
    expected, happened, parked, wanted
):
    found = account("app", Counter(expected), Counter(happened), 4, parked)

    assert (found.effects, found.lost, found.twice, found.adds_up) == wanted
    assert found.events == sum(expected.values()) + 4


def test_a_gap_that_was_reported_is_not_lost():
    found = account("app", Counter(a=2), Counter(), 0, {}, Counter(a=1))

    assert (found.gaps, found.lost, found.adds_up) == (2, 0, True)


def test_the_account_is_a_table_with_a_line_for_each_and_one_for_the_naive():
    ours = account("app", Counter(a=1), Counter(a=1), 0, {})
    theirs = account("app", Counter(a=1), Counter(a=2), 0, {})
    head, line, naive = table(Result(1, 0.0, 0.0, 0, 0, [ours], [theirs]))

    assert head.split() == ["events", "effects", "filtered", "parked", "gaps", "lost", "twice"]
    assert line.split() == ["app", "1", "1", "0", "0", "0", "0", "0"]
    assert naive.split() == ["naive", "app", "1", "1", "0", "0", "0", "0", "1"]


@pytest.mark.parametrize("body", [None, '{"for":"ann"}', {"for": "ann"}, "[]"])
def test_what_an_entry_keeps_is_read_from_the_list(body):
    assert kept_in({"body": body}) == ({"for": "ann"} if body and "ann" in str(body) else {})
