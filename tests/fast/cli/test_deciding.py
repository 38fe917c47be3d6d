"""`resolve`, `retry` and `store purge`: fenced by what was shown, noted with a name, refused where unsafe."""

import json
from datetime import datetime, timedelta

import pytest
from msgspec.structs import replace

from onefold import Key, Ledger
from onefold.cli.codes import Code
from onefold.core import operate
from onefold.core.entry import BODY_LIMIT
from onefold.core.errors import NoReceipt
from onefold.drive import Ports, run
from onefold.stores.sqlite import SqliteStore
from tests.fast.cli.stage import (
    AT,
    Answer,
    Cli,
    beyond_memory,
    by_hand,
    done,
    failed,
    held,
    in_doubt,
    ledger,
    one_of_each,
    present,
    waiting,
)

pytestmark = pytest.mark.store("sqlite")

KEY = Key("charges", "A-17")


def test_what_happened_is_done_for_good_and_gives_its_receipt(cli: Cli, book: Ledger):
    in_doubt(book, KEY)

    result = cli("resolve", "charges", "A-17", "--happened", "--receipt", '{"id": "ch_314"}', "-y")

    assert result.exit_code == Code.FINE
    assert result.stdout.startswith("charges/A-17 is done since ")
    assert book.call(KEY, lambda: "ran again").receipt == {"id": "ch_314"}


def test_what_did_not_happen_runs_again(cli: Cli, book: Ledger):
    in_doubt(book, KEY)

    assert cli("resolve", "charges", "A-17", "--did-not-happen", "-y").exit_code == Code.FINE
    assert book.call(KEY, lambda: "ran again").state == "ran"


def test_without_a_receipt_later_callers_get_null(cli: Cli, book: Ledger):
    in_doubt(book, KEY)
    cli("resolve", "charges", "A-17", "--happened", "-y")

    def charge() -> str:
        raise AssertionError("it ran again")

    assert book.call(KEY, lambda: None).receipt is None
    with pytest.raises(NoReceipt):
        book.call(KEY, charge)


def test_who_decided_what_and_when_is_kept(cli: Cli, book: Ledger):
    failed(book, KEY)
    before = present()
    cli("retry", "charges", "A-17", "-y")
    in_doubt(book, KEY)
    cli("resolve", "charges", "A-17", "--happened", "-y", "--by", "Bob Operator")

    acts = cli.json("why", "charges", "A-17")["acts"]
    first, second = acts

    assert (first["act"], first["by"], first["was"]) == ("retry", "ann", "failed")
    assert (second["act"], second["by"], second["happened"]) == ("resolve", "Bob Operator", True)
    assert (
        before - timedelta(seconds=1)
        < datetime.fromisoformat(first["at"])
        <= datetime.fromisoformat(second["at"])
    )
    assert "Bob Operator  resolve: it happened, was in-doubt" in cli("why", "charges", "A-17").stdout


def test_a_decision_is_told_to_programs(cli: Cli, book: Ledger):
    in_doubt(book, KEY)

    told = cli.json("resolve", "charges", "A-17", "--did-not-happen", "-y")

    assert (told["scope"], told["label"], told["state"]) == ("charges", "A-17", "free")


@pytest.mark.parametrize("make", [done, held, waiting])
def test_only_what_is_parked_can_be_resolved(cli: Cli, book: Ledger, make):
    make(book, KEY)
    before = book.look(KEY)

    result = cli("resolve", "charges", "A-17", "--did-not-happen", "-y")

    assert result.exit_code == Code.FAILED
    assert "error: there is nothing to decide" in result.stderr
    assert book.look(KEY) == before


@pytest.mark.parametrize(
    "words",
    [
        ["resolve", "charges", "A-17", "--happened"],
        ["retry", "charges", "A-18"],
        ["retry", "--scope", "charges"],
        ["store", "purge"],
    ],
)
def test_where_nobody_can_be_asked_nothing_is_written(cli: Cli, book: Ledger, words: list[str]):
    one_of_each(book)
    before = list(book.entries("charges"))

    result = cli(*words)

    assert result.exit_code == Code.USAGE
    assert "error: nobody can be asked" in result.stderr
    assert "-y" in result.stderr
    assert list(book.entries("charges")) == before


