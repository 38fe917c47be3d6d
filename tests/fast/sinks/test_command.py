"""The command sink: what is known from the exit code of a program, and from what it printed."""

from __future__ import annotations

import signal
from typing import Any

import pytest

from onefold.core.errors import Refused, Rejected
from onefold.sinks.command import SHOWN, Failed, judged


@pytest.mark.parametrize(
    ("code", "kind"),
    [(75, Refused), (64, Rejected), (78, Rejected), (1, Failed), (79, Failed), (-signal.SIGSEGV, Failed)],
)
def test_an_exit_code_says_what_is_known(code, kind):
    answer = judged("send", code, "", "no room")

    assert type(answer) is kind
    assert "no room" in str(answer)
    assert "send" in str(answer)


def test_what_a_command_prints_is_kept_up_to_a_limit():
    kept: Any = judged("send", 0, "x" * (SHOWN + 1), "")

    assert len(kept["said"]) == SHOWN
