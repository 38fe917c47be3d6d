"""Steps of a walk: which one is taken up, which are kept, what a page in the middle proves."""

from __future__ import annotations

import json
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onefold.core.paging import Ask, Chain, Next, Offset, Token
from onefold.core.record import Record
from onefold.core.trail import LONGEST, MOST, Step, Trail, bound, taken_up


def step(at: float, ask: Ask | None = None) -> Step:
    return Step(at, ask or Ask({}, offset=int(at)), 1)


def trail(*places: float) -> Trail:
    return Trail("a", tuple(map(step, places)))


def rows(*places: float) -> list[Record]:
    return [Record(str(at), {}, at) for at in places]


@pytest.mark.parametrize(
    ("above", "at"), [(None, 10), (9, 10), (10, 20), (25, 30), (30, None), (float("inf"), None)]
)
def test_a_walk_is_taken_up_at_the_lowest_step_above_a_place(above, at):
    found = trail(10, 20, 30).lowest(above)

    assert (found and found.at) == at


def test_a_step_replaces_one_at_the_same_place():
    newer = step(5, Ask({"cursor": "newer"}))

    assert trail(5, 7).longer(newer).steps == (newer, step(7))


@pytest.mark.parametrize("ask", [Ask({"cursor": "x" * LONGEST}), Ask({}, link="x" * (LONGEST + 1))])
def test_a_step_with_a_huge_token_or_link_is_not_kept(ask):
    assert trail(5).longer(step(4, ask)) == trail(5)


@given(st.integers(1, 500))
def test_a_long_walk_keeps_few_steps_and_always_its_lowest(number):
    walked = Trail("a")
    for at in range(number, 0, -1):
        walked = walked.longer(step(at))
        assert walked.steps[0].at == at
        assert len(walked.steps) <= MOST
        assert all(one.at < two.at for one, two in pairwise(walked.steps))


def test_a_step_whose_page_moved_up_stands_where_it_leads_now():
    assert [one.at for one in trail(5, 10, 20).replaced(step(5), 15).steps] == [10, 15, 20]


def test_steps_up_to_a_place_are_dropped():
    assert trail(5, 10, 20).beyond(10) == trail(20)
    assert trail(5).beyond(None) == trail(5)


@pytest.mark.parametrize(
    "ask", [Ask({"limit": "5", "offset": "40"}, offset=40), Ask({"cursor": "x"}), Ask({}, "/next?page=2")]
)
def test_a_trail_is_stored_as_json_and_read_again(ask):
    left = Trail("a", (step(3, ask),), 2)

    assert taken_up(json.loads(json.dumps(left.written(1))), "a", 1) == left


def test_what_was_handed_on_is_forgotten_when_the_cursor_moves():
    left = Trail("a", (step(3),), 2)

    assert taken_up(left.written(1), "a", 0) == left._replace(done=None)


@pytest.mark.parametrize("known", [None, {}, "x", 5, {"base": 3}, trail(1).written(None) | {"of": "b"}])
def test_the_mark_of_another_feed_or_source_is_no_trail(known):
    assert taken_up(known, "a", None) == Trail("a")


# ----- what a page in the middle proves


@pytest.mark.parametrize(
    ("places", "passed", "until"),
    [
        ((9, 8, 7, 6), None, 7),
        ((9, 8, 7, 6), 6, 7),
        ((9, 8, 7, 6), 7, None),
        ((9, 9, 9), None, 9),
        ((99, 8, 7), None, 7),  # one wrong time
        ((9, 1, 8, 7), None, 1),  # costs time and loses nothing
        ((9,), None, 9),
        ((), None, None),
    ],
)
def test_a_walk_that_begins_with_a_page_hands_on_nothing_younger_than_its_first_rows(places, passed, until):
    assert bound(rows(*places), passed) == until


# ----- a chain that goes on


def test_a_chain_goes_on_where_it_is_told():
    assert Chain(Token(), 9, Ask({"cursor": "x"}), 3).ask == Ask({"cursor": "x"})
    assert Chain(Next(), 9, Ask({}, "/x"), 3).ask == Ask({}, "/x")
    assert Chain(Offset(limit=5), 9, Ask({}, offset=40), 3).ask == Ask(
        {"limit": "5", "offset": "40"}, None, 40
    )


def test_pages_that_were_read_before_count_towards_the_budget():
    chain = Chain(Offset(limit=2, overlap=1), 4, Ask({}, offset=6), 2)
    assert chain.is_new

    chain.take([], 2, rows(9, 8))
    assert (chain.is_new, chain.joined, chain.ended) == (False, True, None)
    chain.take([], 2, rows(8, 7))
    assert (chain.joined, chain.ended, chain.read) == (True, "budget", 4)


@pytest.mark.parametrize(
    ("chain", "may_be"),
    [
        (Chain(Token(), 9), False),
        (Chain(Offset(), 9), False),
        (Chain(Token(), 9, Ask({"cursor": "old"}), 3), True),
        (Chain(Offset(), 9, Ask({}, offset=0), 3), True),
        (Chain(Offset(), 9, Ask({}, offset=90), 3), True),
    ],
)
def test_only_a_page_far_back_or_one_that_a_step_leads_to_may_be_refused(chain, may_be):
    assert chain.may_be_refused is may_be

    chain.refuse()
    assert not chain.may_be_refused
