"""What holds for every test: --slow, --stalls, the closing line about stores, and the servers' fixtures."""

import signal
from collections.abc import Generator

import pytest
from coverage import Coverage
from hypothesis import settings

from tests.stalls import Stalls
from tests.stores_tested import StoresTested

pytest_plugins = ["tests.servers.fixtures", "tests.servers.cassandra_guarded"]


# How fast an example is says something of the machine, and must not decide a test.
settings.register_profile("onefold", deadline=None)
settings.load_profile("onefold")


MEASURED = ("core", "crashes", "drive", "ledger")
"""Where coverage is counted: it is asked of the core alone, and makes every test twice as slow."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--slow", action="store_true", help="run the slow tests too")
    parser.addoption(
        "--stalls", type=float, metavar="SECONDS", help="let processes of the run stand still, up to so long"
    )


def pytest_configure(config: pytest.Config) -> None:
    # Started behind a shell script's `&` they would be deaf to it, and so would every process they start.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    config.pluginmanager.register(StoresTested(), "stores-tested")
    if config.getoption("--stalls") and not hasattr(config, "workerinput"):
        config.pluginmanager.register(Stalls(config.getoption("--stalls")), "stalls")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Count lines only where that is wanted; pytest-cov's own mark goes on counting in fixtures."""
    counting = Coverage.current()
    if counting is None or item.path.parent.name in MEASURED:
        return (yield)
    counting.stop()
    try:
        return (yield)
    finally:
        counting.start()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("--slow"):
        return
    slow = [item for item in items if item.get_closest_marker("slow")]
    config.hook.pytest_deselected(items=slow)
    items[:] = [item for item in items if not item.get_closest_marker("slow")]
