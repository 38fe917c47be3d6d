"""A run whose processes stand still at random says how often, and leaves none of them so."""

import sys
from pathlib import Path

import pytest

from tests.stalls import Process, may_stand_still

ROOT = Path(__file__).resolve().parents[2]

CONFTEST = """
from tests.stalls import Stalls

def pytest_configure(config):
    config.pluginmanager.register(Stalls(0.05, every=0.01))
"""

SUITE = """
import subprocess, sys
from tests.stalls import processes
from tests.waiting import wait_for

def test_it():
    child = subprocess.Popen([sys.executable, "-c", "print(input())"], stdin=-1, stdout=-1, text=True)

    def state():
        return [one.state for one in processes() if one.pid == child.pid]

    wait_for(lambda: state() == ["T"])
    assert child.communicate("it goes on")[0] == "it goes on\\n"
"""


@pytest.mark.skipif(sys.platform != "linux", reason="processes are listed as Linux does")
def test_a_process_of_a_run_stands_still_and_goes_on(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    pytester.makeini(f"[pytest]\npythonpath = {ROOT}\naddopts = -p no:cacheprovider")
    pytester.makeconftest(CONFTEST)
    pytester.makepyfile(SUITE)

    result = pytester.runpytest_subprocess()

    result.assert_outcomes(passed=1)
    result.stdout.re_match_lines([r"[1-9]\d* times a process stood still, up to 0\.05 s"])


def test_only_what_is_ours_and_runs_may_stand_still():
    found = [
        Process(1, 0, "init", "S"),
        Process(10, 1, "python", "S"),
        Process(11, 10, "python3", "R"),
        Process(12, 11, "onefold", "S"),
        Process(13, 11, "postgres", "S"),
        Process(14, 11, "python", "T"),
        Process(15, 13, "python", "S"),
        Process(16, 11, "python", "S", ("python", "-m", "tests.torture", "zombie")),
        Process(20, 1, "python", "R"),
    ]

    assert may_stand_still(found, 10) == [11, 12, 15]
