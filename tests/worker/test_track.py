"""How far a cursor may move: never past what any page left open, in whatever order pages end."""

from __future__ import annotations

from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onefold.core.cursor import Cursor
from onefold.worker.progress import Recent, Ticket, Track

Fated = Literal["done", "kept", "open"]


class Run:
    """A reader's memory, and the pages that it shows; keys are the places themselves."""

    def __init__(self) -> None:
        self.recent = Recent()
        self.track = Track(Cursor(), self.recent)

    def enter(self, *places: int) -> Ticket:
        for at in places:
            self.recent.begin(str(at).encode())
        return self.track.enter([(at, str(at).encode()) for at in places])

    def end(self, ticket: Ticket, *fates: Fated) -> float | None:
        for (_, key), fate in zip(ticket.places, fates, strict=True):
            assert key is not None
            self.recent.end(key, fate)
        return self.track.end(ticket).at


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_what_a_page_left_open_holds_the_cursor_back_from_the_pages_behind_it(order):
    run = Run()
    pages = [run.enter(1, 2, 3), run.enter(4, 5)]
    ends: list[tuple[Fated, ...]] = [("done", "open", "done"), ("done", "done")]
    for page in order:
        run.end(pages[page], *ends[page])

    assert run.track.cursor.at == 2


def test_what_was_open_is_passed_once_it_was_shown_again_and_done():
    run = Run()
    run.end(run.enter(1, 2), "done", "open")
    run.end(run.enter(3), "done")
    run.track.turn()

    assert run.end(run.enter(2, 3), "done", "done") == 3


def test_what_is_shown_no_more_holds_nobody_up_after_a_whole_turn():
    run = Run()
    run.end(run.enter(1, 2), "done", "open")
    run.track.turn()
    assert run.end(run.enter(3), "done") == 2
    run.track.turn()

    assert run.end(run.enter(4), "done") == 4


PAGES = st.lists(st.lists(st.sampled_from(["done", "kept", "open"]), min_size=1, max_size=5), min_size=1)


@given(PAGES, st.randoms(use_true_random=False))
def test_in_whatever_order_pages_end_the_cursor_stops_at_the_first_open_record(pages, random):
    run, at, tickets = Run(), 0, []
    for fates in pages:
        tickets.append((run.enter(*range(at, at + len(fates))), fates))
        at += len(fates)
    flat = [fate for fates in pages for fate in fates]
    random.shuffle(tickets)
    for ticket, fates in tickets:
        run.end(ticket, *fates)

    assert run.track.cursor.at == (flat.index("open") if "open" in flat else at - 1)


# ----- memory


def test_pages_that_are_through_behind_one_that_hangs_take_up_no_memory():
    run = Run()
    hangs = run.enter(1, 2)
    run.end(run.enter(3, 4), "done", "done")
    for _ in range(10_000):  # the source is read again and again, and shows the same, and something new
        run.track.end(run.track.enter([(at, str(at).encode()) for at in (1, 2, 3, 4)]))
        run.track.turn()

    assert run.track.remembered <= 2 + 2 + 3
    assert run.track.cursor.at is None
    assert run.end(hangs, "done", "done") == 4


class Forgetful(Track):
    """A track that puts nothing together, for comparison."""

    def _put_together(self) -> None:
        pass


SHOWN = st.lists(st.lists(st.integers(0, 12), min_size=1, max_size=4, unique=True), min_size=1, max_size=8)


@given(SHOWN, st.randoms(use_true_random=False))
def test_a_track_that_puts_pages_together_moves_its_cursor_as_one_that_does_not(pages, random):
    recent = Recent()
    tracks = [Track(Cursor(), recent), Forgetful(Cursor(), recent)]
    under_way: list[tuple[list[Ticket], list[bytes]]] = []
    while pages or under_way:
        if pages and (not under_way or random.random() < 0.6):
            places = [(at, str(at).encode()) for at in pages.pop(0)]
            fresh = [key for _, key in places if not recent.knows(key)]
            for key in fresh:
                recent.begin(key)
            under_way.append(([track.enter(places) for track in tracks], fresh))
            continue
        tickets, fresh = under_way.pop(random.randrange(len(under_way)))
        for key in fresh:
            recent.end(key, random.choice(["done", "kept", "open"]))
        together, apart = (track.end(one).at for track, one in zip(tracks, tickets, strict=True))
        assert together == apart
        assert tracks[0].remembered <= tracks[1].remembered
        if random.random() < 0.2:
            for track in tracks:
                track.turn()
