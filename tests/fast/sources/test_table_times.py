"""Times as tables hold them: read from every form, written as they stand, and a mixture is noticed."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onefold.tables.migration import conversion
from onefold.tables.times import OURS, SHAPES, at, is_number, is_time, mixed, shape_of

TEN = 1771754400.0
"""2026-02-22 10:00 in UTC."""


@pytest.mark.parametrize(
    ("value", "place"),
    [
        (7, 7),
        (1.5, 1.5),
        (Decimal("1.5"), 1.5),
        (True, None),
        (None, None),
        (b"x", None),
        ("soon", None),
        ("2026-02-22 10:00:00", TEN),
        ("2026-02-22T10:00:00.500Z", TEN + 0.5),
        ("2026-02-22T12:00:00+02:00", TEN),
        (datetime(2026, 2, 22, 10, tzinfo=UTC), TEN),
        (datetime(2026, 2, 22, 10), TEN),  # noqa: DTZ001  (as MariaDB gives them)
        (date(2026, 2, 22), TEN - 36000),
    ],
)
def test_an_order_value_is_a_number_or_a_time_of_whatever_form(value, place):
    assert at(value) == place


@given(st.sampled_from(SHAPES), st.floats(0, 4e9, allow_nan=False))
def test_a_time_is_read_back_from_the_form_in_which_it_was_written(shape, moment):
    written = shape.written(moment)
    read = at(written)

    assert shape_of(written) == shape
    assert read is not None
    assert abs(read - moment) <= 10.0**-shape.digits + 1e-6


@given(st.floats(0, 4e9), st.floats(0, 4e9))
def test_in_one_form_texts_sort_as_their_times_do(one, other):
    first, second = OURS.written(one), OURS.written(other)

    assert (first < second) == (at(first) < at(second))  # type: ignore[operator]


@pytest.mark.parametrize(
    ("samples", "count"),
    [
        ([], 0),
        ([1, 2.5], 0),
        (["2026-02-22 10:00:00", "2026-02-22 11:00:00"], 0),
        (["2026-02-22 10:00:00", "2026-02-22T10:00:00.000Z"], 2),
        (["2026-02-22T10:00:00Z", "2026-02-22T10:00:00.000Z"], 2),
        (["2026-02-22 10:00:00", 1771754400], 2),
        (["2026-02-22 10:00:00", "yesterday"], 2),
    ],
)
def test_texts_of_several_forms_in_one_column_are_noticed(samples, count):
    assert len(mixed(samples)) == count


@pytest.mark.parametrize(
    ("declared", "number", "time"),
    [
        ("INTEGER", True, False),
        ("double precision", True, False),
        ("timestamp with time zone", False, True),
        ("DATETIME(6)", False, True),
        ("TEXT", False, False),
        ("", False, False),
    ],
)
def test_a_column_holds_what_it_was_declared_to_hold(declared, number, time):
    assert (is_number(declared), is_time(declared)) == (number, time)


@pytest.mark.parametrize("kind", ["sqlite", "postgresql", "mariadb"])
def test_every_database_has_a_statement_that_brings_times_into_one_form(kind):
    assert conversion(kind, "listings", "fetched_at").startswith("UPDATE ")