def test_a_person_is_asked_and_may_say_no(cli: Cli, book: Ledger):
    in_doubt(book, KEY)

    result = cli.at_terminal("resolve", "charges", "A-17", "--happened", typed="n\n")

    assert result.exit_code == Code.FAILED
    before, asked, after = result.output.partition("Write that it happened, never run it? [y/N]: ")
    assert "it may have happened" in before
    assert asked
    assert "Nothing was done." in after
    assert book.look(KEY) is not None
    assert [entry.state for _, entry in book.entries("charges")] == ["parked"]


def test_a_person_is_asked_and_may_say_yes(cli: Cli, book: Ledger):
    in_doubt(book, KEY)

    result = cli.at_terminal("resolve", "charges", "A-17", "--did-not-happen", typed="y\n")

    assert result.exit_code == Code.FINE
    assert "Write that it did not happen, run it again?" in result.output
    assert cli("why", "charges", "A-17").exit_code == Code.FINE


def test_a_decision_holds_only_for_what_was_shown(cli: Cli, book: Ledger):
    in_doubt(book, KEY)
    words = ("resolve", "charges", "A-17", "--did-not-happen")

    def before_the_answer() -> None:
        # It is freed, runs, and is in doubt anew: the same state, another story.
        assert cli(*words, "-y").exit_code == Code.FINE
        in_doubt(book, KEY)

    result = cli.at_terminal(*words, typed=Answer("y\n", before_the_answer))

    assert result.exit_code == Code.FAILED
    assert "error: it changed meanwhile" in result.stderr
    assert cli("why", "charges", "A-17").exit_code == Code.PERSON
    assert len(cli.json("why", "charges", "A-17")["acts"]) == 1


def test_the_flows_hold_to_what_was_shown(book: Ledger):
    in_doubt(book, KEY)
    shown = book.look(KEY)
    ports = Ports(SqliteStore("onefold.db"))
    assert shown is not None
    stale = replace(shown, version=shown.version - 1)

    assert run(operate.resolve(KEY, True, "null", "ann", "t1", stale), ports).state == "lost"
    assert run(operate.retry(KEY, "ann", "t2", stale), ports).state == "lost"
    assert run(operate.resolve(KEY, True, "null", "ann", "t3", shown), ports).state == "settled"


@pytest.mark.parametrize("make", [in_doubt, beyond_memory])
def test_what_could_double_is_not_retried(cli: Cli, book: Ledger, make):
    make(book, KEY)
    before = book.look(KEY)

    result = cli("retry", "charges", "A-17", "-y")

    assert result.exit_code == Code.UNSAFE
    assert "error: a second run could double it" in result.stderr
    assert "onefold resolve charges A-17 --did-not-happen" in result.stderr
    assert book.look(KEY) == before


@pytest.mark.parametrize("make", [failed, waiting])
def test_what_is_safe_is_made_due_with_its_attempts_counted_anew(cli: Cli, book: Ledger, make):
    make(book, KEY)

    assert cli("retry", "charges", "A-17", "-y").exit_code == Code.FINE

    entry = book.look(KEY)
    assert entry is not None
    assert (entry.state, entry.attempt, entry.not_before) == ("free", 0, None)


@pytest.mark.parametrize("make", [done, held])
def test_there_is_nothing_to_retry_about_what_is_done_or_held(cli: Cli, book: Ledger, make):
    make(book, KEY)

    result = cli("retry", "charges", "A-17", "-y")

    assert result.exit_code == Code.FAILED
    assert "error: there is nothing to retry" in result.stderr


def test_there_is_nothing_to_retry_about_what_was_never_claimed(cli: Cli, book: Ledger):
    done(book, Key("charges", 1))

    assert cli("retry", "charges", "A-17", "-y").exit_code == Code.FAILED


