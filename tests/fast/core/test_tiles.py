"""Coverage as entries: what is known of each tile, merged for display, and taken over from a file."""

from __future__ import annotations

import json

import portion
import pytest
from hypothesis import given
from hypothesis import strategies as st

from onefold.core.coverage import Span, Tile, gaps, tiles
from onefold.core.entry import Change, Entry
from onefold.core.errors import Misconfigured
from onefold.core.tiles import READ, Period, Run, Series, covered, noted, runs, tile, whole_tiles
from onefold.drive import Ports, run
from onefold.stores.memory import MemoryStore

SERIES = Series("bars", "EURUSD 1m", 60)
SPAN = Span(0, 60)


@pytest.mark.parametrize(
    ("entry", "known"),
    [
        (None, None),
        (Entry("done", body=json.dumps(noted("complete", 60, 60))), Tile(SPAN, "complete", 60)),
        (Entry("done", body=json.dumps(noted("empty", 0))), Tile(SPAN, "empty", 0)),
        (Entry("free", body='{"record":{},"note":{"state":"partial","rows":7}}'), Tile(SPAN, "partial", 7)),
        (Entry("held", body='{"record":{},"note":{"state":"provisional"}}'), Tile(SPAN, "provisional", 0)),
        (
            Entry("free", body='{"note":{"state":"partial","rows":7,"invalid":2,"reasons":["it is none"]}}'),
            Tile(SPAN, "partial", 7, 2, ("it is none",)),
        ),
        (Entry("held", body='{"record":{}}'), None),
        (Entry("held"), None),
        (Entry("done", body="null"), None),
        (Entry("free", body="[]"), None),
    ],
)
def test_what_is_known_of_a_tile_is_read_from_its_entry(entry, known):
    assert tile(SPAN, entry) == known


def test_the_tiles_of_a_stretch_are_read_in_order_and_unseen_ones_are_left_out():
    store = MemoryStore()
    done = Entry("done", body=json.dumps(noted("complete", 60)))
    for since in (0, 120, 60 * (READ + 1)):
        store.swap([Change(SERIES.key(since), None, done)])

    found = run(covered(SERIES, Span(0, 60 * (READ + 5))), Ports(store))

    assert [one.span.since for one in found] == [0, 120, 60 * (READ + 1)]
    assert gaps(Span(0, 180), found) == [Span(60, 120)]


def test_a_tile_off_the_grid_is_refused():
    with pytest.raises(Misconfigured, match="multiples of 60"):
        SERIES.key(61)


def test_neighbours_in_one_state_are_shown_as_one():
    known = [
        Tile(Span(0, 60), "complete", 5),
        Tile(Span(60, 120), "complete", 6),
        Tile(Span(180, 240), "partial", 1),
    ]

    assert runs(60, Span(0, 300), known) == [
        Run(Span(0, 120), "complete", 11, 2),
        Run(Span(120, 180), None, 0, 1),
        Run(Span(180, 240), "partial", 1, 1),
        Run(Span(240, 300), None, 0, 1),
    ]


SPANS = st.builds(lambda since, length: Span(since, since + length), st.integers(0, 500), st.integers(1, 200))


@given(st.lists(SPANS, max_size=8), st.integers(0, 700))
def test_only_tiles_that_the_periods_hold_whole_and_that_are_past_are_taken_over(periods, available):
    taken = whole_tiles([Period(one, None) for one in periods], 60, available)

    held = portion.empty()
    for one in periods:
        held |= portion.closedopen(one.since, one.until)
    held &= portion.closedopen(0, max(available, 0)) if available > 0 else portion.empty()
    assert taken == [
        one for one in tiles(Span(0, 720), 60) if portion.closedopen(one.since, one.until) in held
    ]
