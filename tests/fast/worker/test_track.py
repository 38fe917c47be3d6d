"""How far a cursor may move: never past what any page left open, in whatever order pages end."""

from __future__ import annotations

from itertools import count
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


def test_a_mark_that_no_place_depends_on_needs_no_record_and_waits_only_for_the_pages_before_it():
    run = Run()
    run.end(run.enter(mark=Mark(None, "first")))
    before = run.track.cursor
    hangs = run.enter(1)
    run.end(run.enter(2), "done")
    run.end(run.enter(mark=Mark(None, "second")))
    waiting = run.track.cursor
    run.end(hangs, "open")

    assert (before, waiting) == (Cursor(None, "first"), Cursor(None, "first"))
    assert run.track.cursor == Cursor(1, "second")


def test_pages_that_are_put_together_keep_the_mark_of_the_file_in_which_the_cursor_stops():
    run = Run()
    hangs = run.enter(1, mark=Mark(1, "first"))
    run.end(run.enter(2, 3, mark=Mark(2, "second")), "open", "done")
    run.end(run.enter(4, mark=Mark(4, "third")), "done")
    run.end(hangs, "done")

    assert run.track.cursor == Cursor(2, "second")


@pytest.mark.parametrize(
    ("stored", "own", "taken"),
    [
        (Cursor(), Cursor(), Cursor()),
        (Cursor(None, "stored"), Cursor(), Cursor(None, "stored")),
        (Cursor(None, "stored"), Cursor(None, "own"), Cursor(None, "own")),
        (Cursor(None, "stored"), Cursor(3), Cursor(3)),
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


def ended_at_random(pages, random, step):
    """Let a track that puts pages together and one that does not hear of pages, which end in any order."""
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
        for track, ticket in zip(tracks, tickets, strict=True):
            track.end(ticket)
        step(*tracks)
    return tracks


@given(st.lists(st.integers(1, 4), min_size=1, max_size=8), st.randoms(use_true_random=False))
def test_a_track_that_puts_pages_together_moves_its_cursor_as_one_that_does_not(sizes, random):
    places = count()
    pages = [[next(places) for _ in range(size)] for size in sizes]

    def check(together: Track, apart: Track) -> None:
        assert together.cursor == apart.cursor
        assert together.remembered <= apart.remembered

    ended_at_random(pages, random, check)


SHOWN = st.lists(st.lists(st.integers(0, 12), min_size=1, max_size=4, unique=True), min_size=1, max_size=8)


@given(SHOWN, st.randoms(use_true_random=False))
def test_a_track_that_puts_pages_together_arrives_where_one_does_that_does_not(pages, random):
    """In between they may differ: on one page, what comes late is not told from what came before it."""

    def turn(*tracks: Track) -> None:
        if random.random() < 0.2:
            for track in tracks:
                track.turn()

    tracks = ended_at_random(pages, random, turn)
    for _ in range(3):  # what is open holds a cursor for so many turns, if it is not shown again
        turn_all(tracks)
    assert [track.cursor.at for track in tracks] == [99, 99]


def turn_all(tracks):
    for track in tracks:
        track.turn()
        track.end(track.enter([(99, None)]))


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
