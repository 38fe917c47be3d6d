"""`onefold run` and signals, and the port where it answers: only a real process has either.

What it does with records is tested in tests/fast/cli/test_run.py.
"""

from __future__ import annotations

import json
import re
import signal
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from onefold.cli.codes import Code
from tests.fast.cli.shop import begun, open_shop, outside
from tests.fast.cli.stage import Cli
from tests.processes.cli.stage import Working
from tests.waiting import PATIENCE

pytestmark = pytest.mark.store("sqlite")

RECORDS = [{"id": f"r{number}", "at": number} for number in range(10)]


@pytest.fixture
def shop(here: Path) -> Path:
    open_shop(here, *RECORDS)
    return here


@pytest.fixture
def working(shop: Path) -> Iterator[list[Working]]:
    started: list[Working] = []
    yield started
    for one in started:
        one.kill()


def start(working: list[Working], folder: Path, *words: str) -> Working:
    working.append(Working(folder, *words))
    return working[-1]


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, Code.FINE), (signal.SIGINT, Code.INTERRUPTED)])
def test_a_signal_lets_running_effects_end_and_gives_the_rest_back(
    shop: Path, working: list[Working], cli: Cli, number: signal.Signals, code: Code
):
    worker = start(working, shop, "prices:waits", "--grace", "40s")
    worker.until(lambda: begun(shop) == 2)
    worker.signal(number)
    worker.until(lambda: "stopping within 40 s" in worker.log)
    (shop / "go").touch()
    ended, _ = worker.end()

    assert ended == code
    assert sum(outside(shop).values()) == 2

    assert cli("run", "prices:waits", "--once").exit_code == Code.FINE
    assert outside(shop) == {one["id"]: 1 for one in RECORDS}


def test_a_one_shot_effect_that_outlasts_the_grace_is_in_doubt_and_the_exit_code_says_so(
    shop: Path, working: list[Working], cli: Cli
):
    worker = start(working, shop, "prices:waits", "--grace", "100ms")
    worker.until(lambda: begun(shop) == 2)
    worker.signal(signal.SIGTERM)
    ended, _ = worker.end()

    assert ended == Code.PERSON
    assert "still at work after 0 s of grace" in worker.log
    assert cli.json("status")["scopes"]["prices"]["why"] == {"in-doubt": 2}
    assert outside(shop) == {}


def test_a_second_signal_cuts_the_grace_short(shop: Path, working: list[Working]):
    worker = start(working, shop, "prices:waits_again", "--grace", "1h")
    worker.until(lambda: begun(shop) == 2)
    worker.signal(signal.SIGINT)
    worker.until(lambda: "stopping within 3600 s" in worker.log)
    worker.signal(signal.SIGINT)
    ended, _ = worker.end()

    assert ended == Code.INTERRUPTED
    assert outside(shop) == {}


def test_a_worker_prints_where_it_answers_and_answers_there(shop: Path, working: list[Working], cli: Cli):
    worker = start(working, shop, "prices:live", "--listen", "0", "--log", "json")
    worker.until(lambda: '"url"' in worker.log)
    [url] = re.findall(r'"url": "(http://127\.0\.0\.1:\d+)"', worker.log)

    def metrics() -> str:
        with urllib.request.urlopen(f"{url}/metrics", timeout=PATIENCE) as answer:
            return str(answer.read().decode())

    worker.until(lambda: 'onefold_effects_done_total{pipeline="prices",source="feed"} 10.0' in metrics())
    worker.signal(signal.SIGTERM)

    assert worker.end()[0] == Code.FINE
    assert outside(shop) == {one["id"]: 1 for one in RECORDS}
    assert all(json.loads(line)["level"] for line in worker.log.splitlines())
    assert cli.lines("sources")[0]["counts"]["done"] == 10
