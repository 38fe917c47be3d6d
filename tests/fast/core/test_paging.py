"""Chains of pages: joined where they shift, ended where they circle, and honest about what is left unread."""

from random import Random

import pytest

from onefold.core.cursor import Cursor
from onefold.core.paging import (
    CIRCLE,
    Ask,
    Chain,
    Next,
    Offset,
    Part,
    Token,
    gap_before,
    gap_behind,
    highest,
    is_behind,
    lowest,
)
from onefold.core.record import Gap, Record
from onefold.core.wire import Unreadable


def rows(*numbers):
    return [Record(f"r{number}", {"n": number}, number) for number in numbers]


def show(chain, *numbers, body=None):
    """Give a page to a chain; return the numbers that were new."""
    page = rows(*numbers)
    return [one.at for one in chain.take(body, len(page), page)]


def show_again(chain, *numbers):
    """Give the same rows again and again, each time under a new token."""
    for token in range(CIRCLE + 1):
        show(chain, *numbers, body={"next": token})


def offset(chain):
    return None if chain.ask is None else chain.ask.offset


# ----- by offset


def test_pages_by_offset_overlap_and_end_with_a_short_one():
    chain = Chain(Offset(limit=4, overlap=1), 10)

    assert chain.ask == Ask({"limit": "4", "offset": "0"}, None, 0)
    assert show(chain, 9, 8, 7, 6) == [9, 8, 7, 6]
    assert offset(chain) == 3
    assert show(chain, 6, 5) == [5]
    assert offset(chain) is None
    assert chain.ended == "end"


def test_the_overlap_is_a_tenth_if_nothing_is_said_and_never_the_whole_page():
    tenth, whole = Chain(Offset(limit=50), 10), Chain(Offset(limit=3, overlap=9), 10)
    show(tenth, *range(50))
    show(whole, 3, 2, 1)

    assert (offset(tenth), offset(whole)) == (45, 1)


def test_a_feed_that_shows_less_than_it_is_asked_for_is_read_on():
    chain = Chain(Offset(limit=1000, overlap=1), 10)
    show(chain, 9, 8, 7)

    assert offset(chain) == 2
    assert show(chain, 7, 6, 5) == [6, 5]
    assert offset(chain) == 4


@pytest.mark.parametrize("numbers", [(), (1,)])
def test_a_feed_of_no_row_or_of_one_ends_at_once(numbers):
    chain = Chain(Offset(limit=10), 10)
    show(chain, *numbers)

    assert chain.ended == "end"


def test_rows_that_slid_over_the_boundary_are_fetched_from_further_back():
    chain = Chain(Offset(limit=4, overlap=1), 10)
    show(chain, 9, 8, 7, 6)

    assert show(chain, 4, 3, 2, 1) == []  # 9 and 8 were taken away, and 5 slid over the boundary
    assert (offset(chain), chain.joined) == (2, False)
    assert show(chain, 5, 4, 3, 2) == []
    assert offset(chain) == 0
    assert show(chain, 7, 6, 5, 4) == [5, 4]
    assert chain.joined


def test_an_empty_page_in_the_middle_is_asked_for_again():
    chain = Chain(Offset(limit=4, overlap=1), 10)
    show(chain, 9, 8, 7, 6)

    assert show(chain) == []
    assert offset(chain) == 2
    assert show(chain, 7, 6, 5, 4) == [5, 4]


def test_pages_that_never_join_are_refused():
    chain = Chain(Offset(limit=200, overlap=1), 100)
    show(chain, *range(1000, 800, -1))

    with pytest.raises(Unreadable, match="its pages shift faster than they can be read"):
        show_again(chain, 5, 4, 3)


def test_a_first_page_that_shifted_away_altogether_is_refused():
    chain = Chain(Offset(limit=2, overlap=1), 100)
    show(chain, 9, 8)
    show(chain, 19, 18)

    with pytest.raises(Unreadable, match="shift faster"):
        show(chain, 29, 28)


def test_a_server_that_ignores_the_offset_leads_in_a_circle():
    chain = Chain(Offset(limit=3), 100)

    with pytest.raises(Unreadable, match=f"in a circle: {CIRCLE} of them showed nothing new"):
        show_again(chain, 9, 8, 7)


