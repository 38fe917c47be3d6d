"""Says which stores a test run really tested, and why not the others.

Tests that run against a store carry `@pytest.mark.store("sqlite")`. The plugin counts how those tests ended,
also when they ran in other processes, and closes the run with one line. It must not guess: a store counts as
tested only if at least one of its tests passed and none failed. Which servers run here is `./dev servers`.
"""

import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

__all__ = ["STORES", "StoresTested"]

STORES = ("memory", "sqlite", "postgresql", "mariadb", "redis", "mongodb", "dynamodb", "cassandra")
SOURCE = Path(__file__).resolve().parent.parent / "src" / "onefold" / "stores"
KINDS = ("passed", "failed", "error", "skipped")
PLANNED = "planned: the store has not landed"


def has_landed(store: str, source: Path = SOURCE) -> bool:
    return (source / f"{store}.py").is_file() or (source / store / "__init__.py").is_file()


class StoresTested:
    """A pytest plugin; one instance per run, fed by the reports of all processes."""

    def __init__(self, source: Path = SOURCE) -> None:
        self.source = source
        self.passed: Counter[str] = Counter()
        self.failed: Counter[str] = Counter()
        self.skipped: dict[str, str] = {}

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        for item in items:
            for store in stores_of(item):
                # Properties travel with a report from another process; markers do not.
                item.user_properties.append(("store", store))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        for kind, store in report.user_properties:
            if kind == "store":
                self.count(str(store), report)

    def count(self, store: str, report: pytest.TestReport) -> None:
        if report.failed:
            self.failed[store] += 1
        elif report.skipped:
            self.skipped.setdefault(store, reason_of(report))
        elif report.when == "call":
            self.passed[store] += 1

    # Outermost, so that the line comes after pytest's own closing line.
    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> Iterator[None]:
        yield
        reporter = session.config.pluginmanager.get_plugin("terminalreporter")
        if reporter is not None and not session.config.option.collectonly:
            counts = {kind: len(reporter.stats.get(kind, ())) for kind in KINDS}
            reporter.write_line(f"{words_for(counts)}; {self.sentence()}")
            if told := os.environ.get("ONEFOLD_COUNTS"):  # set by ./dev test, which adds up its tiers
                Path(told).write_text(words_for(counts))

    def sentence(self) -> str:
        tested = [store for store in STORES if self.passed[store] and not self.failed[store]]
        failed = [store for store in STORES if self.failed[store]]
        untested: dict[str, list[str]] = {}
        for store in STORES:
            if store not in tested and store not in failed:
                untested.setdefault(self.why_not(store), []).append(store)
        parts = [f"stores tested: {', '.join(tested) or 'none'}"]
        if failed:
            parts.append(f"failed: {', '.join(failed)}")
        if untested:
            reasons = (f"{', '.join(stores)} ({why})" for why, stores in untested.items())
            parts.append(f"not tested here: {', '.join(reasons)}")
        return "; ".join(parts)

    def why_not(self, store: str) -> str:
        if not has_landed(store, self.source):
            return PLANNED
        return self.skipped.get(store, "none of its tests ran")


def stores_of(item: pytest.Item) -> Iterator[str]:
    for mark in item.iter_markers("store"):
        for store in mark.args:
            if store not in STORES:
                raise pytest.UsageError(
                    f"{item.nodeid}: '{store}' is not a store; they are {', '.join(STORES)}"
                )
            yield store


def reason_of(report: pytest.TestReport) -> str:
    if isinstance(report.longrepr, tuple):
        return report.longrepr[2].removeprefix("Skipped: ")
    return "expected to fail"


def words_for(counts: dict[str, int]) -> str:
    others = (f", {n} {kind}" for kind, n in counts.items() if n and kind != "passed")
    return f"{counts['passed']} passed{''.join(others)}"
