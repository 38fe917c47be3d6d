"""Histories of whales: clean as it is, the same whenever they are lived, and able to show a loss."""

import logging
from collections.abc import Iterator

import pytest

from proof.apps.history import History
from proof.apps.whales import Whales


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    logging.disable()
    yield
    logging.disable(logging.NOTSET)


def lived(seed: int) -> History:
    history = History(Whales, seed)
    history.live()
    return history


@pytest.mark.parametrize("seed", range(12))
def test_whales_keeps_its_promises(seed):
    assert lived(seed).violations == []


def test_a_history_is_the_same_whenever_it_is_lived():
    first = [lived(seed).digest for seed in (1, 2, 3)]
    again = [lived(seed).digest for seed in (3, 2, 1)]

    assert first == again[::-1]
    assert len(set(first)) == 3


def test_a_message_that_nobody_sent_is_lost_and_one_sent_twice_is_twice():
    history = lived(0)
    [first, *others] = history.part.chat.journal.of("message")  # type: ignore[attr-defined]
    journal = history.part.chat.journal  # type: ignore[attr-defined]
    journal._lines = [*others, others[0]]
    history._judge()

    assert {violation.promise for violation in history.violations} == {"lost", "twice"}
    assert first["chat"] in str(history.violations[0])
