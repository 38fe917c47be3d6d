"""A worker that is killed in a joined transaction: only a killed process leaves one that nobody ends."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.databases import MARIADB, POSTGRESQL, SQLITE, Place, opened
from tests.fast.sinks.stage import records, run_until, settled, states, worker
from tests.fast.sinks.tables import ids, log, logged, make_tables

WRITES_AND_WAITS = """
import sys
from onefold.sinks.table import Table
from tests.fast.sinks.stage import records, worker
from tests.fast.sinks.tables import row

class Waits(Table):
    def write(self, connection, work):
        receipts = super().write(connection, work)
        print("written", flush=True)
        sys.stdin.read()
        return receipts

url = sys.argv[1]
worker(records(5), Waits(url, "flat_log", row), url).run()
"""


@pytest.fixture(params=[SQLITE, POSTGRESQL, MARIADB])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    for one in opened(request, tmp_path):
        make_tables(one)
        yield one


def test_a_killed_worker_leaves_neither_row_nor_mark_and_the_next_one_acts(place):
    command = [sys.executable, "-c", WRITES_AND_WAITS, place.url]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:
        try:
            assert child.stdout is not None
            assert child.stdout.readline() == "written\n"
        finally:
            child.kill()

    assert logged(place) == []
    assert states(place.store, 5) == {"absent": 5}
    run_until(worker(records(5), log(place), place.url), settled(place.store, 5))
    assert logged(place) == ids(5)
