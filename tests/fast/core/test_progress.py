"""Cursors and coverage: how far, and which stretches; checked against tables and an interval library."""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import pairwise

import portion
import pytest
from hypothesis import given
from hypothesis import strategies as st

from onefold.core.coverage import Span, Tile, checked, gaps, judge, merge, subtract, tiles
from onefold.core.cursor import Cursor, advance, needed, start
from onefold.core.errors import Misconfigured
from onefold.core.record import Mark, Record


@pytest.mark.parametrize(
    ("cursor", "fates", "expected"),
    [
        (None, [], None),
        (None, [(5, "done")], 5),
        (3, [(5, "done"), (7, "kept"), (9, "parked")], 9),
        (3, [(5, "done"), (7, "open"), (9, "done")], 7),
        (3, [(9, "done"), (7, "open"), (5, "open")], 5),
        (3, [(2, "done")], 3),
        (3, [(2, "open"), (9, "done")], 3),
        (3, [(3, "open")], 3),
    ],
)
def test_a_cursor_moves_up_to_the_first_open_record_and_never_back(cursor, fates, expected):
    assert advance(Cursor(cursor), fates) == Cursor(expected)


@given(
    st.integers(0, 20),
    st.lists(st.tuples(st.integers(0, 30), st.sampled_from(["done", "parked", "kept", "open"])), max_size=30),
)
def test_a_cursor_never_passes_an_open_record_and_never_goes_back(at, fates):
    moved = advance(Cursor(at), fates)

    assert moved.at is not None
    assert moved.at >= at
    assert moved.at == at or all(moved.at <= open_at for open_at, fate in fates if fate == "open")


@pytest.mark.parametrize(
    ("fates", "expected"),
    [
        ([(5, "done")], Cursor(5, "new")),
        ([(5, "done"), (4, "open")], Cursor(4, "new")),
        ([(5, "done"), (3, "open")], Cursor(3, "old")),
        ([(5, "done"), (2, "open")], Cursor(3, "old")),
    ],
)
def test_a_cursor_takes_the_mark_of_a_page_once_it_has_reached_it(fates, expected):
    assert advance(Cursor(3, "old"), fates, [Mark(4, "new")]) == expected
    assert advance(Cursor(3, "old"), [(5, "done")]) == Cursor(5, "old")


def test_pages_start_at_the_cursor_minus_the_lag():
    assert start(Cursor(100), 10) == 90
    assert start(Cursor(), 10) is None
    assert Record("a", "{}", 5).retracts is None


SPANS = st.builds(lambda since, length: Span(since, since + length), st.integers(0, 60), st.integers(1, 20))


def measured(spans: list[Span]) -> portion.Interval:
    whole = portion.empty()
    for span in spans:
        whole |= portion.closedopen(span.since, span.until)
    return whole


@given(st.lists(SPANS))
def test_merged_spans_cover_the_same_and_are_disjoint(spans):
    merged = merge(spans)

    assert measured(merged) == measured(spans)
    assert all(a.until < b.since for a, b in pairwise(merged))


@given(SPANS, st.lists(SPANS))
def test_what_is_missing_is_what_an_interval_library_says(wanted, have):
    missing = subtract(wanted, have)

    assert measured(missing) == measured([wanted]) - measured(have)
    assert missing == merge(missing)


@given(SPANS, st.integers(1, 15))
def test_tiles_lie_on_one_grid_and_cover_what_is_wanted(wanted, step):
    cells = list(tiles(wanted, step))

    assert all(cell.since % step == 0 and cell.until - cell.since == step for cell in cells)
    assert merge(cells) == [Span(cells[0].since, cells[-1].until)]
    assert cells[0].since <= wanted.since < cells[0].until
    assert cells[-1].since < wanted.until <= cells[-1].until


@pytest.mark.parametrize(
    ("confirmed", "expected", "closed", "state"),
    [
        (60, 60, True, "complete"),
        (61, 60, True, "complete"),
        (59, 60, True, "partial"),
        (0, 60, True, "partial"),
        (0, 0, True, "empty"),
        (0, None, True, "empty"),
        (7, None, True, "complete"),
        (60, 60, False, "provisional"),
        (0, None, False, "provisional"),
    ],
)
def test_a_tile_is_complete_only_by_its_confirmed_count(confirmed, expected, closed, state):
    assert judge(confirmed, expected, closed) == state


def test_gaps_are_all_but_complete_and_confirmed_empty_tiles():
    known = [
        Tile(Span(0, 10), "complete", 10),
        Tile(Span(10, 20), "partial", 3),
        Tile(Span(20, 30), "empty"),
        Tile(Span(30, 40), "provisional", 5),
    ]

    assert gaps(Span(0, 50), known) == [Span(10, 20), Span(30, 50)]


def test_spans_need_zones_and_an_end_after_their_start():
    since, until = datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 1, 2, tzinfo=UTC)

    assert Span.between(since, until) == Span(1767225600, 1767312000)
    with pytest.raises(Misconfigured, match="is empty"):
        Span.between(until, since)
    with pytest.raises(Misconfigured, match="without a time zone"):
        Span.between(since.replace(tzinfo=None), until)
    with pytest.raises(Misconfigured, match="no cells"):
        list(tiles(checked(Span(0, 1)), 0))


@pytest.mark.parametrize(
    ("places", "kept"),
    [([], ""), ([0], ""), ([1], "a"), ([2, 4], "b"), ([1, 5], "ac"), ([9], "c"), ([1, 3, 9], "abc")],
)
def test_marks_that_no_place_needs_are_left_out(places, kept):
    marks = [Mark(1, "a"), Mark(2, "b"), Mark(5, "c")]

    assert "".join(mark.known for mark in needed(marks, places)) == kept


def test_a_cursor_takes_the_last_mark_that_it_has_reached():
    marks = [Mark(1, "a"), Mark(2, "b"), Mark(5, "c")]

    assert advance(Cursor(), [(3, "done")], marks) == Cursor(3, "b")
    assert advance(Cursor(0, "old"), [(0, "done")], marks) == Cursor(0, "old")


@pytest.mark.parametrize(
    ("cursor", "fates", "becomes"),
    [
        (Cursor(), [], Cursor(None, "steps")),
        (Cursor(5, "old"), [], Cursor(5, "steps")),
        (Cursor(5, "old"), [(7, "done")], Cursor(7, "steps")),
        (Cursor(5, "old"), [(4, "open"), (7, "done")], Cursor(5, "steps")),
    ],
)
def test_a_mark_that_no_place_depends_on_is_taken_wherever_the_cursor_stands(cursor, fates, becomes):
    assert advance(cursor, fates, [Mark(None, "earlier"), Mark(None, "steps")]) == becomes
    assert needed([Mark(None, "earlier"), Mark(None, "steps")], []) == (Mark(None, "steps"),)
