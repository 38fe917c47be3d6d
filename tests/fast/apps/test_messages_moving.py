"""Moving from Mnemosyne: what its table remembers is known to the ledger, and nothing is overwritten."""

from __future__ import annotations

import io
import json
import logging
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from decimal import Decimal
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from onefold import Key, Ledger, Parked
from onefold.apps.messages.moving import Signal, Terms, exported, items, main, memory, move_in, signal
from onefold.core.errors import Misconfigured
from onefold.worker.moving import moment
from onefold.worlds.smtp import SmtpWorld
from tests.fast.apps.messaging import by_mail, delivered, node, write

NOW = 1_700_000_000.0
MS = int(NOW * 1000)


@pytest.fixture
def store(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'onefold.db'}"


@pytest.fixture
def ledger(store: str) -> Iterator[Ledger]:
    made = Ledger(store)
    yield made
    made.close()


def key(name: str, processor: str = "mailer") -> Key:
    return Key("messages", processor, name)


def typed(name: str, **fields: Any) -> dict[str, Any]:
    """Write an item as DynamoDB does: texts as S, numbers as N."""
    plain = {"id": name, "processorId": "mailer", **fields}
    kinds: dict[type, str] = {str: "S", int: "N", float: "N"}
    return {
        field: value if isinstance(value, dict) else {kinds[type(value)]: str(value)}
        for field, value in plain.items()
    }


COMPLETED = typed("completed", startedAt=MS - 9000, completedAt=MS - 5000, expiresOn=int(NOW) - 3)
RUNNING = typed("running", startedAt=MS - 1000, expiresOn=int(NOW) + 60)
EXPIRED = typed("expired", startedAt=MS - 99_000, expiresOn=int(NOW) - 60)


# ----- reading


@pytest.mark.parametrize(
    ("value", "at"),
    [
        (MS, NOW),
        (str(MS), NOW),
        (Decimal(MS), NOW),
        (int(NOW), NOW),
        (NOW, NOW),
        ("2023-11-14T22:13:20Z", NOW),
        ("2023-11-14T23:13:20+01:00", NOW),
        ("2023-11-14T22:13:20.500", NOW + 0.5),
        (datetime.fromtimestamp(NOW, UTC), NOW),
        (datetime.fromtimestamp(NOW, UTC).replace(tzinfo=None), NOW),
        (None, None),
    ],
)
def test_seconds_milliseconds_and_iso_texts_are_told_apart(value, at):
    assert moment(value, "startedAt") == at


@pytest.mark.parametrize("value", ["soon", "", -1, 0, "NaN", "T", True, [1]])
def test_what_is_no_time_is_refused_by_name(value):
    with pytest.raises(Misconfigured, match=r"startedAt of the signal 's1' is .*: that is no time"):
        signal({"id": "s1", "processorId": "p", "startedAt": value})


def test_items_of_every_version_of_the_table_are_read():
    whole = Signal("s", "p", NOW - 9, NOW - 5, NOW - 3)
    plain = {"id": "s", "processorId": "p", "startedAt": MS - 9000, "completedAt": MS - 5000}
    second = {"id": "s", "contextId": "p", "startedAt": "2023-11-14T22:13:11Z", "result": {"sent": True}}

    assert signal({**plain, "expiresOn": Decimal(int(NOW) - 3)}) == whole
    assert signal(typed("s", **{**plain, "expiresOn": int(NOW) - 3})) == whole
    assert signal(second) == Signal("s", "p", NOW - 9, NOW - 9, None, {"sent": True})


def test_a_signal_whose_effect_returned_something_empty_is_completed():
    assert signal(typed("s", startedAt=MS, result={"M": {}})).completed == NOW
    assert signal(typed("s", startedAt=MS, completedAt=MS, result={"NULL": True})).completed == NOW


@pytest.mark.parametrize("field", ["completedAt", "result"])
@pytest.mark.parametrize("nothing", [{"NULL": True}, None], ids=["as DynamoDB", "as boto3"])
def test_a_null_does_not_say_that_a_signal_was_completed(field, nothing):
    plain = {"id": "s", "processorId": "mailer", "startedAt": MS, field: None}
    item = plain if nothing is None else typed("s", startedAt=MS, **{field: nothing})

    assert signal(item).completed is None
    found = memory(signal(item), Terms(), NOW)
    assert found is not None
    assert found.fate == "in-doubt"


