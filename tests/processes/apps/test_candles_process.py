"""Candles as a process of its own, which SIGKILL ends while it stores the bars of a tile.

Only a real process shows that nothing of it is left, in the ledger or in the table of bars, that another
worker would wait for. Deaths at other moments are proved in tests/fast/apps/test_candles.py.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from onefold.worlds.bars import KEY
from onefold.worlds.mischief import Mischief
from tests.fast.apps.candles import (
    TICKER,
    WEEKDAYS,
    all_in,
    calmly,
    settings,
    stored,
    truth,
    worker,
    world,
)
from tests.fast.worker.stage import run_until
from tests.waiting import wait_for

CONFIG = """
store = "{store}"
[apps.candles]
api_key = "env:BARS_KEY"
pairs = ["EUR/USD"]
since = "2025-10-06"
until = "2025-10-09"
url = "{url}"
bars = "{bars}"
pace = 0.0
lease = "1s"
"""


@pytest.fixture(
    params=[
        pytest.param("sqlite", marks=pytest.mark.store("sqlite")),
        pytest.param("postgresql", marks=pytest.mark.store("postgresql")),
    ]
)
def places(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, str]:
    """Return a ledger and a database for bars, of one kind."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'onefold.db'}", f"sqlite:///{tmp_path / 'bars.db'}"
    url = str(request.getfixturevalue("postgresql_url"))
    return url, url


def start(folder: Path) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "onefold", "run", "candles"]
    with (folder / "worker.log").open("ab") as log:
        return subprocess.Popen(
            command, cwd=folder, env={**os.environ, "BARS_KEY": KEY}, stdout=log, stderr=log
        )


@pytest.mark.parametrize("kills", [1, pytest.param(6, marks=pytest.mark.slow)])
def test_a_process_killed_in_the_middle_of_a_tile_loses_nothing_and_stores_nothing_twice(
    places, tmp_path, kills
):
    store, bars = places
    with world(page=200, mischief=Mischief(1, {"stall": 0.3}, 0.1)) as api:
        api.draw(TICKER, WEEKDAYS)
        (tmp_path / "onefold.toml").write_text(CONFIG.format(store=store, bars=bars, url=api.url))
        for number in range(3, 3 + 2 * kills, 2):
            one = start(tmp_path)
            try:
                wait_for(
                    lambda: len(api.journal.of("page")) >= number,  # noqa: B023
                    story=lambda: (tmp_path / "worker.log").read_text()[-3000:],
                )
            finally:
                one.kill()
                one.wait()
        code = run_until(worker(settings(api, tmp_path, bars=bars), store), calmly(lambda: all_in(store)))

    assert code == 0
    assert stored(bars) == truth(api, WEEKDAYS)