def test_the_largest_offset_is_still_asked_for_and_then_the_feed_is_at_its_cap():
    chain = Chain(Offset(limit=4, overlap=1, max=4), 10)
    show(chain, 9, 8, 7, 6)
    show(chain, 6, 5, 4, 3)

    assert offset(chain) == 4
    assert show(chain, 5, 4, 3, 2) == [2]
    assert chain.ended == "cap"


def test_a_page_that_is_refused_is_the_cap():
    chain = Chain(Offset(limit=2), 10)
    show(chain, 2, 1)
    chain.refuse()

    assert (chain.ask, chain.ended) == (None, "cap")


def test_the_budget_ends_a_chain():
    chain = Chain(Offset(limit=2), 2)
    show(chain, 9, 8)
    show(chain, 8, 7)

    assert (chain.ask, chain.ended, chain.read) == (None, "budget", 2)


def test_steps_back_count_against_the_budget():
    chain = Chain(Offset(limit=4, overlap=1), 2)
    show(chain, 9, 8, 7, 6)
    show(chain, 3, 2, 1, 0)

    assert chain.ended == "budget"


def test_a_row_that_changed_is_shown_again_and_an_equal_one_is_not():
    chain = Chain(Offset(limit=2, overlap=1), 10)
    chain.take(None, 2, rows(9, 8))
    changed = Record("r8", {"n": "corrected"}, 8)

    assert chain.take(None, 2, [changed, *rows(7)]) == [changed, *rows(7)]


def test_two_equal_rows_in_one_page_are_both_passed_on():
    chain = Chain(None, 1)

    assert show(chain, 5, 5, 4) == [5, 5, 4]


@pytest.mark.parametrize("seed", range(50))
def test_no_row_is_skipped_however_the_pages_shift(seed):
    """Rows arrive at the head and go from anywhere while a newest-first feed is read to its end."""
    random = Random(seed)
    feed = list(range(1000, 900, -1))
    stayed = set(feed)
    chain = Chain(Offset(limit=10, overlap=3), 200)
    found = set()
    while chain.ask:
        found.update(show(chain, *feed[chain.ask.offset : chain.ask.offset + 10]))
        feed[:0] = range(feed[0] + random.randint(0, 5), feed[0], -1)
        for _ in range(random.choice((0, 0, 1, 3))):
            gone = feed.pop(random.randrange(len(feed)))
            stayed.discard(gone)

    assert stayed <= found


# ----- by token and by link


@pytest.mark.parametrize(
    ("paging", "expected"),
    [
        (Token(), Ask({"cursor": "abc"})),
        (Token("next_cursor", "after"), Ask({"after": "abc"})),
        (Next("next_cursor"), Ask({}, "abc")),
    ],
)
def test_a_token_or_link_leads_to_the_next_page(paging, expected):
    chain = Chain(paging, 10)
    show(chain, 9, 8, body={"next_cursor": "abc"})

    assert chain.ask == expected


@pytest.mark.parametrize("last", [{"next": None}, {"next": ""}, {"next": False}, {}, []])
def test_a_page_without_a_link_is_the_last(last):
    chain = Chain(Next(), 10)
    show(chain, 9, body=last)

    assert chain.ended == "end"


@pytest.mark.parametrize("paging", [Token("next"), Next()])
def test_a_token_or_link_that_comes_again_is_a_circle(paging):
    chain = Chain(paging, 100)
    show(chain, 9, body={"next": "a"})
    show(chain, 8, body={"next": "b"})

    with pytest.raises(Unreadable, match="what leads to the next one came before"):
        show(chain, 7, body={"next": "a"})


@pytest.mark.parametrize("given", [True, {"href": "x"}, ["x"], 1.5])
def test_a_token_that_is_no_text_is_refused(given):
    with pytest.raises(Unreadable, match="what leads to its next page is no text"):
        show(Chain(Token("next"), 10), 9, body={"next": given})


def test_a_function_that_finds_no_token_is_refused_with_a_sentence():
    with pytest.raises(Unreadable, match="what leads to its next page cannot be found"):
        show(Chain(Token(lambda body: body["next"]), 10), 9, body={})


