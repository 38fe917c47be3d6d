"""Histories of whales break no promise, and a loss is noticed.

No warning is ignored here: the lives of whales leave nothing behind.
"""

import pytest

from proof.apps.whales import Whales
from tests.fast.simulation.living import lived


@pytest.mark.parametrize("seed", range(12))
def test_a_history_of_whales_breaks_no_promise(seed):
    assert [str(one) for one in lived(Whales, seed).violations] == []


def test_a_message_that_nobody_sent_is_lost_and_one_sent_twice_is_twice():
    history = lived(Whales, 0)
    [first, *others] = history.part.chat.journal.of("message")  # type: ignore[attr-defined]
    journal = history.part.chat.journal  # type: ignore[attr-defined]
    journal._lines = [*others, others[0]]
    history._judge()

    assert {violation.promise for violation in history.violations} == {"lost", "twice"}
    assert first["chat"] in str(history.violations[0])
