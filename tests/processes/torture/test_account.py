"""The account finds every kind of broken promise, and explains only what a death explains."""

from collections.abc import Sequence

import pytest
from msgspec.structs import replace

from onefold.core.entry import Effect, Entry
from onefold.testing.torture.account import Account, Run, Trail, account, trail
from onefold.testing.torture.farside import Line, Word

DONE = Entry("done")
PARKED = Entry("parked", why="in-doubt")

LIVED = Trail(1, killed=False)
DIED_AT_7 = Trail(1, killed=True, open=frozenset({7}))
LOST_7 = Trail(1, killed=False, lost=frozenset({7}))


def acted(*words: Word, pid: int = 1) -> list[Line]:
    return [Line(word, 7, 100 + pid, pid, pid) for word in words]


def judged(
    effect: Effect, entry: Entry | None, lines: Sequence[Line], *trails: Trail, complaints: Sequence[str] = ()
) -> Account:
    """Take the account of one key, number 7."""
    return account(Run(effect, [7], {7: entry} if entry else {}, lines, trails, complaints))


ONCE = acted("arrived", "accepted")
AGAIN = [*ONCE, *acted("arrived", "accepted", pid=2)]
IGNORED = [*ONCE, *acted("arrived", "repeated", pid=2)]


@pytest.mark.parametrize(
    ("effect", "entry", "lines", "trails"),
    [
        ("joined", DONE, ONCE, [LIVED]),
        ("keyed", DONE, ONCE, [LIVED]),
        ("keyed", DONE, IGNORED, [DIED_AT_7]),
        ("keyed", DONE, IGNORED, [LOST_7]),
        ("idempotent", DONE, AGAIN, [DIED_AT_7]),
        ("idempotent", DONE, AGAIN, [LOST_7]),
        ("one-shot", DONE, ONCE, [LIVED]),
        ("one-shot", PARKED, [], [DIED_AT_7]),
        ("one-shot", PARKED, acted("arrived"), [DIED_AT_7]),
        ("one-shot", PARKED, ONCE, [DIED_AT_7]),
    ],
)
def test_what_is_promised_raises_no_finding(effect, entry, lines, trails):
    assert judged(effect, entry, lines, *trails).holds


@pytest.mark.parametrize("effect", ["joined", "keyed", "one-shot"])
def test_an_effect_that_was_had_twice_is_duplicated_even_after_a_death(effect: Effect):
    found = judged(effect, DONE, AGAIN, DIED_AT_7)

    assert found.duplicated == (7,)
    assert not found.holds


@pytest.mark.parametrize("effect", ["joined", "keyed", "idempotent", "one-shot"])
def test_a_key_that_the_ledger_calls_done_and_the_far_side_never_saw_is_lost(effect: Effect):
    found = judged(effect, DONE, [], LIVED)

    assert found.lost == (7,)
    assert not found.holds


def test_an_idempotent_effect_that_was_repeated_for_no_reason_is_unexplained():
    found = judged("idempotent", DONE, AGAIN, LIVED, Trail(2, killed=True))

    assert found.unexplained == ("key 7 was acted upon 2 times without a reason to repeat it",)


def test_a_death_explains_the_repeats_of_its_own_worker_only():
    found = judged("idempotent", DONE, AGAIN, Trail(3, killed=True, open=frozenset({7})))

    assert not found.holds


def test_a_repeat_that_the_far_side_ignored_needs_a_reason_too():
    assert judged("keyed", DONE, IGNORED, LIVED).unexplained


def test_a_one_shot_effect_that_was_started_twice_is_unexplained_even_if_it_was_finished_once():
    found = judged("one-shot", DONE, [*acted("arrived"), *acted("arrived", "accepted", pid=2)], DIED_AT_7)

    assert found.duplicated == ()
    assert len(found.unexplained) == 1


@pytest.mark.parametrize("effect", ["joined", "keyed", "idempotent"])
def test_only_one_shot_effects_may_be_parked(effect: Effect):
    assert judged(effect, PARKED, [], DIED_AT_7).unexplained


@pytest.mark.parametrize("entry", [PARKED, Entry("parked", why="failed")])
def test_a_key_that_was_parked_without_a_death_is_unexplained(entry: Entry):
    assert judged("one-shot", entry, [], LIVED).unexplained


def test_a_key_that_was_parked_as_failed_is_unexplained():
    assert judged("one-shot", Entry("parked", why="failed"), [], DIED_AT_7).unexplained


@pytest.mark.parametrize("entry", [None, Entry("free"), Entry("held")])
def test_a_key_that_is_not_over_at_the_end_is_unexplained(entry: Entry | None):
    assert judged("keyed", entry, ONCE, LIVED).unexplained


def test_half_an_effect_in_a_transaction_is_unexplained():
    found = judged("joined", DONE, [*ONCE, *acted("arrived", pid=2)], LIVED)

    assert found.unexplained == ("key 7 has half an effect",)


def test_work_on_a_key_that_nobody_listed_is_unexplained():
    found = account(Run("keyed", [], {7: DONE}, ONCE, []))

    assert found.unexplained == ("key 7 is not in the list, yet somebody worked on it",)


def test_what_the_run_complains_of_is_unexplained():
    assert judged("keyed", DONE, ONCE, LIVED, complaints=["a worker failed"]).unexplained == (
        "a worker failed",
    )


def test_the_reasons_for_repeats_are_counted():
    assert judged("idempotent", DONE, AGAIN, DIED_AT_7).repeats == {"a kill between effect and settle": 1}
    assert judged("keyed", DONE, IGNORED, LOST_7).repeats == {"a lease that ran out": 1}
    assert judged("idempotent", DONE, ONCE, DIED_AT_7).repeats == {}


def test_a_trail_keeps_what_was_reached_for_and_did_not_end():
    said = [
        ("reach", "1"),
        ("end", "1", "settled"),
        ("reach", "2"),
        ("reach", "3"),
        ("end", "3", "lost"),
        ("dies", "effect: after"),
    ]

    assert trail(9, True, said) == Trail(9, True, open=frozenset({2}), lost=frozenset({3}))


UNSURE_OF_7 = Trail(1, False, unsure=frozenset({7}))


def test_a_server_that_was_killed_explains_a_repeat_where_repeats_are_allowed():
    assert judged("idempotent", DONE, AGAIN, UNSURE_OF_7).repeats == {"a kill of the server": 1}
    assert not judged("idempotent", DONE, AGAIN, UNSURE_OF_7).unexplained
    assert judged("one-shot", DONE, AGAIN, UNSURE_OF_7).unexplained
    assert judged("joined", DONE, AGAIN, UNSURE_OF_7).unexplained


def test_a_server_that_was_killed_explains_what_is_in_doubt_and_nothing_else():
    doubt = Entry("parked", why="in-doubt")

    assert not judged("one-shot", doubt, ONCE, UNSURE_OF_7).unexplained
    assert judged("one-shot", replace(doubt, why="failed"), ONCE, UNSURE_OF_7).unexplained
    assert judged("one-shot", doubt, ONCE, LIVED).unexplained


def test_a_trail_keeps_what_a_killed_server_left_unsaid():
    said = [("reach", "1"), ("end", "1", "unsure"), ("reach", "2"), ("end", "2", "settled")]

    assert trail(9, False, said) == Trail(9, False, unsure=frozenset({1}))
