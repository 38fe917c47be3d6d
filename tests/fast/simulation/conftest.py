"""What holds for every simulated history: nothing is logged, and its remains disturb no later test."""

import gc
import logging
from collections.abc import Iterator

import pytest

from tests.fast.outside import guarded


@pytest.fixture(autouse=True)
def loop() -> Iterator[None]:
    """Guard the test, but give it no loop: a history makes its own."""
    with guarded():
        yield


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """Log nothing: workers complain of every fault, and a history has many."""
    logging.disable()
    yield
    logging.disable(logging.NOTSET)


@pytest.fixture(autouse=True, scope="module")
def cleared() -> Iterator[None]:
    """Collect what lives left behind while the last test of the file still ignores warnings about it."""
    yield
    gc.collect()
