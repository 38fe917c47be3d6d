"""The command at a real terminal and at the ends of real pipes: reading, waiting, interrupts, closed pipes.

What is printed is tested in tests/fast/cli, where terminals are pretended.
"""

import re
import signal
import subprocess
from itertools import pairwise

import pytest

from onefold import Key, Ledger
from onefold.cli.codes import Code
from tests.fast.cli.stage import in_doubt
from tests.processes.cli.stage import Terminal, command, process
from tests.waiting import PATIENCE

pytestmark = pytest.mark.store("sqlite")

KEY = Key("charges", "A-17")


def test_watching_draws_on_a_terminal_until_interrupted(book: Ledger):
    in_doubt(book, Key("charges", 1))
    terminal = Terminal("status", "--watch", "--every", "0.05")

    terminal.wait_for("0 free, 0 held, 1 parked")
    in_doubt(book, Key("charges", 2))
    terminal.wait_for("0 free, 0 held, 2 parked")

    assert terminal.interrupt() == Code.INTERRUPTED


def test_watching_prints_a_line_per_change_where_there_is_no_terminal(book: Ledger):
    in_doubt(book, Key("charges", 1))
    words = command("status", "--watch", "--every", "0.01")
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as watching:
        try:
            assert watching.stdout is not None
            lines = [watching.stdout.readline()]
            in_doubt(book, Key("charges", 2))
            while "2 parked" not in lines[-1]:
                lines.append(watching.stdout.readline())
                assert lines[-1]
            watching.send_signal(signal.SIGINT)
            rest, _ = watching.communicate(timeout=PATIENCE)
        finally:
            watching.kill()

    # Without the time at the start of a line. Two lines or three: the entry may be seen while it is held.
    told = [re.sub("^[-0-9: ]+Z", "", line) for line in lines]
    assert watching.returncode == Code.INTERRUPTED
    assert rest == ""
    assert "1 parked" in lines[0]
    assert all(before != after for before, after in pairwise(told)), "a line says what changed"


def test_a_question_is_answered_at_a_terminal_and_an_interrupted_one_writes_nothing(book: Ledger):
    in_doubt(book, KEY)
    words = ("resolve", "charges", "A-17", "--did-not-happen")

    interrupted = Terminal(*words)
    interrupted.wait_for("run it again? [y/N]: ")
    assert interrupted.interrupt() == Code.INTERRUPTED
    assert [entry.state for _, entry in book.entries("charges")] == ["parked"]

    answered = Terminal(*words)
    answered.wait_for("run it again? [y/N]: ")
    answered.type("y\n")
    assert answered.end() == Code.FINE
    assert [entry.state for _, entry in book.entries("charges")] == ["free"]


def test_a_reader_that_goes_away_is_no_error(book: Ledger):
    book.release_many(book.claim_many([Key("charges", number) for number in range(3000)]))

    with subprocess.Popen(
        command("list"), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as listing:
        assert listing.stdout is not None
        assert listing.stderr is not None
        listing.stdout.readline()
        listing.stdout.close()
        assert listing.stderr.read() == ""


def test_a_terminal_without_the_characters_still_gets_an_answer(
    book: Ledger, monkeypatch: pytest.MonkeyPatch
):
    in_doubt(book, Key("charges", "漢字"))
    monkeypatch.setenv("PYTHONIOENCODING", "latin-1")

    result = process("list")

    assert result.returncode == Code.FINE
    assert "charges/\\u6f22\\u5b57" in result.stdout
