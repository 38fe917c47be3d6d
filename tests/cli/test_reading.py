"""`status`, `list` and `why`: what they say, for people and for programs, and with which exit code."""

import shlex
from datetime import UTC, datetime, timedelta

import pytest

from onefold import Key, Ledger, __version__
from onefold.cli.codes import Code
from tests.cli.stage import (
    AT,
    Cli,
    by_hand,
    done,
    failed,
    held,
    in_doubt,
    ledger,
    one_of_each,
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
    held(ledger(at=datetime.now(UTC)), Key("charges", 1))

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

    assert told["error"].startswith("ConnectionError: no answer from https://***@bank.example/pay")
    assert len(told["error"]) == 500
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
