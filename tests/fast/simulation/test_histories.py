"""Histories as they come: no promise is broken, and a seed says everything that happens."""

import pytest

from proof.sim.history import live
from proof.sim.trace import digest, digests, told

SEED = 2


@pytest.mark.parametrize("start", [0, 100, 200])
def test_no_promise_is_broken_in_a_hundred_histories(start):
    broken = {seed: str(one) for seed in range(start, start + 100) for one in live(seed).violations}

    assert broken == {}


def test_tracing_changes_nothing():
    traced, plain = live(SEED, tracing=True), live(SEED)

    assert [one.writes for one in traced.subjects] != []
    assert (traced.events, traced.now) == (plain.events, plain.now)


def test_different_seeds_give_different_histories():
    assert len(set(digests(range(50)))) == 50


def test_a_trace_tells_the_faults_the_steps_and_a_verdict_for_every_promise():
    text = told(live(SEED, tracing=True))

    assert text.startswith("seed 2: ")
    assert "asks swap" in text
    assert "everything heals" in text
    assert "kept    effects: no effect happens more often than its class allows" in text


def test_a_digest_names_what_happened():
    world = live(SEED, tracing=True)
    before = digest(world)
    world.note("nobody", "was here")

    assert before != digest(world)