def test_new_tokens_for_the_same_rows_lead_in_a_circle():
    chain = Chain(Token("next"), 100)

    with pytest.raises(Unreadable, match="in a circle"):
        show_again(chain, 9, 8)


def test_empty_pages_that_lead_on_are_followed_up_to_the_budget():
    chain = Chain(Token("next"), 50)
    for number in range(50):
        show(chain, body={"next": number})

    assert chain.ended == "budget"


def test_one_page_is_all_there_is_without_paging():
    chain = Chain(None, 10)

    assert chain.ask == Ask({})
    assert show(chain, 3, 2) == [3, 2]
    assert chain.ended == "end"


# ----- where reading stops


@pytest.mark.parametrize(
    ("numbers", "stop", "behind"),
    [
        ((9, 8, 7), 8, False),
        ((9, 8, 7, 6, 5), 8, True),
        ((9, 8, 0), 8, False),  # one row of a wrong time ends nothing
        ((9, 8, 7, 7, 7), 7, False),  # what stands at the stop is still to be read
        ((5,), 8, True),
        ((), 8, False),
        ((9, 8), None, False),
    ],
)
def test_a_page_lies_behind_the_stop_if_its_end_does(numbers, stop, behind):
    assert is_behind(rows(*numbers), stop) is behind


@pytest.mark.parametrize(
    ("part", "held"),
    [
        (Part(), [1, 5, 9]),
        (Part(since=5), [5, 9]),
        (Part(until=5), [1, 5]),
        (Part(2, 8), [5]),
        (Part(until=-float("inf")), []),
    ],
)
def test_a_round_hands_on_what_lies_in_its_part(part, held):
    assert [at for at in (1, 5, 9) if part.holds(at)] == held


@pytest.mark.parametrize(("until", "left"), [(None, []), (5, [9]), (9, [])])
def test_what_came_during_a_round_is_left_to_the_next(until, left):
    assert [at for at in (1, 5, 9) if Part(until=until).is_before(at)] == left


def test_the_highest_place_is_that_of_those_that_are_known():
    assert highest(None, 3, 7, None) == 7
    assert highest(None) is None
    assert highest() is None


def test_the_lowest_place_is_that_at_the_end_of_a_page():
    assert lowest(rows(1, 9, 8, 7)) == 7
    assert lowest([]) is None


def ended(why):
    chain = Chain(None, 1)
    chain.ended, chain.read = why, 7
    return chain


@pytest.mark.parametrize(
    ("cursor", "since", "reached", "why", "gap"),
    [
        (5, None, 8, "end", Gap(5, 8, "the feed ends before it")),
        (5, None, 8, "cap", Gap(5, 8, "the feed shows no more than 7 pages")),
        (5, None, 8, "budget", Gap(5, 8, "7 pages were read without coming to it: raise pages=")),
        (5, None, 5, "end", None),
        (5, None, 5, "cap", Gap(5, 5, "the feed shows no more than 7 pages")),
        (5, None, 4, "cap", None),
        (5, None, None, "cap", None),
        (None, None, 8, "end", None),
        (None, None, 8, "budget", None),
        (None, None, 8, "cap", None),
        (None, 5, 8, "end", None),
        (None, 5, 8, "cap", Gap(5, 8, "the feed shows no more than 7 pages")),
        (None, 5, 4, "cap", None),
    ],
)
def test_what_a_newest_first_chain_left_unread_is_a_gap(cursor, since, reached, why, gap):
    assert gap_behind(Cursor(cursor), since, reached, ended(why)) == gap


@pytest.mark.parametrize(
    ("cursor", "numbers", "gap"),
    [
        (5, (5, 6, 7), None),
        (5, (6, 4, 7), None),
        (5, (7, 6, 8), Gap(5, 6, "the feed no longer shows what stood at the cursor")),
        (5, (), None),
        (None, (7, 8), None),
    ],
)
def test_what_is_missing_before_an_oldest_first_chain_is_a_gap(cursor, numbers, gap):
    assert gap_before(Cursor(cursor), rows(*numbers)) == gap
