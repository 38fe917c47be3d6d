"""`status`, `list` and `why`: what they say, for people and for programs, and with which exit code."""

import shlex
from collections.abc import Callable
from datetime import timedelta

import pytest

from onefold import Key, Ledger, Terms, __version__
from onefold.cli.codes import Code
from onefold.cli.facts import error_json
from onefold.core.errors import Rejected
from tests.fast.cli.stage import (
    AT,
    Cli,
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


def test_status_counts_open_entries_by_scope_state_and_reason(cli: Cli, book: Ledger):
    one_of_each(book)
    in_doubt(book, Key("mails", 1))

    told = cli.json("status")

    assert told["scopes"] == {
        "charges": {
            "free": 1,
            "held": 1,
            "silent": 1,
            "parked": 4,
            "why": {"beyond-memory": 1, "by-hand": 1, "failed": 1, "in-doubt": 1},
            "done": None,
        },
        "mails": {"free": 0, "held": 0, "silent": 0, "parked": 1, "why": {"in-doubt": 1}, "done": None},
    }
    assert (told["free"], told["held"], told["silent"], told["parked"], told["done"]) == (1, 1, 1, 5, None)


def test_status_needs_a_person_as_long_as_something_is_parked(cli: Cli, book: Ledger):
    done(book, Key("charges", 1))
    assert cli("status").exit_code == Code.FINE

    in_doubt(book, Key("charges", 2))
    assert cli("status").exit_code == Code.PERSON


def test_status_says_that_done_entries_are_not_counted_unless_asked(cli: Cli, book: Ledger):
    done(book, Key("charges", 1))

    assert "Done entries are not counted" in cli("status").stderr
    assert cli.json("status", "--all")["scopes"]["charges"]["done"] == 1
    assert "1 done" in cli("status", "--all").stdout


def test_status_names_the_oldest_parked_and_where_the_store_is(cli: Cli, book: Ledger):
    with_younger = ledger(at=AT + timedelta(days=1))
    in_doubt(with_younger, Key("charges", "younger"))
    in_doubt(book, Key("charges", "older"))

    told = cli.json("status")

    assert told["oldest_parked"]["label"] == "older"
    assert told["oldest_parked"]["since"] == "2026-01-01T00:00:00.000Z"
    assert told["origin"] == "the default"
    assert told["store"].endswith("/onefold.db")
    assert "from the default" in cli("status").stdout
    assert "charges/older, since 2026-01-01 00:00:00Z" in cli("status").stderr


def test_a_holder_within_its_lease_is_not_silent(cli: Cli):
    held(ledger(at=present()), Key("charges", 1))

    assert cli.json("status")["silent"] == 0
    assert cli.lines("list")[0]["silent"] is False


def test_status_leaves_out_what_onefold_writes_for_itself(cli: Cli, book: Ledger):
    failed(book, Key("charges", 1))
    assert cli("retry", "charges", "1", "-y").exit_code == Code.FINE
    cli("doctor")

    assert list(cli.json("status", "--all")["scopes"]) == ["charges"]


def test_list_gives_one_line_per_open_entry(cli: Cli, book: Ledger):
    one_of_each(book)

    head, *rows = cli("list").stdout.splitlines()

    assert head.split() == ["state", "why", "try", "since", "next", "key"]
    assert [row.split()[0] for row in rows] == ["free", "held", "parked", "parked", "parked", "parked"]
    assert rows[0].split() == [
        "free", "-", "1", "2026-01-01", "00:00:00Z", "2026-01-02", "00:00:00Z", "charges/A-21",
    ]  # fmt: skip
    assert rows[1].split()[1] == "silent"


@pytest.mark.parametrize(
    ("options", "names"),
    [
        (["--parked"], {"A-17", "A-18", "A-19", "A-20"}),
        (["--held"], {"A-22"}),
        (["--free"], {"A-21"}),
        (["--free", "--held"], {"A-21", "A-22"}),
        ([], {"A-17", "A-18", "A-19", "A-20", "A-21", "A-22"}),
    ],
)
def test_list_can_be_narrowed_to_states(cli: Cli, book: Ledger, options: list[str], names: set[str]):
    one_of_each(book)

    assert {row["label"] for row in cli.lines("list", *options)} == names


def test_list_can_be_narrowed_to_a_scope(cli: Cli, book: Ledger):
    in_doubt(book, Key("charges", 1))
    in_doubt(book, Key("mails", 1))

    assert [row["scope"] for row in cli.lines("list", "--scope", "mails")] == ["mails"]


def test_list_goes_on_over_pages(cli: Cli, book: Ledger):
    book.release_many(book.claim_many([Key("charges", number) for number in range(1203)]))

    rows = cli.lines("list", "--free")

    assert len({row["id"] for row in rows}) == len(rows) == 1203
    assert cli("list", "--free").stdout.count("state") == 1


def test_list_says_so_if_there_is_nothing(cli: Cli, book: Ledger):
    done(book, Key("charges", 1))

    result = cli("list", "--parked")

    assert (result.exit_code, result.stdout) == (Code.FINE, "")
    assert result.stderr == "Nothing is parked.\n"
    assert cli("list").stderr == "Nothing is free, held or parked.\n"
    assert cli("list", "--json").output == ""


LABELS = [("A-17",), ("a", "b"), ("a/b", "c\\d"), ("two words", "it's"), ("a\nb", "\u200b"), ("x" * 300, "b")]


@pytest.mark.parametrize("make", [in_doubt, done])
@pytest.mark.parametrize("parts", LABELS)
def test_the_label_that_a_list_prints_leads_to_its_key(
    cli: Cli, book: Ledger, parts: tuple[str, ...], make: Callable[[Ledger, Key], None]
):
    key = Key("charges", *parts)
    make(book, key)
    make(book, Key("charges", "another"))
    rows = cli("list", "--done" if make is done else "--parked").stdout.splitlines()
    [label] = [row[row.index("charges/") :] for row in rows[1:] if "another" not in row]

    assert label == str(key)
    assert cli.json("why", label)["id"] == key.id.hex()
    assert cli.json("why", "charges", label.removeprefix("charges/"))["id"] == key.id.hex()


def test_a_label_is_taken_for_what_was_typed_before_it_is_taken_for_parts(cli: Cli, book: Ledger):
    in_doubt(book, Key("charges", "a/b"))
    in_doubt(book, Key("charges", "a", "b"))

    assert cli.json("why", "charges", "a/b")["parts"] == ["a/b"]
    assert cli.json("why", "charges/a/b")["parts"] == ["a", "b"]
    assert cli.json("why", "charges", "a\\/b")["parts"] == ["a/b"]


def test_a_label_of_several_keys_is_refused_with_their_ids(cli: Cli, book: Ledger):
    keys = [Key("charges", "a", "b"), Key("charges/a", "b")]
    for key in keys:
        in_doubt(book, key)
    for end in ("1", "2"):
        in_doubt(book, Key("charges", "x" * 300 + end))

    result, cut = cli("why", "charges/a/b"), cli("why", "charges/" + "x" * 199 + "…")

    assert result.exit_code == cut.exit_code == Code.USAGE
    assert all(f"{key.scope} --id {key.id.hex()}" in result.stderr for key in keys)
    assert "is the label of several keys" in cut.stderr


@pytest.mark.parametrize("text", ["charges/none", "charges/none…"])
def test_a_label_that_nothing_has_was_never_claimed(cli: Cli, book: Ledger, text: str):
    in_doubt(book, Key("charges", "some"))

    result = cli("why", text)

    assert (result.exit_code, result.stdout) == (
        Code.FAILED,
        f"{text} was never claimed, as far as this ledger remembers.\n",
    )


@pytest.mark.parametrize("words", [["charges"], ["charges/"], ["/"], ["charges", ""]])
def test_what_names_no_key_is_an_error_of_the_command_line(cli: Cli, book: Ledger, words: list[str]):
    assert cli("why", *words).exit_code == Code.USAGE


def test_list_shows_what_is_done_if_asked(cli: Cli, book: Ledger):
    one_of_each(book)

    assert [row["label"] for row in cli.lines("list", "--done")] == ["A-23"]
    assert len(cli.lines("list", "--done", "--parked")) == 5
    assert "charges/A-23" in cli("list", "--done").stdout
    assert cli("list", "--done", "--scope", "none").stderr == "Nothing is done.\n"


def test_programs_get_the_parts_of_a_key_and_errors_as_objects(cli: Cli, book: Ledger):
    in_doubt(book, Key("charges", "a/b", 7))
    in_doubt(book, Key("charges", "x" * 300))

    rows = cli.lines("list")
    [whole] = [row for row in rows if row["parts"]]
    told = cli.json("why", "charges", "a/b", "7")

    assert whole["parts"] == told["parts"] == ["a/b", "7"]
    assert [row["parts"] for row in rows if row is not whole] == [None]  # its label was cut
    assert whole["error"] == told["error"] == {"type": "Effect", "message": ""}
    assert whole["record"] is told["record"] is None


def test_an_error_without_a_type_is_a_message():
    assert error_json("it has no key: none") == {"type": None, "message": "it has no key: none"}
    assert error_json("Refused: no\nmarket: closed") == {"type": "Refused", "message": "no\nmarket: closed"}
    assert error_json(None) is None


def test_a_rejected_key_is_not_said_to_have_used_up_its_attempts(cli: Cli, book: Ledger):
    def charge() -> None:
        raise Rejected("the card is expired")

    with pytest.raises(Rejected):
        book.call(Key("charges", 1), charge, terms=Terms(attempts=5))

    said = cli("why", "charges", "1").stdout
    assert "it did not happen, and no worker tries it again by itself; it was tried 1 time." in said
    assert "last error  Rejected: the card is expired" in said


@pytest.mark.parametrize("parts", [("A-17",), ("a/b", "c\\d"), ("-5",), ("two words", "it's")])
def test_what_a_list_gives_as_command_leads_to_the_key(cli: Cli, book: Ledger, parts: tuple[str, ...]):
    key = Key("charges", *parts)
    in_doubt(book, key)

    [row] = cli.lines("list")
    program, *words = shlex.split(row["command"])

    assert program == "onefold"
    assert "--id" not in words
    assert cli.json(*words)["id"] == key.id.hex()


def test_a_key_that_cannot_be_typed_is_named_by_its_id(cli: Cli, book: Ledger):
    key = Key("charges", "a\nb")
    in_doubt(book, key)

    [row] = cli.lines("list")
    told = cli.json("why", "charges", "--id", row["id"])

    assert row["command"] == f"onefold why charges --id {key.id.hex()}"
    assert told["label"] == "a\\nb"
    assert told["next"][0] == f"onefold resolve charges --id {key.id.hex()} --happened"


def test_a_label_that_was_cut_is_not_taken_for_the_key(cli: Cli, book: Ledger):
    key = Key("charges", "x" * 300)
    in_doubt(book, key)

    [row] = cli.lines("list")

    assert row["command"].endswith(f"--id {key.id.hex()}")


def test_why_tells_the_sentence_the_facts_and_the_next_steps(cli: Cli, book: Ledger):
    in_doubt(book, Key("charges", "A-17"))

    result = cli("why", "charges", "A-17")

    sentence, _, *rest = result.stdout.splitlines()
    assert sentence == (
        "charges/A-17 is parked (in-doubt) since 2026-01-01 00:00:00Z: "
        "it may have happened, and running it again could double it."
    )
    assert "  state       parked (in-doubt)" in rest
    assert "  begun       2026-01-01 00:00:00Z" in rest
    assert "  last error  Effect" in rest
    assert rest[-3:] == [
        "What can be done next",
        "  onefold resolve charges A-17 --happened",
        "  onefold resolve charges A-17 --did-not-happen",
    ]
    assert result.exit_code == Code.PERSON


def test_why_tells_the_type_and_the_message_of_what_a_protected_function_raised(cli: Cli, book: Ledger):
    def charge() -> None:
        raise ConnectionError("no answer from https://me:hunter2@bank.example/pay \x1b[2J" + "!" * 9000)

    with pytest.raises(ConnectionError):
        book.call(Key("charges", "A-17"), charge)

    told, text = cli.json("why", "charges", "A-17"), cli("why", "charges", "A-17").stdout

    assert told["error"]["type"] == "ConnectionError"
    assert told["error"]["message"].startswith("no answer from https://***@bank.example/pay")
    assert len(told["error"]["type"] + ": " + told["error"]["message"]) == 500
    assert "last error  ConnectionError: no answer from https://***@bank.example/pay \\x1b[2J!!!" in text
    assert "hunter2" not in text + str(told)
    assert "carries" not in text


@pytest.mark.parametrize("end", ["park", "release"])
def test_why_tells_the_reason_for_which_a_claim_was_parked_or_released(cli: Cli, book: Ledger, end: str):
    getattr(book.claim(Key("charges", "A-17")), end)("the customer asked to wait")

    assert cli.json("why", "charges", "A-17")["reason"] == "the customer asked to wait"
    assert "reason    the customer asked to wait" in cli("why", "charges", "A-17").stdout


def test_the_next_steps_name_the_store_if_it_was_named(cli: Cli, book: Ledger):
    in_doubt(book, Key("charges", "-5"))

    told = cli.json(
        "--store", "sqlite:///onefold.db", "why", "charges", "--id", Key("charges", "-5").id.hex()
    )

    assert told["next"][0] == "onefold resolve --happened --store sqlite:///onefold.db -- charges -5"
    assert told["origin"] == "the command line"


def test_why_offers_a_retry_first_where_it_is_safe(cli: Cli, book: Ledger):
    failed(book, Key("charges", 1))

    assert cli.json("why", "charges", "1")["next"][0] == "onefold retry charges 1"


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (held, "is held, but its holder fell silent"),
        (waiting, "did not happen yet; it was tried 1 time"),
        (by_hand, "was set aside by hand"),
        (done, "is done since 2026-01-01 00:00:00Z; it is remembered for ever"),
    ],
)
def test_why_has_a_sentence_for_every_state(cli: Cli, book: Ledger, make, sentence: str):
    make(book, Key("charges", 1))

    assert sentence in cli("why", "charges", "1").stdout


