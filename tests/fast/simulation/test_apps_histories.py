"""Histories of the applications break no promise.

Whales has its own file: no warning is ignored there. That each history is the same whenever it is lived is
tested in tests/processes/simulation, because it must hold in every process and under every hash seed.
"""

import pytest

from proof.apps.candles import Candles
from proof.apps.copytrade import Copytrade
from proof.apps.listings import Listings
from proof.apps.messages import Messages
from tests.fast.simulation.living import ABANDONED, lived

pytestmark = ABANDONED

HISTORIES = {Messages: 24, Candles: 20, Listings: 12, Copytrade: 12}


@pytest.fixture(autouse=True)
def short(part, monkeypatch):
    # No history of copytrade with these seeds needs a minute of quiet; one that does hangs on something.
    if part is Copytrade:
        monkeypatch.setattr("proof.apps.history.LONGEST", 60.0)


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
