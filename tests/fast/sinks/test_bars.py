"""Bars in a table: the better version stands whichever comes last, and what differed is counted."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from onefold.core.coverage import Span
from onefold.core.errors import Misconfigured
from onefold.sinks.bars import BarRow, BarTable, Cleaned, Kept, is_conflict, weigh
from tests.databases import SQLITE, Place, opened

ROW = BarRow("EUR/USD", "1m", 60_000, 1.1, 1.3, 1.0, 1.2, 10.0, None, 3000.0, "polygon_historical", 1, 1, 5)
SPAN = Span(0, 3600)


@pytest.fixture(params=[SQLITE])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    yield from opened(request, tmp_path)


@pytest.fixture
def bars(place: Place) -> Iterator[BarTable]:
    table = BarTable(place.url)
    yield table
    table.close()


def closes(place: Place) -> list[tuple[int, float, int]]:
    return place.run("SELECT timestamp_ms, close, conflicts FROM bars ORDER BY timestamp_ms")


@pytest.mark.parametrize(
    ("old", "new", "met", "conflict"),
    [
        (None, ROW, "new", False),
        (ROW, ROW, "same", False),
        (ROW, ROW._replace(revision=6), "better", False),
        (ROW, ROW._replace(close=1.25, revision=6), "better", True),
        (ROW, ROW._replace(close=1.25, revision=4), "worse", True),
        (ROW, ROW._replace(close=1.25), "worse", True),
        (ROW, ROW._replace(close=1.25, final=0, revision=9), "worse", False),
        (ROW._replace(final=0), ROW._replace(close=1.25), "better", False),
        (ROW._replace(close=1.25, source_rank=2, final=0), ROW, "worse", False),
        (ROW, ROW._replace(vwap=1.1, revision=6), "better", True),
    ],
)
def test_between_two_rows_of_one_key_the_version_decides(old, new, met, conflict):
    assert weigh(old, new) == met
    assert is_conflict(old, new) is conflict


def test_a_bar_that_is_stored_again_is_the_same_bar(place, bars):
    assert bars.write([ROW]) == Kept(new=1)
    assert bars.write([ROW]) == Kept(same=1)
    assert closes(place) == [(60_000, 1.2, 0)]


def test_a_late_provisional_bar_never_replaces_the_final_one(place, bars):
    # Trap 34: the time of arrival was the version.
    bars.write([ROW])

    assert bars.write([ROW._replace(close=1.25, final=0, revision=99)]) == Kept(worse=1)
    assert closes(place) == [(60_000, 1.2, 0)]


def test_a_slow_answer_to_an_earlier_asking_never_replaces_a_correction(place, bars):
    bars.write([ROW._replace(close=1.25, revision=6)])

    assert bars.write([ROW]) == Kept(worse=1, conflicts=1)
    assert closes(place) == [(60_000, 1.25, 1)]


def test_the_same_key_with_other_values_is_decided_and_counted(place, bars):
    # Trap 35.
    bars.write([ROW])
    met = bars.write([ROW._replace(close=1.25, revision=6), ROW._replace(close=1.26, revision=7)])

    assert met == Kept(better=2, conflicts=2)
    assert closes(place) == [(60_000, 1.26, 2)]
    assert bars.read("EUR/USD", "1m", SPAN) == {60: 2}


def test_a_span_is_read_half_open_and_by_symbol_and_timeframe(bars):
    others = [ROW._replace(symbol="GBP/USD"), ROW._replace(timeframe="5m")]
    bars.write([ROW._replace(timestamp_ms=at) for at in (0, 60_000, 120_000)] + others)

    assert bars.read("EUR/USD", "1m", Span(60, 120)) == {60: 0}
    assert bars.read("EUR/USD", "5m", SPAN) == {60: 0}


def test_names_from_outside_are_bound_and_never_become_sql(place, bars):
    # Trap 32.
    hostile = ROW._replace(symbol="x'; DROP TABLE bars; --")
    bars.write([hostile, ROW])

    assert bars.read(hostile.symbol, "1m", SPAN) == {60: 0}
    assert place.run("SELECT count(*) FROM bars") == [(2,)]


# ----- a table that was there before

OLD = (
    "CREATE TABLE bars (symbol TEXT, timeframe TEXT, timestamp_ms BIGINT, open DOUBLE PRECISION, "
    "high DOUBLE PRECISION, low DOUBLE PRECISION, close DOUBLE PRECISION, volume DOUBLE PRECISION, "
    "source TEXT, ingested_at TEXT)"
)


def fill(place: Place) -> None:
    place.run(OLD)
    for at, close, source, came in (
        (60_000, 1.2, "polygon_historical", "08:00"),
        (60_000, 1.2, "polygon_historical", "10:00"),
        (60_000, 1.9, "polygon_gap_fill", "12:00"),
        (120_000, 1.3, "polygon_historical", "08:00"),
        (120_000, 1.3, "polygon_historical", "09:00"),
        (180_000, 1.4, "polygon_historical", "08:00"),
    ):
        place.run(
            "INSERT INTO bars VALUES ('EUR/USD', '1m', ?, 1.1, 2.0, 1.0, ?, 10, ?, ?)",
            at,
            close,
            source,
            came,
        )


def test_a_table_with_duplicates_is_cleaned_by_rank_and_not_by_time_of_arrival(place, bars):
    # Trap 36, and 33: copying in an order removes nothing; here rows are grouped by key.
    fill(place)

    cleaned = bars.clean({"polygon_historical": 2, "polygon_gap_fill": 1})

    assert cleaned == Cleaned(before=6, after=3, conflicts=1)
    assert closes(place) == [(60_000, 1.2, 0), (120_000, 1.3, 0), (180_000, 1.4, 0)]
    assert bars.clean({}) == Cleaned(3, 3, 0)


def test_a_cleaned_table_takes_new_bars_and_no_second_row_of_a_key(place, bars):
    fill(place)
    bars.clean({"polygon_historical": 2, "polygon_gap_fill": 1})

    met = bars.write([ROW._replace(source_rank=2), ROW._replace(source_rank=2, timestamp_ms=240_000)])

    assert (met.new, met.better) == (1, 1)
    assert [at for at, _, _ in closes(place)] == [60_000, 120_000, 180_000, 240_000]
    with pytest.raises(Exception, match=r"(?i)unique"):
        place.run(
            "INSERT INTO bars (symbol, timeframe, timestamp_ms, open, high, low, close, volume, source) "
            "VALUES ('EUR/USD', '1m', 60000, 1, 1, 1, 1, 1, 'x')"
        )


def test_a_clean_up_that_fails_changes_nothing(place, bars):
    fill(place)

    with pytest.raises(Exception, match=r"(?i)int|type|range"):
        bars.clean({"polygon_historical": 2**70})

    assert place.run("SELECT count(*) FROM bars") == [(6,)]


def test_a_table_in_which_a_bar_could_stand_twice_is_refused_with_what_to_do(place, bars):
    fill(place)

    with pytest.raises(Misconfigured, match="clean it first"):
        bars.write([ROW])


def test_a_table_that_holds_no_bars_is_not_cleaned(place, bars):
    place.run("CREATE TABLE bars (name TEXT)")

    with pytest.raises(Misconfigured, match="holds no bars"):
        bars.clean({})
