"""The command sink with real programs: what they get and print, and how one that takes too long is killed."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import anyio

from onefold.core.errors import Refused
from onefold.core.key import Key
from onefold.core.record import Record
from onefold.sinks.command import Command, Failed
from tests.fast.sinks.stage import SCOPE, put_one
from tests.waiting import until

RECORD = Record("r1", {"id": "r1", "to": "Zoë"}, 1)


def run(script: str, **more: Any) -> Any:
    return put_one(Command([sys.executable, "-c", script], **more), RECORD)


def test_a_command_gets_the_record_its_key_and_its_fence_and_what_it_prints_is_the_receipt():
    script = "import os, sys; print(sys.stdin.read(), os.environ['ONEFOLD_KEY'], os.environ['ONEFOLD_FENCE'])"

    told = run(script)

    body, key, fence = told["said"].rsplit(" ", 2)
    assert told["exit"] == 0
    assert json.loads(body) == RECORD.body
    assert (key, fence.strip()) == (Key(SCOPE, "r1").id.hex(), "1")


def test_a_command_that_prints_no_utf_8_is_done_all_the_same():
    assert run("import sys; sys.stdout.buffer.write(b'\\xff')")["said"] == "�"


def test_a_command_that_does_not_read_its_input_is_done_all_the_same():
    assert put_one(Command(["true"]), Record("r1", {"text": "x" * 10**6}, 1))["exit"] == 0


def test_a_command_that_cannot_be_started_did_nothing():
    answer = put_one(Command(["no-such-program"]), RECORD)

    assert isinstance(answer, Refused)
    assert str(answer) == "no-such-program cannot be started: No such file or directory"


def test_a_command_that_takes_too_long_is_killed_with_what_it_started(tmp_path):
    # The child waits for what it started, which never ends. A shell has begun that long before it is killed.
    child = tmp_path / "child"
    script = f"tail -f /dev/null & echo $! > '{child}'; wait"

    answer = put_one(Command(["sh", "-c", script], timeout=5), RECORD)

    assert isinstance(answer, Failed)
    assert "took longer than 5 s and was killed" in str(answer)
    anyio.run(until, lambda: is_gone(int(child.read_text())))


def is_gone(pid: int) -> bool:
    """Say whether a process has ended; what nobody has waited for yet is a zombie, and has."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return True
    return state == "Z"
