"""Histories of whales: what is wrong is noticed."""

from proof.apps.whales import Whales
from tests.simulation.living import ABANDONED, lived

pytestmark = ABANDONED


def test_a_message_that_nobody_sent_is_lost_and_one_sent_twice_is_twice():
    history = lived(Whales, 0)
    [first, *others] = history.part.chat.journal.of("message")  # type: ignore[attr-defined]
    journal = history.part.chat.journal  # type: ignore[attr-defined]
    journal._lines = [*others, others[0]]
    history._judge()

    assert {violation.promise for violation in history.violations} == {"lost", "twice"}
    assert first["chat"] in str(history.violations[0])