@pytest.mark.parametrize(
    ("item", "says"),
    [
        ({"processorId": "p", "startedAt": 1}, "no id, but processorId, startedAt: is it the right table"),
        ({"id": "s", "startedAt": MS}, "no contextId"),
        ({"id": "s", "processorId": "", "startedAt": MS}, "no processorId"),
        ({"id": "s", "processorId": "p"}, "neither started nor completed"),
        ({"id": {"S": "s"}, "processorId": "p"}, "is no value of DynamoDB"),
    ],
)
def test_an_item_that_is_none_of_mnemosynes_is_refused(item, says):
    with pytest.raises(Misconfigured, match=says):
        signal(item)


@pytest.mark.parametrize(
    "text",
    [
        json.dumps({"Items": [RUNNING, EXPIRED], "Count": 2}),
        json.dumps({"Items": [RUNNING]}, indent=4) + "\n" + json.dumps({"Items": [EXPIRED]}),
        "\n".join(json.dumps({"Item": item}) for item in (RUNNING, EXPIRED)) + "\n",
        "\n".join(json.dumps(item) for item in (RUNNING, EXPIRED)),
    ],
)
def test_what_aws_tools_write_is_read(text, tmp_path):
    (tmp_path / "scan.json").write_text(text)

    assert list(exported(text)) == [RUNNING, EXPIRED]
    assert list(items("-", io.StringIO(text))) == [RUNNING, EXPIRED]
    assert list(items(str(tmp_path / "scan.json"))) == [RUNNING, EXPIRED]


@pytest.mark.parametrize("text", ["{", "[1]", "7", '"x"', '{"Items": 3}'])
def test_a_file_that_is_no_scan_is_refused(text):
    with pytest.raises(Misconfigured, match="no scan or export"):
        list(exported(text))


# ----- deciding


@pytest.mark.parametrize(
    ("item", "terms", "fate", "keep"),
    [
        (COMPLETED, Terms(), "done", None),
        (COMPLETED, Terms(keep=60.0), "done", 55.0),
        (COMPLETED, Terms(keep=5.0), None, None),
        (RUNNING, Terms(), "in-doubt", None),
        (RUNNING, Terms("idempotent"), "in-doubt", None),
        (EXPIRED, Terms(), "in-doubt", None),
        (EXPIRED, Terms("idempotent"), "free", None),
        (EXPIRED, Terms("keyed"), "free", None),
        (typed("s", startedAt=MS - 5000), Terms("keyed", processing=10.0), "in-doubt", None),
        (typed("s", startedAt=MS - 5000), Terms("keyed", processing=5.0), "free", None),
    ],
)
def test_what_a_ledger_should_know_of_a_signal(item, terms, fate, keep):
    found = memory(signal(item), terms, NOW)

    assert (found.fate if found else None) == fate
    assert (found.keep if found else None) == keep


# ----- moving


def test_a_moved_signal_is_done_in_doubt_or_free_and_moving_again_changes_nothing(store, ledger):
    table = [COMPLETED, RUNNING, EXPIRED]

    first = move_in(table, store, now=NOW)
    before = {name: ledger.look(key(name)) for name in ("completed", "running", "expired")}
    again = move_in(table, store, now=NOW)

    assert first == {"done": 1, "in-doubt": 2}
    assert again == {"known": 3}
    assert {name: ledger.look(key(name)) for name in before} == before
    assert ledger.claim(key("completed")).state == "done"
    assert ledger.claim(key("running")).state == "parked"
    with pytest.raises(Parked, match="in-doubt"):
        ledger.protect("messages", key=lambda: ("mailer", "expired"))(lambda: 1)()


def test_an_expired_attempt_of_an_idempotent_effect_runs_again(store, ledger):
    assert move_in([EXPIRED], store, effect="idempotent", now=NOW) == {"free": 1}
    with ledger.claim(key("expired"), effect="idempotent") as claim:
        assert claim.won


def test_nothing_that_the_ledger_knows_is_overwritten(store, ledger):
    with ledger.claim(key("running")) as claim:
        claim.settle("ours")
    free = typed("free", startedAt=MS, completedAt=MS)
    ledger.claim(key("free")).release()

    assert move_in([RUNNING, free], store, now=NOW) == {"known": 2}
    assert ledger.claim(key("running")).receipt == "ours"
    assert ledger.claim(key("free")).won


