"""Living through histories of applications in tests."""

import pytest

from proof.apps.history import History
from proof.apps.part import Part

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
