"""Rows into tables of PostgreSQL and MariaDB: their SQL, their transactions and their locks.

Most tests are the fast ones.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from onefold.core.errors import Later
from onefold.sinks.table import Table
from tests.databases import MARIADB, POSTGRESQL, Place, opened
from tests.fast.sinks.stage import put_one
from tests.fast.sinks.tables import make_tables, row
from tests.fast.sinks.test_table import (  # noqa: F401
    test_a_commit_whose_answer_is_lost_does_not_write_the_row_again,
    test_a_competitor_that_holds_the_key_is_waited_for_and_then_left_alone,
    test_a_ledger_in_another_database_is_refused_and_nothing_is_written,
    test_a_poison_row_is_split_out_and_parked_with_its_error_and_its_neighbours_go_through,
    test_a_row_that_is_rejected_is_parked_at_once,
    test_a_table_that_is_not_there_parks_nothing,
    test_rows_and_marks_are_committed_together_each_once,
    test_several_workers_write_every_row_once,
)
from tests.fast.sinks.test_table_beside import (  # noqa: F401
    sight,
    test_an_older_row_never_replaces_a_newer_one_in_whatever_order_they_come,
    test_half_a_batch_that_cannot_be_written_does_not_hold_up_the_other_half,
    test_values_are_bound_whatever_they_hold,
)


@pytest.fixture(params=[POSTGRESQL, MARIADB])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    """A user's database with two tables in it, and a ledger."""
    for one in opened(request, tmp_path):
        make_tables(one)
        yield one


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://nobody:hunter2@127.0.0.1:1/shop",
        "postgresql://nobody:hunter2@127.0.0.1:x/shop?no=such",
        "mariadb://nobody:hunter2@127.0.0.1:1/shop",
    ],
)
def test_a_database_that_is_not_reached_is_left_alone_for_a_while_and_no_password_is_said(url):
    sink = Table(url, "flats", row, key=["id"], version="seen", effect="idempotent")
    answer = put_one(sink, sight(1, "a", 1, 1))

    assert isinstance(answer, Later)
    assert "was not reached" in str(answer)
    assert "hunter2" not in str(answer) + repr(answer.__cause__)
