"""What reaches a terminal: nothing that was stored can steer it, and who watches sees what changes."""

import json
import re

import anyio
import apsw
import pytest

from onefold import Key, Ledger
from onefold.cli.codes import Code
from onefold.core import audit
from tests.fast.cli.stage import Cli, done, in_doubt

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


@pytest.mark.usefixtures("poisoned")
def test_a_table_that_is_drawn_does_not_take_stored_text_for_markup(cli: Cli):
    watched = cli.interrupted_after(lambda: anyio.sleep(1), "status", "--watch", terminal=True)

    assert watched.exit_code == Code.INTERRUPTED
    assert "[red]" in watched.stdout
    assert "pwned" in watched.stdout
    assert "\x07" not in watched.stdout
    assert "\x1b[2J" not in watched.stdout


def test_watching_draws_anew_on_a_terminal(cli: Cli, book: Ledger):
    async def one_more_is_parked() -> None:
        await anyio.sleep(1)
        in_doubt(book, Key("charges", 2))
        await anyio.sleep(1)

    in_doubt(book, Key("charges", 1))
    watched = cli.interrupted_after(one_more_is_parked, "status", "--watch", "--every", "0.5", terminal=True)

    assert watched.exit_code == Code.INTERRUPTED
    before, _, after = watched.stdout.partition("0 free, 0 held, 2 parked")
    assert "0 free, 0 held, 1 parked" in before
    assert "0 free, 0 held, 1 parked" not in after


@pytest.mark.parametrize("options", [[], ["--json"]])
def test_watching_prints_a_line_per_change_where_there_is_no_terminal(
    cli: Cli, book: Ledger, options: list[str]
):
    async def one_more_is_parked() -> None:
        await anyio.sleep(1)
        in_doubt(book, Key("charges", 2))
        await anyio.sleep(1)

    in_doubt(book, Key("charges", 1))
    watched = cli.interrupted_after(one_more_is_parked, "status", "--watch", "--every", "0.01", *options)

    assert watched.exit_code == Code.INTERRUPTED
    first, second = watched.stdout.splitlines()
    assert re.search(r'1 parked|"parked": 1', first)
    assert re.search(r'2 parked|"parked": 2', second)


def test_data_and_talk_go_separate_ways(cli: Cli, book: Ledger):
    in_doubt(book, KEY)

    result = cli("status")

    assert result.exit_code == Code.PERSON
    assert "The oldest parked" in result.stderr
    assert "The oldest parked" not in result.stdout
    assert "1 parked" in result.stdout
