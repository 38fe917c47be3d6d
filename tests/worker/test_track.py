"""How far a cursor may move: never past what any page left open, in whatever order pages end."""

from __future__ import annotations

from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onefold.core.cursor import Cursor
from onefold.core.record import Mark
from onefold.worker.progress import Recent, Ticket, Track, furthest, moved, position

Fated = Literal["done", "kept", "open"]


class Run:
    """A reader's memory, and the pages that it shows; keys are the places themselves."""

    def __init__(self) -> None:
        self.recent = Recent()
        self.track = Track(Cursor(), self.recent)

    def enter(self, *places: int, mark: Mark | None = None) -> Ticket:
        for at in places:
            self.recent.begin(str(at).encode())
        return self.track.enter([(at, str(at).encode()) for at in places], mark)

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


# ----- what a source must find again


def test_a_cursor_that_is_held_back_in_one_file_keeps_the_mark_of_that_file():
    run = Run()
    pages = [run.enter(1, 2, mark=Mark(1, "first")), run.enter(3, 4, mark=Mark(3, "second"))]
    run.end(pages[0], "done", "open")
    run.end(pages[1], "done", "done")
    held = run.track.cursor
    again = run.enter(2, mark=Mark(1, "first"))
    run.end(again, "done")
    run.end(run.enter(5, mark=Mark(3, "second")), "done")

    assert held == Cursor(2, "first")
    assert run.track.cursor == Cursor(5, "second")


@pytest.mark.parametrize(
    ("stored", "own", "taken"),
    [
        (Cursor(), Cursor(), Cursor()),
        (Cursor(), Cursor(3, "own"), Cursor(3, "own")),
        (Cursor(3, "stored"), Cursor(), Cursor(3, "stored")),
        (Cursor(3, "stored"), Cursor(5, "own"), Cursor(5, "own")),
        (Cursor(5, "stored"), Cursor(3, "own"), Cursor(5, "stored")),
        (Cursor(5, "stored"), Cursor(5, "own"), Cursor(5, "own")),
        (Cursor(5, "stored"), Cursor(5), Cursor(5, "stored")),
        (Cursor(5), Cursor(5, "own"), Cursor(5, "own")),
    ],
)
def test_a_mark_goes_with_the_cursor_that_is_further(stored, own, taken):
    assert furthest(stored, own) == taken


def test_a_mark_is_stored_with_its_cursor_and_a_text_without_one_is_understood():
    text = moved({"at": 3, "generation": 0}, Cursor(5, {"base": 0}), 0, {})

    assert text == {"at": 5, "generation": 0, "mark": {"base": 0}}
    assert position(text) == (Cursor(5, {"base": 0}), 0)
    assert position({"at": 3}) == (Cursor(3), 0)
