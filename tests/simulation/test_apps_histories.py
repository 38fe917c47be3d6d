"""Histories of every application break no promise, and each is the same whenever it is lived."""

import pytest

from proof.apps.candles import Candles
from proof.apps.copytrade import Copytrade
from proof.apps.listings import Listings
from proof.apps.messages import Messages
from proof.apps.whales import Whales
from tests.simulation.living import ABANDONED, lived

pytestmark = ABANDONED

HISTORIES = {Whales: 12, Messages: 24, Candles: 20, Listings: 12, Copytrade: 12}


@pytest.mark.parametrize(
    ("part", "seed"),
    [
        pytest.param(part, seed, id=f"{part.name}-{seed}")
        for part, number in HISTORIES.items()
        for seed in range(number)
    ],
)
def test_a_history_breaks_no_promise(part, seed):
    assert [str(one) for one in lived(part, seed).violations] == []


@pytest.mark.parametrize("part", HISTORIES, ids=[part.name for part in HISTORIES])
def test_histories_are_the_same_in_any_order(part):
    digests = [lived(part, seed).digest for seed in (6, 7, 8)]

    assert [lived(part, seed).digest for seed in (8, 7, 6)] == digests[::-1]
    assert len(set(digests)) == 3
