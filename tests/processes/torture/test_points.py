"""Crash points are named by what the tap sees, and a point that the table does not know is reported."""

import pytest

from onefold import Key, Ledger
from onefold.core.entry import EFFECTS, Effect
from onefold.testing.torture.points import Tripwire, spots


def passed(wire_effect: Effect, *steps: str) -> list[tuple[object, ...]]:
    """Let a claim and its settlement pass a tripwire under these names; return what it reported."""
    reported: list[tuple[object, ...]] = []
    wire = Tripwire(wire_effect, None, lambda *words: reported.append(words))
    ledger = Ledger("memory:")
    ledger.tap = wire.tap
    with wire.during(steps[0]):
        claim = ledger.claim(Key("k", 1), effect="idempotent")
    with wire.during(steps[1]):
        claim.settle()
    return reported


def test_points_of_the_table_pass_in_silence():
    assert passed("one-shot", "claim", "settle") == []


def test_a_point_that_is_not_in_the_table_is_reported():
    assert passed("one-shot", "claim", "tidy") == [
        ("unlisted", "tidy: before swap"),
        ("unlisted", "tidy: after swap"),
    ]


@pytest.mark.parametrize("effect", EFFECTS)
def test_no_point_stands_in_the_table_twice_and_400_kills_hit_each_ten_times(effect: Effect):
    points = [spot.point for spot in spots(effect)]

    assert len(set(points)) == len(points) <= 30


def test_only_one_shot_effects_are_parked_and_only_joined_ones_are_committed():
    steps = {effect: {spot.point.partition(":")[0] for spot in spots(effect)} for effect in EFFECTS}

    assert [effect for effect in EFFECTS if "park" in steps[effect]] == ["one-shot"]
    assert [effect for effect in EFFECTS if "commit" in steps[effect]] == ["joined"]
