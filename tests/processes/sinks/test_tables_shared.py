"""Several writers of one SQLite file at the same time.

On a virtual loop, one transaction ends before another begins. Here workers have threads, and theirs meet.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.databases import SQLITE, Place, opened
from tests.fast.sinks.tables import make_tables
from tests.fast.sinks.test_table import test_several_workers_write_every_row_once  # noqa: F401
from tests.fast.sources.test_table import (  # noqa: F401
    test_several_workers_share_a_table_and_every_row_is_acted_upon_once,
)
from tests.servers.tables.test_bars import (  # noqa: F401
    test_two_bridges_that_store_the_same_bars_at_once_store_each_once,
)


@pytest.fixture(params=[SQLITE])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    for one in opened(request, tmp_path):
        make_tables(one)
        yield one
