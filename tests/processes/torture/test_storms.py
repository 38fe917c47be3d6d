"""`./dev torture storm`: signals strike a process at any moment, and the ledger keeps its promises."""

import sys
from collections import Counter
from pathlib import Path

import pytest

from onefold.testing.torture.storms import Weather, is_inside
from tests.torture.ended import Ended

CALLS = {
    "memory": 2000,
    "sqlite": 300,
    "postgresql": 200,
    "mariadb": 200,
    "redis": 200,
    "mongodb": 100,
    "dynamodb": 60,
    "cassandra": 20,
}
"""Calls in the everyday storm. A driver that was struck connects again, which takes some of them long."""

on_every_store = pytest.mark.parametrize(
    "store", [pytest.param(name, marks=pytest.mark.store(name)) for name in CALLS]
)


def ended(store: str, calls: int, request: pytest.FixtureRequest, folder: Path) -> Ended:
    variables = {}
    if store not in ("memory", "sqlite"):
        variables[f"{store.upper()}_URL"] = request.getfixturevalue(f"{store}_server").url
    return Ended(folder, "storm", "--store", store, "--calls", str(calls), **variables)


@pytest.mark.timeout(550)
@on_every_store
def test_a_ledger_survives_a_storm_of_interrupts(store: str, request: pytest.FixtureRequest, tmp_path: Path):
    storm = ended(store, CALLS[store], request, tmp_path)

    assert storm.code == 0, storm.text
    assert storm.number("strikes") > 0
    assert storm.number("duplicated") == storm.number("done without running") == 0
    assert storm.left == []


@pytest.mark.slow
@pytest.mark.timeout(3600)
@on_every_store
def test_a_ledger_survives_two_thousand_calls_in_a_storm(
    store: str, request: pytest.FixtureRequest, tmp_path: Path
):
    storm = ended(store, 2000, request, tmp_path)

    assert storm.code == 0, storm.text
    assert storm.number("calls") == 2000
    assert storm.number("duplicated") == storm.number("done without running") == 0


def test_a_strike_counts_only_inside_of_a_call():
    # A second signal can strike the handler of the first. The loop around the calls must not be struck by it.
    def handler() -> bool:
        return is_inside(call.__code__, sys._getframe())

    def call() -> bool:
        return handler()

    assert call()
    assert not handler()
    assert not is_inside(call.__code__, None)


# ----- the verdict


def weather(ran: Counter[int], states: dict[int, str], *unexplained: str) -> Weather:
    return Weather(2, 1, ran, states, unexplained)


def test_keys_that_ran_once_or_were_given_up_are_in_order():
    assert weather(Counter({0: 1}), {0: "done", 1: "held"}).holds


def test_an_effect_that_ran_twice_is_found():
    found = weather(Counter({0: 1, 1: 2}), {0: "done", 1: "done"})

    assert not found.holds
    assert found.duplicated == (1,)


def test_a_key_that_is_done_without_having_run_is_found():
    found = weather(Counter({0: 1}), {0: "done", 1: "done"})

    assert not found.holds
    assert found.unfounded == (1,)


def test_a_ledger_that_is_stuck_or_raises_something_else_is_found():
    assert not weather(Counter({0: 1}), {0: "done"}, "a call raised IndexError").holds
