"""Copytrade as a process of its own, from a folder with one file: killed, started again, and told off."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from onefold.worlds.leaders import LEADERS, Kind
from onefold.worlds.mischief import Mischief
from tests.apps.copying import Stage, stage
from tests.waiting import wait_for

KINDS: tuple[Kind, ...] = ("trade", "trade", "mint", "redeem")


def section(on: Stage) -> str:
    wallets = ", ".join(f'"{one}"' for one in LEADERS)
    return (
        'store = "sqlite:///onefold.db"\n'
        f'[apps.copytrade]\nleaders = [{wallets}]\norders_url = "{on.orders.url}"\n'
        'rules = { "*" = { max_order = 1e9, min_order = 0.0, max_orders = 1000, only_held = false } }\n'
        f'streams = ["{on.nodes[0].stream.url}"]\nnodes = ["{on.nodes[0].url}"]\nprivate = true\n'
        f'data_url = "{on.data.url}"\ngamma_url = "{on.data.url}"\nevery = "200ms"\nsettle = "10ms"\n'
        'lease = "2s"\nbackoff = ["100ms", "1s"]\nattempts = 50\n'
    )


def started(folder: Path) -> subprocess.Popen[bytes]:
    with (folder / "log").open("ab") as log:
        command = [sys.executable, "-m", "onefold", "run", "copytrade"]
        return subprocess.Popen(command, cwd=folder, stdout=log, stderr=log)


def wait(condition: Callable[[], bool], folder: Path) -> None:
    wait_for(condition, story=lambda: (folder / "log").read_text()[-3000:])


def kill_on_the_way(on: Stage, folder: Path, kills: int) -> None:
    """Kill the worker as often as that, each time while orders are under way."""
    for _ in range(kills):
        on.orders.requests.clear()
        running = started(folder)
        try:
            wait(lambda: bool(on.orders.requests), folder)
        finally:
            running.kill()
            running.wait()


@pytest.mark.store("sqlite")
@pytest.mark.parametrize("kills", [2, pytest.param(8, marks=pytest.mark.slow)])
def test_a_worker_that_is_killed_while_it_orders_copies_every_trade_once(tmp_path, kills):
    with stage(orders=Mischief(1, {"stall": 0.9, "cut-after": 0.1}, 0.4)) as on:
        (tmp_path / "onefold.toml").write_text(section(on))
        for deed in on.leaders.draw(7, 10 * kills, KINDS):
            on.leaders.act(deed)
        kill_on_the_way(on, tmp_path, kills)
        on.orders.mischief.stop()
        last = started(tmp_path)
        try:
            wait(on.is_through, tmp_path)
        finally:
            last.terminate()
            last.wait()

    assert on.copied() == on.wanted()


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "leaders"),
        (f'leaders = ["{LEADERS[0]}"]\nrules = {{ "*" = {{ tolerance = 2.0 }} }}', "tolerance"),
    ],
)
def test_a_wrong_or_missing_setting_is_named_and_nothing_runs(tmp_path, text, says):
    (tmp_path / "onefold.toml").write_text(f"[apps.copytrade]\n{text}\n")

    ended = subprocess.run(
        [sys.executable, "-m", "onefold", "run", "copytrade"], cwd=tmp_path, capture_output=True, text=True
    )

    assert ended.returncode in (1, 2)
    assert says in ended.stderr
    assert "Traceback" not in ended.stderr
