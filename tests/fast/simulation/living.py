"""Living through histories in tests: of applications, and those that must show a planted bug."""

from collections.abc import Iterable
from importlib import import_module
from itertools import islice

import pytest

from proof.apps.history import History
from proof.apps.part import Part
from proof.sim.bug import Bug
from proof.sim.part import HISTORIES
from proof.sim.planting import planted

ABANDONED = pytest.mark.filterwarnings("ignore:coroutine .* was never awaited:RuntimeWarning")
"""For tests in which lives end: they leave coroutines behind that never began, as a killed process does."""


def lived(part: type[Part], seed: int) -> History:
    """Live through one history."""
    history = History(part, seed)
    history.live()
    return history


def broken(history: History) -> set[str]:
    """Name the promises that a history broke."""
    return {one.promise for one in history.violations}


def seen(bug: Bug, seeds: Iterable[int], most: int | None = 1) -> set[str]:
    """Plant a bug, and name the checkers that see it in the first history that shows it, or in so many."""
    with planted(bug):
        live = import_module(HISTORIES[bug.history]).live
        shown = (found for seed in seeds if (found := live(seed).violations))
        return {one.checker for found in islice(shown, most) for one in found}
