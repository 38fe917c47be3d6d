"""Tests that share a server run in one process, so that a run starts it once.

A server that starts quickly may start twice, but the tests of one file stay together.
"""

import pytest

from tests.checkout import ROOT

SUITE = """
import os
from pathlib import Path
import pytest

@pytest.mark.store("NAME")
@pytest.mark.parametrize("number", range(6))
def test_by_its_mark(number): note()

@pytest.mark.parametrize("number", range(6))
def test_by_its_fixture(number, NAME_server): note()

@pytest.fixture(scope="session")
def NAME_server(): pass

def note():
    Path(f"in.{os.getpid()}").touch()
"""


@pytest.mark.parametrize("server", ["redis", "postgresql"])
def test_tests_of_one_file_and_server_stay_in_one_process(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, server: str
):
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    pytester.makeini(f"[pytest]\npythonpath = {ROOT}\nmarkers = store(name)\naddopts = -p xdist")
    pytester.makeconftest('pytest_plugins = ["tests.launchers.fixtures"]')
    pytester.makepyfile(SUITE.replace("NAME", server))

    pytester.runpytest_subprocess("-n", "2", "--dist", "loadgroup").assert_outcomes(passed=12)

    assert len([*pytester.path.glob("in.*")]) == 1