def test_retrying_a_scope_takes_what_is_safe_and_counts_what_is_left(cli: Cli, book: Ledger):
    one_of_each(book)
    failed(book, Key("mails", 1))

    result = cli("retry", "--scope", "charges", "-y", "--json")

    # Of what is by hand a one-shot effect had begun; what waited is due since long.
    assert json.loads(result.stdout) == {
        "scope": "charges",
        "retried": 1,
        "left": {"beyond-memory": 1, "by-hand": 1, "in-doubt": 1},
    }
    assert result.exit_code == Code.PERSON
    assert [entry.state for _, entry in book.entries("mails")] == ["parked"]


def test_retrying_a_scope_takes_what_waits_for_its_time(cli: Cli):
    now = ledger(at=present())
    waiting(now, KEY)

    result = cli("retry", "--scope", "charges", "-y")

    assert (result.exit_code, result.stdout) == (Code.FINE, "1 entry of charges made due\n")
    assert cli("retry", "--scope", "charges", "-y").stdout == "0 entries of charges made due\n"


def test_what_a_retried_scope_leaves_is_told_to_people(cli: Cli, book: Ledger):
    in_doubt(book, KEY)

    result = cli("retry", "--scope", "charges", "-y")

    assert "1 entry left: in-doubt" in result.stderr
    assert "onefold list --parked --scope charges" in result.stderr


@pytest.mark.parametrize(
    ("receipt", "complaint"),
    [
        ("{", "--receipt is no JSON"),
        ("NaN", "--receipt is no JSON"),
        ('{"cents": Infinity}', "--receipt is no JSON"),
        ("1e999", "--receipt is no JSON"),
        ('"\\ud800"', "--receipt is no JSON"),
        ("[" * 100_000, "--receipt is no JSON"),
        ("", "--receipt is no JSON"),
        (json.dumps("x" * BODY_LIMIT), "65,536 are kept"),
    ],
)
def test_a_receipt_that_cannot_be_kept_is_refused(cli: Cli, book: Ledger, receipt: str, complaint: str):
    in_doubt(book, KEY)
    before = book.look(KEY)

    result = cli("resolve", "charges", "A-17", "--happened", "--receipt", receipt, "-y")

    assert result.exit_code == Code.USAGE
    assert complaint in result.stderr
    assert book.look(KEY) == before


def test_a_receipt_is_kept_without_its_blanks_and_with_its_digits(cli: Cli, book: Ledger):
    in_doubt(book, KEY)

    cli("resolve", "charges", "A-17", "--happened", "-y", "--receipt", '{ "cents": 4900.10,\n "ü": 1 }')

    assert cli.json("why", "charges", "A-17")["entry"]["body"] == '{"cents":4900.10,"ü":1}'


@pytest.mark.parametrize(
    "words",
    [
        ["resolve", "charges", "A-17"],
        ["resolve", "charges", "A-17", "--did-not-happen", "--receipt", "1"],
        ["resolve", "charges", "--happened"],
        ["resolve", "charges", "A-17", "--id", "0" * 64, "--happened"],
        ["resolve", "charges", "A-17", "--happened", "--by", " "],
        ["resolve", "charges", "A-17", "--happened", "--by", "a\nb"],
        ["resolve", "charges", "", "--happened"],
        ["retry"],
        ["retry", "charges", "A-17", "--scope", "charges"],
        ["retry", "charges"],
        ["retry", "--scope", "charges", "--id", "0" * 64],
        ["why", "charges", "--id", "xyz"],
    ],
)
def test_a_decision_that_is_not_clear_is_not_taken(cli: Cli, book: Ledger, words: list[str]):
    in_doubt(book, KEY)
    before = book.look(KEY)

    assert cli(*words, "-y").exit_code == Code.USAGE
    assert book.look(KEY) == before


