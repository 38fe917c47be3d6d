"""Clocks that differ: where a store has none, every decision takes the side on which nothing can go wrong.

The grids go through all clocks of a writer and a reader that are at most `SKEW` apart, and compare what is
decided with what is true.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import pytest
from msgspec.structs import replace

from onefold.core import claims
from onefold.core.claims import Answer, Bid, Ending, Hold
from onefold.core.entry import NOTHING, Change, Effect, Entry, Seen
from onefold.core.key import Key
from onefold.core.protocol import claim, end, purge, ready
from onefold.core.sightings import Sightings
from onefold.core.story import tell
from onefold.core.terms import Terms
from onefold.drive import Ports, run
from onefold.testing.clock import FakeClock
from onefold.testing.wrong.steps import Clockless

KEY = Key("charges", "A-17")
SKEW = 60.0
LEASE = 90.0
WINDOW = 1000.0
TERMS = Terms(lease=LEASE)
MARGIN = TERMS.margin
WRITTEN = 5000.0
OFFSETS = (-60.0, -30.0, 0.0, 30.0, 60.0)
PASSED = (
    0.0,
    1.0,
    59.0,
    61.0,
    89.0,
    90.0,
    149.0,
    151.0,
    211.0,
    450.0,
    499.0,
    500.0,
    879.0,
    931.0,
    989.0,
    991.0,
    2000.0,
)


def clocks() -> Iterator[tuple[float, float, float]]:
    """Give how far a writer's and a reader's clock are off, and how much time really passed in between."""
    for writer, reader, passed in product(OFFSETS, OFFSETS, PASSED):
        if abs(writer - reader) <= SKEW:
            yield writer, reader, passed


def look(entry: Entry, writer: float, reader: float, passed: float) -> Seen:
    """Show an entry, written by one clock, to another."""
    stored = replace(
        entry,
        written=WRITTEN + writer,
        begun=None if entry.begun is None else WRITTEN + writer,
        not_before=None if entry.not_before is None else WRITTEN + writer + entry.not_before,
        expires=None if entry.expires is None else WRITTEN + writer + entry.expires,
    )
    return Seen(stored, max(WRITTEN + reader + passed - stored.written, 0.0), SKEW)


def decide(seen: Seen, effect: Effect = "idempotent", window: float | None = None) -> Change | Answer:
    return claims.claim(Bid(KEY, "bob", TERMS, effect, window), seen)


def takes(verdict: Change | Answer) -> bool:
    return isinstance(verdict, Change) and verdict.entry is not None and verdict.entry.state == "held"


HELD = Entry("held", token="ann", version=7, effect="idempotent", lease=LEASE)


def test_no_claim_is_taken_over_before_its_lease_is_really_over():
    for writer, reader, passed in clocks():
        if takes(decide(look(HELD, writer, reader, passed))):
            assert passed >= LEASE, (writer, reader, passed)


def test_every_dead_holder_is_taken_over_by_the_clock_on_the_wall():
    for writer, reader, passed in clocks():
        if passed >= LEASE + 2 * SKEW:
            assert takes(decide(look(HELD, writer, reader, passed))), (writer, reader, passed)


def test_clocks_that_agree_wait_for_the_lease_and_the_skew():
    at_last = LEASE + SKEW

    assert not takes(decide(look(HELD, 0, 0, at_last - 0.001)))
    assert takes(decide(look(HELD, 0, 0, at_last)))


def test_a_busy_answer_says_how_long_it_may_take():
    answer = decide(look(HELD, 0, 0, 100.0))

    assert isinstance(answer, Answer)
    assert (answer.state, answer.wait) == ("busy", LEASE + SKEW - 100.0)


def test_what_is_done_is_never_forgotten_before_its_time():
    done = replace(HELD, state="done", expires=500.0)
    for writer, reader, passed in clocks():
        seen = look(done, writer, reader, passed)
        if takes(decide(seen)):
            assert passed >= 500.0, (writer, reader, passed)
        if passed >= 500.0 + 2 * SKEW:
            assert takes(decide(seen)), (writer, reader, passed)


def test_what_is_removed_is_followed_by_a_higher_version():
    done = replace(HELD, state="done", expires=0.0)
    for writer, reader, passed in clocks():
        if claims.forgotten(look(done, writer, reader, passed)):
            # The first of its writers may have been ahead of the last one, and the next is behind the purge.
            first, after = WRITTEN + writer + SKEW, WRITTEN + reader + passed - SKEW
            assert after >= first, (writer, reader, passed)


@pytest.mark.parametrize(
    ("seen", "forgotten"),
    [
        (NOTHING, False),
        (Seen(HELD, 1e9), False),
        (Seen(replace(HELD, state="done"), 1e9), False),
        (Seen(replace(HELD, state="done", written=10.0, expires=15.0), 4.9), False),
        (Seen(replace(HELD, state="done", written=10.0, expires=15.0), 5.0), True),
        (Seen(replace(HELD, state="done", written=10.0, expires=15.0), 124.9, SKEW), False),
        (Seen(replace(HELD, state="done", written=10.0, expires=15.0), 125.0, SKEW), True),
    ],
)
def test_only_what_is_certainly_forgotten_may_be_removed(seen, forgotten):
    assert claims.forgotten(seen) is forgotten


def test_no_keyed_effect_runs_again_when_the_far_side_may_have_forgotten_it():
    for state in ("held", "free"):
        begun = replace(HELD, state=state, effect="keyed", begun=0.0)
        for writer, reader, passed in clocks():
            if takes(decide(look(begun, writer, reader, passed), "keyed", WINDOW)):
                assert passed < WINDOW - MARGIN, (state, writer, reader, passed)


def test_a_back_off_is_a_courtesy_and_lasts_as_long_as_the_readers_clock_says():
    free = replace(HELD, state="free", not_before=10.0)

    assert not takes(decide(look(free, 0, 0, 9.9)))
    assert takes(decide(look(free, 0, 0, 10.0)))
    assert takes(decide(look(free, -30, 30, 0.0)))


def test_what_a_process_watched_itself_is_certain_whatever_the_clocks_say():
    sightings = Sightings()
    stored = replace(HELD, written=WRITTEN)
    mine = [Change(KEY, None, replace(HELD, token="bob"))]

    sightings.judge(mine, [Seen(stored, 0.0, SKEW)], now=100.0)
    [early] = sightings.judge(mine, [Seen(stored, 0.0, SKEW)], now=100.0 + LEASE - 0.1)
    [late] = sightings.judge(mine, [Seen(stored, 0.0, SKEW)], now=100.0 + LEASE)

    assert isinstance(early, Seen)
    assert isinstance(late, Seen)
    assert (early.skew, late.skew) == (SKEW, SKEW)
    assert not takes(decide(early))
    assert takes(decide(late))


def test_people_are_told_of_a_silent_holder_when_others_may_act_on_it():
    held = replace(HELD, written=WRITTEN)

    assert "its lease ends in" in tell(KEY, Seen(held, LEASE, SKEW))
    assert "fell silent" in tell(KEY, Seen(held, LEASE + SKEW, SKEW))


# ----- flows on a store without a clock


def test_a_winner_who_was_kept_waiting_counts_the_skew_into_the_window():
    clock = FakeClock()
    ports = Ports(Clockless(clock), clock)
    bid = Bid(KEY, "bob", TERMS, "keyed", WINDOW)
    [won] = run(claim([bid]), ports)
    assert won.entry is not None
    first = won.entry.written - (WINDOW - MARGIN - SKEW)
    begun_before = replace(won.entry, begun=first + 0.1)
    too_late = replace(won.entry, begun=first)

    assert won.skew == SKEW
    assert run(ready(bid, Answer("won", begun_before, 0.0, won.since, SKEW)), ports).state == "won"
    assert run(ready(bid, Answer("won", too_late, 0.0, won.since, 0.0)), ports).state == "won"
    assert run(ready(bid, Answer("won", too_late, 0.0, won.since, SKEW)), ports).state == "busy"


def test_a_purge_waits_until_no_clock_remembers():
    clock = FakeClock()
    ports = Ports(Clockless(clock), clock)
    terms = Terms(keep=10)
    [won] = run(claim([Bid(KEY, "ann", terms)]), ports)
    assert won.entry is not None
    run(end([(Hold(KEY, "ann", won.entry), Ending("returned", "1"), terms)]), ports)

    clock.sleep(10 + 2 * SKEW - 0.1)
    assert run(purge(), ports) == 0
    clock.sleep(0.2)
    assert run(purge(), ports) == 1
