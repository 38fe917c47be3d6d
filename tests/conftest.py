"""What holds for every test: --slow, the closing line about stores, coverage, and the servers' fixtures."""

import os
import signal
import sys
import threading
from collections.abc import Generator
from functools import partial

import pytest
from coverage import Coverage
from hypothesis import settings

from tests.stores_tested import StoresTested

pytest_plugins = ["tests.launchers.fixtures", "tests.launchers.cassandra_guarded"]


# Lines are not counted in a forked child. Its counts are lost anyway, and the lock of the counters may belong
# to a thread that the child does not have. Registered before the hooks of Onefold, whose lines are counted.
os.register_at_fork(after_in_child=partial(sys.settrace, None))
os.register_at_fork(after_in_child=partial(threading.settrace, None))

# How fast an example is says something of the machine, and must not decide a test.
settings.register_profile("onefold", deadline=None)
settings.load_profile("onefold")


MEASURED = ("core", "crashes", "drive", "ledger", "runtime")
"""Where coverage is counted: it is asked of the core alone, and makes every test twice as slow."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--slow", action="store_true", help="run the slow tests too")


def pytest_configure(config: pytest.Config) -> None:
    # Started behind a shell script's `&` they would be deaf to it, and so would every process they start.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    config.pluginmanager.register(StoresTested(), "stores-tested")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Count lines only where that is wanted; pytest-cov's own mark goes on counting in fixtures."""
    stopped: list[Coverage] = []
    # A worker of xdist has two: pytest-cov starts one before it knows that it is in a worker. If only the
    # last one stopped, the first would go on counting.
    while item.path.parent.name not in MEASURED and (counting := Coverage.current()) is not None:
        counting.stop()
        stopped.append(counting)
    try:
        return (yield)
    finally:
        for counting in reversed(stopped):
            counting.start()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("--slow"):
        return
    slow = [item for item in items if item.get_closest_marker("slow")]
    config.hook.pytest_deselected(items=slow)
    items[:] = [item for item in items if not item.get_closest_marker("slow")]
