"""A queue on a table of PostgreSQL and MariaDB, whose SQL and catalogues differ from those of SQLite.

The tests are the fast ones.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.databases import MARIADB, POSTGRESQL, Place, opened
from tests.fast.sources.test_table import (  # noqa: F401
    test_a_backfill_marks_what_was_applied_and_nothing_newer,
    test_a_migration_is_shown_runs_whole_and_can_run_again,
    test_a_queue_on_a_column_that_is_not_there_is_refused_and_the_setting_named,
    test_a_row_that_fails_shows_its_attempts_and_is_marked_once_it_went_through,
    test_a_row_without_a_place_in_the_order_is_set_aside_and_said,
    test_a_table_whose_key_is_not_called_id_is_a_queue,
    test_a_worker_warns_of_an_index_that_serves_other_columns,
    test_an_index_of_other_columns_is_replaced_by_the_migration,
    test_an_operator_is_told_which_column_is_missing_and_what_to_do,
    test_fifty_poison_rows_at_the_head_do_not_stop_the_queue_and_show_why,
    test_from_a_queue_into_a_table_each_row_arrives_once,
    test_only_the_mark_is_needed,
    test_rows_are_acted_upon_once_in_their_order_and_marked,
    test_rows_with_the_same_time_are_told_apart_and_late_rows_with_an_earlier_time_are_seen,
    test_several_workers_share_a_table_and_every_row_is_acted_upon_once,
    test_the_index_serves_the_head_of_the_queue,
)


@pytest.fixture(params=[POSTGRESQL, MARIADB])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    yield from opened(request, tmp_path)
