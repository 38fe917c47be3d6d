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


@given(
    st.lists(st.integers(1, 12), min_size=1, max_size=4), st.integers(1, 5), st.randoms(use_true_random=False)
)
def test_however_pages_are_put_together_the_cursor_never_passes_what_is_not_accounted_for(
    rounds, size, random
):
    # Every round shows everything from the beginning on, perhaps before the pages of the last one ended.
    pages = [list(range(at, min(at + size, most))) for most in rounds for at in range(0, most, size)]
    recent, shown = Recent(), set[int]()
    track = Track(Cursor(), recent)
    under_way: list[tuple[Ticket, list[bytes]]] = []
    while pages or under_way:
        if pages and (not under_way or random.random() < 0.6):
            places = [(at, str(at).encode()) for at in pages.pop(0)]
            shown |= {at for at, _ in places}
            fresh = [key for _, key in places if not recent.knows(key)]
            for key in fresh:
                recent.begin(key)
            under_way.append((track.enter(places), fresh))
            continue
        ticket, fresh = under_way.pop(random.randrange(len(under_way)))
        for key in fresh:
            recent.end(key, random.choice(["done", "kept", "open"]))
        reached = track.end(ticket).at
        waits = [at for at in shown if recent.fate(str(at).encode()) == "open"]
        assert reached is None or all(reached <= at for at in waits)
    for _ in range(3):  # what is shown no more holds nobody up
        track.turn()
        track.end(track.enter([(99, None)]))
    assert track.cursor.at == 99
