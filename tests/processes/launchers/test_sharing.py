"""Tests that share a server run in one process, so that a run starts it once."""

import pytest

from tests.checkout import ROOT

SUITE = """
import os
from pathlib import Path
import pytest

@pytest.mark.store("redis")
@pytest.mark.parametrize("number", range(6))
def test_by_its_mark(number): note()

@pytest.mark.parametrize("number", range(6))
def test_by_its_fixture(number, redis_server): note()

@pytest.fixture(scope="session")
def redis_server(): pass

def note():
    Path(f"in.{os.getpid()}").touch()
"""


def test_tests_of_one_server_stay_in_one_process(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    pytester.makeini(f"[pytest]\npythonpath = {ROOT}\nmarkers = store(name)\naddopts = -p xdist")
    pytester.makeconftest('pytest_plugins = ["tests.launchers.fixtures"]')
    pytester.makepyfile(SUITE)

    pytester.runpytest_subprocess("-n", "2", "--dist", "loadgroup").assert_outcomes(passed=12)

    assert len([*pytester.path.glob("in.*")]) == 1
