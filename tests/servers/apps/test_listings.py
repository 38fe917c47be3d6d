"""Listings in PostgreSQL, from the migration of the seed to what was sent; the tests are the fast ones."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.databases import POSTGRESQL, Place, opened
from tests.fast.apps.letting import make_tables
from tests.fast.apps.test_listings import (  # noqa: F401
    test_every_flat_is_told_once_to_everybody_whom_it_fits_over_a_restart_in_the_middle,
    test_whatever_the_seed_every_flat_is_told_once_by_workers_that_take_turns,
    test_with_its_ledger_elsewhere_every_flat_is_still_told_once,
)
from tests.fast.apps.test_listings_notifier import (  # noqa: F401
    test_a_chat_that_blocked_the_bot_is_parked_once_and_left_out_until_a_person_lets_it_in,
    test_a_notifier_that_was_down_for_days_goes_on_where_it_was,
    test_a_price_that_falls_into_a_filter_brings_an_old_listing_back,
    test_each_user_hears_of_each_listing_once_and_it_is_written_down,
    test_listings_of_the_same_second_are_each_told,
    test_more_listings_than_a_page_are_all_shown,
    test_only_what_is_done_is_written_down_as_sent,
    test_what_was_sent_before_onefold_came_is_not_sent_again,
)
from tests.fast.apps.test_listings_tables import (  # noqa: F401
    seed,
    test_a_backfill_marks_only_what_was_applied_and_not_every_row_whose_item_exists,
    test_a_broken_row_or_an_unknown_connector_is_parked_with_the_reason_in_its_row,
    test_a_listing_and_the_mark_of_its_row_are_written_together_or_not_at_all,
    test_a_migration_is_done_once_and_what_is_as_it_must_be_needs_nothing,
    test_a_migration_keeps_ids_rows_and_columns_of_the_users_own,
    test_a_migration_that_fails_in_the_middle_leaves_everything_as_it_was,
    test_a_new_price_is_a_new_version_after_the_migration_and_no_longer_ignored,
    test_an_id_that_was_given_again_is_another_row,
    test_clean_up_takes_old_processed_rows_and_never_one_that_waits,
    test_each_outcome_of_a_raw_row_is_told_and_only_listings_are_written,
    test_rows_that_old_code_left_unmarked_are_found_unchanged_after_a_roll_forward,
    test_the_index_serves_the_head_of_the_queue_in_its_order_and_the_wrong_one_is_gone,
    test_times_of_two_forms_are_brought_into_one_that_sorts_by_time,
    test_two_processors_take_each_row_once,
)


@pytest.fixture(params=[POSTGRESQL])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    """A database with a ledger and the tables of listings."""
    for one in opened(request, tmp_path):
        make_tables(one)
        yield one


@pytest.fixture(params=[POSTGRESQL])
def seeded(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    """A database as the seed left it."""
    for one in opened(request, tmp_path):
        seed(one)
        yield one