def test_what_was_completed_after_it_was_moved_in_doubt_is_settled_unless_somebody_decided(store, ledger):
    other = typed("other", startedAt=MS)
    move_in([RUNNING, other], store, now=NOW)
    ledger.resolve(key("other"), happened=False, by="ann")
    completed = [
        {**item, "completedAt": {"N": str(MS + 9)}, "result": {"S": "sent"}} for item in (RUNNING, other)
    ]

    assert move_in(completed, store, now=NOW) == {"done": 1, "known": 1}
    assert ledger.claim(key("running")).receipt == "sent"
    assert ledger.claim(key("other")).won


def test_contexts_stay_apart_and_a_repeated_item_is_moved_once(store, ledger):
    second = {"id": "s", "contextId": "sms", "startedAt": "2023-11-14T22:13:11Z", "result": {}}

    assert move_in([second, second, COMPLETED], store, now=NOW) == {"done": 2, "known": 1}
    assert ledger.claim(key("s", "sms")).state == "done"
    assert ledger.claim(key("s", "mailer")).won


@pytest.mark.parametrize(
    "odd",
    [
        typed("odd"),
        typed("odd", startedAt="soon"),
        typed("odd", startedAt=MS, completedAt={"N": "many"}),
        typed("odd", startedAt=MS, expiresOn={"N": "1", "S": "1"}),
        typed("odd", startedAt=MS, result={"M": 5}),
        typed("odd", startedAt={"N": "1e999999"}),
    ],
)
def test_an_item_that_cannot_be_read_is_in_doubt_and_holds_nobody_up(store, ledger, odd):
    # Left out, the signal would look new, and its message would be sent again.
    assert move_in([odd, COMPLETED], store, now=NOW) == {"done": 1, "in-doubt": 1}

    parked = ledger.look(key("odd"))
    assert (parked.state, parked.why) == ("parked", "in-doubt")
    assert "cannot be read" in parked.body


def test_an_item_that_names_no_signal_is_refused_and_listed_and_holds_nobody_up(store, ledger, caplog):
    odd: list[Any] = [
        {"processorId": "p", "startedAt": MS},
        "text",
        None,
        {},
        {"id": "\ud800", "processorId": "p"},
    ]

    assert move_in([*odd, COMPLETED], store, now=NOW) == {"done": 1, "refused": 5}
    assert len([one for one in caplog.messages if one.startswith("not moved: an item")]) == 5
    assert [found.label for found, _ in ledger.entries("messages", "done", "parked")] == ["mailer/completed"]


def test_a_table_in_which_no_item_names_a_signal_is_the_wrong_one_and_nothing_is_written(store, ledger):
    with pytest.raises(Misconfigured, match="is it the right table"):
        move_in([{"name": "x"}, {"name": "y"}], store, now=NOW)

    assert list(ledger.entries("messages", "done", "parked")) == []


def test_signals_that_were_moved_are_not_sent_again_and_new_ones_are(store, tmp_path):
    move_in([typed("s0", startedAt=MS, completedAt=MS), typed("s1", startedAt=MS)], store)
    write(tmp_path / "signals.jsonl", range(3))
    with SmtpWorld() as world:
        node(by_mail(world, tmp_path / "signals.jsonl", follow=""), store).run()

    assert delivered(world) == {"s2": 1}


def test_the_command_moves_a_scan_and_says_what_became_of_it(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(logging.root, "handlers", [])  # as in a process of its own: warnings go to stderr
    scan = json.dumps({"Items": [COMPLETED, RUNNING]})

    def moved(text: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "stdin", io.StringIO(text))
        return main(["-", "--store", "sqlite:///o.db"]), *capsys.readouterr()

    assert moved(scan) == (0, "1 done, 1 in-doubt\n", "")
    assert moved(scan) == (0, "2 known\n", "")
    assert moved('{"Items": []}') == (0, "nothing to move\n", "")

    code, shown, complaint = moved('{"Items": [{}]}')
    assert (code, shown) == (1, "")
    assert "nothing more was moved: an item has no id" in complaint

    code, shown, complaint = moved(scan.replace("}]}", "}, {}]}"))
    assert (code, shown) == (1, "2 known, 1 refused\n")
    assert "not moved: an item has no id" in complaint


needs_boto3 = pytest.mark.skipif(
    find_spec("boto3") is None, reason="boto3 is not installed: it comes with the test servers"
)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["gone.json"], "gone.json cannot be read"),
        pytest.param(["dynamodb://x"], "REGION/TABLE", marks=needs_boto3),
    ],
)
def test_a_table_that_cannot_be_read_is_told_in_a_sentence(arguments, says, capsys):
    assert main(arguments) == 1
    assert says in capsys.readouterr().err
