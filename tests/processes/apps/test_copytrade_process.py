"""Copytrade as a process of its own, which SIGKILL ends while orders are under way.

Only a real process shows that nothing of it is left in the store that another worker would wait for. Deaths
without a process are in tests/fast/apps/test_copytrade_orders.py, wrong settings in test_wrong_settings.py.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from onefold.worlds.leaders import LEADERS, Kind
from onefold.worlds.mischief import Mischief
from tests.fast.apps.copying import Stage, run, stage
from tests.waiting import wait_for

KINDS: tuple[Kind, ...] = ("trade", "trade", "mint", "redeem")


def section(on: Stage) -> str:
    wallets = ", ".join(f'"{one}"' for one in LEADERS)
    return (
        'store = "sqlite:///onefold.db"\n'
        f'[apps.copytrade]\nleaders = [{wallets}]\norders_url = "{on.orders.url}"\n'
        'rules = { "*" = { max_order = 1e9, min_order = 0.0, max_orders = 1000, max_loss = 1e9, '
        "only_held = false } }\n"
        f'streams = ["{on.nodes[0].stream.url}"]\nnodes = ["{on.nodes[0].url}"]\nprivate = true\n'
        f'data_url = "{on.data.url}"\ngamma_url = "{on.data.url}"\nevery = "200ms"\nsettle = "10ms"\n'
        'lease = "1s"\nbackoff = ["100ms", "1s"]\nattempts = 50\n'
    )


def kill_while_it_orders(on: Stage, folder: Path) -> None:
    """Run the worker until an order is under way, and kill it."""
    on.orders.requests.clear()
    with (folder / "log").open("ab") as log:
        command = [sys.executable, "-m", "onefold", "run", "copytrade"]
        running = subprocess.Popen(command, cwd=folder, stdout=log, stderr=log)
    try:
        wait_for(lambda: bool(on.orders.requests), story=lambda: (folder / "log").read_text()[-3000:])
    finally:
        running.kill()
        running.wait()


@pytest.mark.store("sqlite")
@pytest.mark.parametrize("kills", [1, pytest.param(8, marks=pytest.mark.slow)])
def test_a_worker_that_is_killed_while_it_orders_copies_every_trade_once(tmp_path, kills):
    with stage(orders=Mischief(1, {"stall": 0.9, "cut-after": 0.1}, 0.4)) as on:
        (tmp_path / "onefold.toml").write_text(section(on))
        on.leaders.act(*on.leaders.draw(7, 10 * kills, KINDS))
        for _ in range(kills):
            kill_while_it_orders(on, tmp_path)
        on.orders.mischief.stop()
        run(on, f"sqlite:///{tmp_path / 'onefold.db'}")

    assert on.copied() == on.wanted()
