"""The closing line about stores tells the truth, in one process and in several."""

import pytest

from tests.checkout import ROOT

CONFTEST = """
from pathlib import Path
from tests.stores_tested import StoresTested

def pytest_configure(config):
    config.pluginmanager.register(StoresTested(Path(__file__).parent / "stores"), "stores-tested")
"""

SUITE = """
import pytest

@pytest.mark.store("memory")
class TestMemory:
    def test_works(self): pass

@pytest.mark.store("sqlite")
@pytest.mark.parametrize("n", [1, 2])
def test_sqlite(n): pass

@pytest.mark.store("redis")
def test_redis(): pytest.skip("no server was found")

@pytest.mark.store("mariadb")
def test_mariadb(): assert False

def test_of_no_store(): pass
"""


@pytest.fixture
def suite(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    monkeypatch.setenv(
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1"
    )  # they take longer to load than all of this to run
    pytester.makeini(
        f"[pytest]\npythonpath = {ROOT}\nmarkers = store(name)\naddopts = -p no:cacheprovider -p xdist"
    )
    pytester.makeconftest(CONFTEST)
    for store in ("memory", "sqlite", "redis", "mariadb", "mongodb"):
        path = pytester.path / "stores" / f"{store}.py"
        path.parent.mkdir(exist_ok=True)
        path.touch()
    return pytester


@pytest.mark.parametrize("processes", ["0", "2"])
def test_the_closing_line_names_what_was_tested_and_why_the_rest_was_not(suite, processes):
    suite.makepyfile(SUITE)

    result = suite.runpytest_subprocess("-n", processes)

    assert result.outlines[-1] == (
        "4 passed, 1 failed, 1 skipped; stores tested: memory, sqlite; failed: mariadb; "
        "not tested here: postgresql, dynamodb, cassandra (planned: the store has not landed), "
        "redis (no server was found), mongodb (none of its tests ran)"
    )


def test_the_normal_closing_line_of_pytest_comes_just_before(suite):
    suite.makepyfile("def test_it(): pass")

    result = suite.runpytest_subprocess()

    assert "= 1 passed in" in result.outlines[-2]
    assert result.outlines[-1].startswith("1 passed; stores tested: none; not tested here: ")


def test_a_store_that_the_design_does_not_know_is_an_error(suite):
    suite.makepyfile("import pytest\n@pytest.mark.store('sqlight')\ndef test_it(): pass")

    result = suite.runpytest_subprocess()

    assert result.ret != 0
    assert "'sqlight' is not a store" in "\n".join(result.outlines + result.errlines)