def test_purging_removes_what_need_not_be_remembered(cli: Cli, book: Ledger):
    done(book, Key("charges", "old"), keep="1d")
    done(book, Key("mails", "old"), keep="1d")
    done(book, Key("charges", "for ever"))
    by_hand(book, Key("charges", "parked"))
    done(ledger(at=present()), Key("charges", "young"), keep="1d")

    assert cli.json("store", "purge", "--scope", "mails", "-y") == {"removed": 1}
    assert cli("store", "purge", "-y").stdout == "1 entry removed\n"

    names = {key.label for key, _ in book.entries("charges", "done", "parked")}
    assert names == {"for ever", "parked", "young"}


def test_the_clock_of_the_stage_stands_in_the_past():
    # Otherwise nothing above would be old, silent or due.
    assert present() - AT > timedelta(days=2)


# ----- whole scopes


def test_a_scope_is_resolved_after_what_is_parked_was_shown(cli: Cli, book: Ledger):
    for number in range(25):
        in_doubt(book, Key("charges", number))
    failed(book, Key("charges", "f"))
    in_doubt(book, Key("mails", 1))

    asked = cli("resolve", "--scope", "charges", "--happened")
    assert asked.exit_code == Code.USAGE
    assert "nobody can be asked" in asked.stderr
    assert "26 entries of charges would be resolved (1 failed, 25 in-doubt):" in asked.stderr
    assert "and 6 more; see `onefold list --parked --scope charges`" in asked.stderr
    assert len(cli.lines("list", "--parked", "--scope", "charges")) == 26

    told = cli("resolve", "--scope", "charges", "--happened", "--why", "in-doubt", "--reason", "seen", "-y")

    assert (told.exit_code, told.stdout) == (Code.FINE, "25 entries of charges resolved\n")
    assert told.stderr.count("  Effect\n") == 20
    assert [row["label"] for row in cli.lines("list", "--parked")] == ["f", "1"]
    [act] = cli.json("why", "charges", "3")["acts"]
    assert (act["act"], act["happened"], act["reason"]) == ("resolve", True, "seen")


def test_a_scope_is_freed_to_run_again(cli: Cli, book: Ledger):
    one_of_each(book)

    told = cli.json("resolve", "--scope", "charges", "--did-not-happen", "-y")

    assert told == {"scope": "charges", "resolved": 4, "left": {}}
    assert book.call(KEY, lambda: "ran again").state == "ran"
    assert cli.json("resolve", "--scope", "charges", "--did-not-happen", "-y")["resolved"] == 0


def test_a_person_who_says_no_to_a_scope_changes_nothing(cli: Cli, book: Ledger):
    in_doubt(book, KEY)

    result = cli.at_terminal("resolve", "--scope", "charges", "--happened", typed="n\n")

    assert result.exit_code == Code.FAILED
    assert "Write of 1 entry that it happened, never run it?" in result.output
    assert "charges/A-17  Effect" in result.output
    assert [entry.state for _, entry in book.entries("charges")] == ["parked"]


@pytest.mark.parametrize(
    "words",
    [
        ["charges", "A-17", "--scope", "charges", "--happened"],
        ["--happened"],
        ["--scope", "charges", "--happened", "--receipt", "1"],
        ["charges", "A-17", "--happened", "--why", "failed"],
        ["--scope", "charges", "--happened", "--why", "bored"],
    ],
)
def test_a_decision_about_a_scope_that_contradicts_itself_is_refused(
    cli: Cli, book: Ledger, words: list[str]
):
    in_doubt(book, KEY)

    assert cli("resolve", *words, "-y").exit_code == Code.USAGE
    assert cli.json("why", "charges/A-17")["entry"]["state"] == "parked"


def test_a_label_names_a_key_to_resolve_and_to_retry(cli: Cli, book: Ledger):
    in_doubt(book, KEY)
    failed(book, Key("charges", "a/b", 2))

    assert cli("resolve", "charges/A-17", "--did-not-happen", "-y").exit_code == Code.FINE
    retried = cli("retry", str(Key("charges", "a/b", 2)), "--reason", "the bank is back", "-y")

    assert retried.exit_code == Code.FINE, retried.stderr
    [act] = cli.json("why", "charges", "a/b", "2")["acts"]
    assert (act["act"], act["reason"]) == ("retry", "the bank is back")
