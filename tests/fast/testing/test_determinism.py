"""Equal seeds give equal histories, whatever the process did before; and what would happen otherwise."""

import asyncio
import gc
from collections.abc import AsyncIterator, Callable
from itertools import zip_longest
from random import Random
from typing import Any

import pytest
from websockets.asyncio.connection import Connection

from onefold.testing import order, virtual
from onefold.testing.virtual import VirtualLoop
from tests.fast.testing.busy import Story

SEED = 11


def differences(one: list[str], other: list[str]) -> list[tuple[str, str]]:
    return [pair for pair in zip_longest(one, other, fillvalue="") if pair[0] != pair[1]]


@pytest.mark.parametrize("times", [3, pytest.param(20, marks=pytest.mark.slow)])
def test_a_history_is_the_same_after_anything_else_in_the_process(times: int):
    first = Story(SEED).tell()
    draws, garbage = Random(1), []

    for _ in range(times):
        # What was allocated decides which addresses are free, and when the collector would have run.
        garbage += [bytearray(draws.randrange(10, 2000)) for _ in range(draws.randrange(20_000))]
        draws.shuffle(garbage)
        del garbage[len(garbage) // 2 :]
        gc.set_threshold(draws.randrange(100, 1000))
        assert differences(Story(SEED).tell(), first) == []


@pytest.fixture(autouse=True)
def _thresholds():
    before = gc.get_threshold()
    yield
    gc.set_threshold(*before)


def test_a_history_shows_every_kind_of_event():
    story = "\n".join(Story(SEED).tell())

    for word in (
        "cancelled", "race", "stream closed", "ReadTimeout", "ReadError", "ConnectError", "200", "broadcast",
        "feed ends", "server closed", "generator ends", "cancelled left",
    ):  # fmt: skip
        assert word in story


def scrambled(run: int, number: Callable[[Any], int]) -> Callable[[Any], int]:
    """Hash like a memory address: always the same for one object, different in every run."""
    return lambda thing: Random(f"{run} {number(thing)}").getrandbits(40)


@pytest.mark.parametrize("kind", [order._Task, order._Future, order._Scope, order._Event])
def test_with_hashes_like_addresses_the_same_seed_gives_other_histories(kind, monkeypatch):
    stories, number = [], kind.__hash__
    for run in (1, 2):
        monkeypatch.setattr(kind, "__hash__", scrambled(run, number))
        stories.append(Story(SEED).tell())

    assert differences(*stories)


@pytest.mark.parametrize("kind", [Connection, asyncio.tasks._GatheringFuture])  # type: ignore[attr-defined]
def test_with_foreign_hashes_like_addresses_the_same_seed_gives_other_histories(kind, monkeypatch):
    stories, number = [], order._numbered
    for run in (1, 2):
        other = scrambled(run, number)
        monkeypatch.setattr(
            order,
            "_numbered",
            lambda thing, other=other: (other if isinstance(thing, kind) else number)(thing),
        )
        stories.append(Story(SEED).tell())

    assert differences(*stories)


def collected(threshold: int) -> list[str]:
    """Tell when abandoned generators end that only the garbage collector finds."""
    gc.set_threshold(threshold)
    loop, lines = VirtualLoop(1), []

    async def numbers(number: int, circle: list[Any]) -> AsyncIterator[int]:
        try:
            yield number
        finally:
            lines.append(f"{loop.time()} {number}")

    async def main() -> None:
        for number in range(1000):
            circle: list[Any] = []
            circle.append(numbers(number, circle))
            await anext(circle[0])
            await asyncio.sleep(1)

    loop.run(main())
    return lines


def test_garbage_is_collected_at_the_same_turns_in_every_run(monkeypatch):
    monkeypatch.setattr(virtual, "COLLECT_EVERY", 700)

    lines = collected(threshold=50)

    assert lines == collected(threshold=5000)
    assert len(lines) == 1000
    assert 1 < len({line.split()[0] for line in lines}) < 10  # during the run, and at its end


def test_with_the_collector_at_work_garbage_is_collected_at_other_moments(monkeypatch):
    monkeypatch.setattr(gc, "disable", lambda: None)

    assert collected(threshold=50) != collected(threshold=5000)
