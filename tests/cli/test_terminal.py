"""What reaches a terminal: nothing that was stored can steer it, and watching ends when it is interrupted."""

import json
import re
import signal
import subprocess
from itertools import pairwise

import apsw
import pytest

from onefold import Key, Ledger
from onefold.cli.codes import Code
from onefold.core import audit
from tests.cli.stage import PATIENCE, Cli, Terminal, command, done, in_doubt, process

pytestmark = pytest.mark.store("sqlite")

HOSTILE = "\x1b[2J\x1b]0;pwned\x07\n\r\x9b31m\u202e[red]{x}%s"
KEY = Key("charges", "A-17")


@pytest.fixture
def poisoned(book: Ledger) -> Ledger:
    """A ledger that somebody else wrote into: hostile text wherever text is stored, and impossible times."""
    in_doubt(book, KEY)
    in_doubt(book, Key("mails", 1))
    done(book, Key("charges", "receipt"), "x")
    acts = json.dumps(
        [{"act": HOSTILE, "by": HOSTILE, "was": HOSTILE, "at": 1e300}, "no act", {"at": HOSTILE}]
    )
    connection = apsw.Connection("onefold.db")
    connection.execute(
        "UPDATE onefold_entries SET label = ?1, source = ?1, body = ?1, fingerprint = ?1, not_before = 9e999,"
        " lease = 9e999, begun = -9e99",
        [HOSTILE],
    )
    connection.execute("UPDATE onefold_entries SET scope = ? WHERE scope = 'mails'", [HOSTILE])
    connection.execute(
        "INSERT INTO onefold_entries (id, scope, state, token, version, fence, effect, lease, written,"
        " attempt, label, source, body)"
        " VALUES (?, ?, 'done', 't', 1, 1, 'idempotent', 0, 1e300, 0, '', '', ?)",
        [audit.audit_key(KEY).id, audit.SCOPE, acts],
    )
    connection.close()
    return book


@pytest.mark.usefixtures("poisoned")
@pytest.mark.parametrize("options", [[], ["--json"]])
@pytest.mark.parametrize(
    "words",
    [
        ["status"],
        ["status", "--all"],
        ["list"],
        ["why", "charges", "A-17"],
        ["why", "charges", "--id", KEY.id.hex()],
        ["why", "charges", "receipt"],
        ["why", HOSTILE.replace("\n", ""), "1"],
        ["why", "charges", HOSTILE],
        ["why", HOSTILE],
        [HOSTILE],
        ["resolve", "charges", "--id", KEY.id.hex(), "--happened"],
        ["retry", "charges", "--id", KEY.id.hex(), "-y"],
        ["retry", "--scope", HOSTILE, "-y"],
        ["doctor"],
        ["status", "--store", f"sqlite:///{HOSTILE}"],
    ],
)
def test_nothing_that_was_stored_or_typed_can_steer_the_terminal(
    cli: Cli, words: list[str], options: list[str]
):
    result = cli(*words, *options)

    assert "should not have happened" not in result.output
    assert result.output
    assert [char for char in result.output if not char.isprintable() and char != "\n"] == []


@pytest.mark.usefixtures("poisoned")
def test_hostile_text_is_shown_escaped(cli: Cli):
    assert "\\x1b[2J" in cli("list").stdout
    assert "carries" in cli("why", "charges", "A-17").stdout


@pytest.mark.parametrize("spoilt", ["no JSON", "5", "[]", "[5]"])
def test_audits_that_cannot_be_read_hide_no_key_and_keep_nobody_from_deciding(
    cli: Cli, book: Ledger, spoilt: str
):
    in_doubt(book, KEY)
    cli("resolve", "charges", "A-17", "--did-not-happen", "-y")
    connection = apsw.Connection("onefold.db")
    connection.execute("UPDATE onefold_entries SET body = ? WHERE scope = ?", [spoilt, audit.SCOPE])
    connection.close()

    result = cli("why", "charges", "A-17")

    assert result.exit_code == Code.FINE
    assert "cannot be read" in result.stdout
    in_doubt(book, KEY)
    assert cli("resolve", "charges", "A-17", "--happened", "-y").exit_code == Code.FINE
    assert [act["act"] for act in cli.json("why", "charges", "A-17")["acts"]] == ["cannot be read", "resolve"]


def test_rich_does_not_take_stored_text_for_markup(poisoned: Ledger):
    terminal = Terminal("status", "--watch", "--every", "0.05")

    shown = terminal.wait_for("[red]")

    assert terminal.interrupt() == Code.INTERRUPTED
    assert "pwned" in shown
    assert "\x07" not in shown
    assert "\x1b[2J" not in shown


def test_watching_draws_on_a_terminal_until_interrupted(book: Ledger):
    in_doubt(book, Key("charges", 1))
    terminal = Terminal("status", "--watch", "--every", "0.05")

    terminal.wait_for("0 free, 0 held, 1 parked")
    in_doubt(book, Key("charges", 2))
    terminal.wait_for("0 free, 0 held, 2 parked")

    assert terminal.interrupt() == Code.INTERRUPTED


@pytest.mark.parametrize("options", [[], ["--json"]])
def test_watching_prints_a_line_per_change_where_there_is_no_terminal(book: Ledger, options: list[str]):
    in_doubt(book, Key("charges", 1))
    words = command("status", "--watch", "--every", "0.01", *options)
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as watching:
        try:
            assert watching.stdout is not None
            lines = [watching.stdout.readline()]
            in_doubt(book, Key("charges", 2))
            while not re.search(r'2 parked|"parked": 2', lines[-1]):
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
    assert re.search(r'1 parked|"parked": 1', lines[0])
    assert all(before != after for before, after in pairwise(told)), "a line says what changed"


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


def test_an_interrupted_question_writes_nothing(book: Ledger):
    in_doubt(book, KEY)
    terminal = Terminal("resolve", "charges", "A-17", "--happened")

    terminal.wait_for("never run it? [y/N]: ")

    assert terminal.interrupt() == Code.INTERRUPTED
    assert [entry.state for _, entry in book.entries("charges")] == ["parked"]


def test_data_and_talk_go_separate_ways(book: Ledger):
    in_doubt(book, KEY)

    result = process("status")

    assert result.returncode == Code.PERSON
    assert "The oldest parked" in result.stderr
    assert "The oldest parked" not in result.stdout
    assert "1 parked" in result.stdout
