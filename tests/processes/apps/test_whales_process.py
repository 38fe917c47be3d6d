"""Whales as a process of its own, which SIGKILL ends between a send and its mark.

Only a real process shows that nothing of it is left in the store that another worker would wait for. What
holds at every point of the protocol is proved in tests/fast/apps/test_whales_crashes.py.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from onefold.worlds.chat import TOKEN, ChatWorld
from onefold.worlds.polymarket import Polymarket
from tests.checkout import ROOT
from tests.fast.apps.test_whales import ALL, expected, settings, transactions, worker
from tests.fast.apps.test_whales_crashes import FILLS, in_doubt, is_through
from tests.fast.worker.stage import run_until
from tests.waiting import PATIENCE

CONFIG = """
[apps.whales]
chat_token = "env:WHALES_TOKEN"
subscribers = [{{ chat = "all" }}]
every = "100ms"
since = "forever"
page = 20
lease = "1s"
data_url = "{data}"
gamma_url = "{data}"
chat_url = "{chat}"
chat_pace = [0.0, 0.0, 0.0]
"""


@pytest.fixture(
    params=[
        pytest.param("sqlite", marks=pytest.mark.store("sqlite")),
        *(
            pytest.param(name, marks=[pytest.mark.slow, pytest.mark.store(name)])
            for name in ("postgresql", "mongodb")
        ),
    ]
)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'onefold.db'}"
    return str(request.getfixturevalue(f"{request.param}_url"))


def die(folder: Path, store: str) -> int:
    """Run whales until it kills itself."""
    environment = {**os.environ, "WHALES_TOKEN": TOKEN, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "tests.processes.apps.dying", store]
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, timeout=PATIENCE
    ).returncode


def test_a_process_killed_between_send_and_mark_leaves_a_doubt_and_no_second_message(store, tmp_path):
    with Polymarket() as data, ChatWorld() as chat:
        (tmp_path / "onefold.toml").write_text(CONFIG.format(data=data.url, chat=chat.url))
        data.happen(*data.draw(4, FILLS, int(time.time()) - 30))
        assert die(tmp_path, store) == -9
        before = transactions(chat).total()
        data.happen(*data.draw(5, 1, int(time.time())))
        run_until(worker(settings(data, chat, ALL), store), lambda: is_through(data, chat, store))

    assert before > 0
    assert transactions(chat) <= expected(data, ALL), "nothing was told twice"
    assert in_doubt(store).total() >= 1, "nobody wrote down that it was sent"
