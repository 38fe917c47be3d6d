"""A function in a transaction of PostgreSQL and MariaDB; the tests are the fast ones."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.databases import MARIADB, POSTGRESQL, Place, opened
from tests.fast.sinks.test_transaction import (  # noqa: F401
    FLATS,
    test_beside_the_ledger_each_record_has_a_transaction_of_its_own,
    test_what_a_function_writes_commits_with_its_mark_and_a_poison_record_leaves_nothing,
)


@pytest.fixture(params=[POSTGRESQL, MARIADB])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    for one in opened(request, tmp_path):
        one.run(FLATS)
        yield one