def test_why_shows_the_receipt_of_what_is_done(cli: Cli, book: Ledger):
    done(book, Key("charges", 1), {"id": "ch_314"}, keep="8d")

    result = cli("why", "charges", "1")

    assert '  receipt    {"id":"ch_314"}' in result.stdout.splitlines()
    assert "  forgotten  2026-01-09 00:00:00Z" in result.stdout.splitlines()
    assert result.exit_code == Code.FINE
    assert cli.json("why", "charges", "1")["entry"]["expires"] == "2026-01-09T00:00:00.000Z"


def test_a_key_that_was_never_claimed_is_told_apart(cli: Cli, book: Ledger):
    done(book, Key("charges", 1))

    result = cli("why", "charges", "2")

    assert result.exit_code == Code.FAILED
    assert result.stdout == "charges/2 was never claimed, as far as this ledger remembers.\n"
    assert cli.json("why", "charges", "2")["entry"] is None


def test_looking_never_creates_a_file(cli: Cli, here):
    for words in (["status"], ["list"], ["why", "charges", "1"], ["doctor"], ["store", "purge", "-y"]):
        assert cli(*words).exit_code == Code.UNREACHABLE
    cli("store", "sql")

    assert list(here.iterdir()) == []


def test_version_says_which_one_this_is(cli: Cli):
    assert cli.json("version")["onefold"] == __version__
    assert cli("version").stdout.startswith(f"onefold {__version__} on Python 3.")
    assert cli("--version").stdout == f"onefold {__version__}\n"
