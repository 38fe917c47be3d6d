"""Back-off: doubling up to a cap, half of it chance, and forgotten only after a stable time."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onefold.core.backoff import Backoff, failures_now, pause

PLAIN = Backoff(0.5, 60.0)


@pytest.mark.parametrize(
    ("failures", "chance", "expected"),
    [
        (0, 1.0, 0.5),
        (1, 1.0, 0.5),
        (1, 0.0, 0.25),
        (2, 1.0, 1.0),
        (3, 0.5, 1.5),
        (7, 1.0, 32.0),
        (8, 1.0, 60.0),
        (8, 0.0, 30.0),
        (10_000, 1.0, 60.0),
    ],
)
def test_a_pause_doubles_with_every_failure_up_to_the_longest_and_half_of_it_is_chance(
    failures, chance, expected
):
    assert pause(PLAIN, failures, chance) == expected


@given(st.integers(0, 5000), st.floats(0, 1))
def test_a_pause_is_never_nothing_and_never_longer_than_the_longest(failures, chance):
    assert 0.25 <= pause(PLAIN, failures, chance) <= 60.0


@pytest.mark.parametrize(
    ("stable", "failures", "well_for", "expected"),
    [
        (60.0, 0, None, 1),
        (60.0, 4, None, 5),
        (60.0, 4, 59.9, 5),
        (60.0, 4, 60.0, 1),
        (0.0, 4, 0.0, 1),
        (0.0, 4, None, 5),
    ],
)
def test_failures_are_forgotten_only_after_a_stable_time(stable, failures, well_for, expected):
    assert failures_now(Backoff(stable=stable), failures, well_for) == expected
