"""Bars in a table of PostgreSQL: its SQL in the fast tests, and its locks between two writers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest

from onefold.sinks.bars import BarRow, BarTable, Kept
from tests.databases import POSTGRESQL, Place, opened
from tests.fast.sinks.test_bars import (  # noqa: F401
    ROW,
    bars,
    test_a_bar_that_is_stored_again_is_the_same_bar,
    test_a_clean_up_that_fails_changes_nothing,
    test_a_cleaned_table_takes_new_bars_and_no_second_row_of_a_key,
    test_a_late_provisional_bar_never_replaces_the_final_one,
    test_a_slow_answer_to_an_earlier_asking_never_replaces_a_correction,
    test_a_span_is_read_half_open_and_by_symbol_and_timeframe,
    test_a_table_in_which_a_bar_could_stand_twice_is_refused_with_what_to_do,
    test_a_table_with_duplicates_is_cleaned_by_rank_and_not_by_time_of_arrival,
    test_names_from_outside_are_bound_and_never_become_sql,
    test_the_same_key_with_other_values_is_decided_and_counted,
)


@pytest.fixture(params=[POSTGRESQL])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    yield from opened(request, tmp_path)


def test_two_bridges_that_store_the_same_bars_at_once_store_each_once(place: Place):
    # Trap 31: "count, then insert" lets both insert.
    rows = [ROW._replace(timestamp_ms=60_000 * at) for at in range(200)]

    def store(order: Sequence[BarRow]) -> Kept:
        with closing(BarTable(place.url)) as table:
            return table.write(order)

    with ThreadPoolExecutor(3) as bridges:
        met = list(bridges.map(store, (rows, rows[::-1], rows)))

    assert [sum(one) for one in met] == [200] * 3
    assert place.run("SELECT count(*) FROM bars") == [(200,)]
