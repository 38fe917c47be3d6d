"""Candles in the demo: its account adds up, and that of the downloader in the seed does not."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_candles_survives_kills_and_the_downloader_of_the_seed_loses_and_doubles_bars():
    command = [sys.executable, "-m", "onefold", "demo", "--json", "--seconds", "12", "--app", "candles"]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=280, check=False)

    assert ended.returncode == 0, ended.stderr + ended.stdout
    result = json.loads(ended.stdout)
    [ours], [naive] = result["applications"], result["naive"]
    assert (ours["lost"], ours["twice"], ours["parked"]) == (0, 0, {})
    assert ours["effects"] == ours["events"] > 1000
    assert naive["lost"] > 0
    assert naive["twice"] > 0
