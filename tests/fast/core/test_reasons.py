"""How the last attempt ended: safe to keep whatever an exception prints, never at the cost of a record."""

from __future__ import annotations

import json

import pytest

from onefold.core.entry import BODY_LIMIT, Entry, State
from onefold.core.reasons import LENGTH, RECORD_LENGTH, carried, described, found, noted, stated
from onefold.core.redaction import KNOWN, masked


class Text(str):
    __slots__ = ()

    def __getitem__(self, _: object) -> str:
        raise RuntimeError

    def encode(self, *_: object) -> bytes:
        raise RuntimeError


def printing(what: object) -> Exception:
    class Odd(Exception):
        def __str__(self) -> str:
            if isinstance(what, type):
                raise what
            return what  # type: ignore[return-value]

    return Odd()


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (ValueError("no such order"), "ValueError: no such order"),
        (ValueError(), "ValueError"),
        (KeyboardInterrupt(), "KeyboardInterrupt"),
        (printing(RuntimeError), "Odd: its text cannot be read (RuntimeError)"),
        (printing(5), "Odd: its text cannot be read (TypeError)"),
        (printing(Text("quiet")), "Odd: quiet"),
        (ValueError("\ud800 a\0b"), "ValueError: ? a\0b"),
    ],
)
def test_an_exception_is_described_whatever_it_does_when_it_is_printed(error, text):
    assert described(error) == text


def test_a_long_text_is_cut():
    assert described(ValueError("x" * 1_000_000)) == f"ValueError: {'x' * (LENGTH - 13)}…"
    assert described(ValueError(("x" * 90 + " ") * 1000))[-2:] == "x…"


def test_no_secret_is_kept_in_an_error_not_even_where_it_was_cut():
    url = "postgresql://me:hunter2" + "2" * 4000 + "@db.example/shop"

    assert described(ValueError("cannot ask postgresql://me:hunter2@db/x")).endswith("postgresql://***@db/x")
    assert described(ValueError(f"cannot ask {url}")) == "ValueError: cannot ask …"
    assert described(ValueError(url)) == "ValueError: …"


def test_a_secret_that_the_process_was_given_by_name_is_masked():
    KNOWN.add("open-sesame")
    try:
        assert masked("the bank said: open-sesame") == "the bank said: ***"
        assert described(ValueError("bad token open-sesame")) == "ValueError: bad token ***"
    finally:
        KNOWN.discard("open-sesame")


def test_without_a_record_only_the_ending_is_kept_and_workers_are_told_that_there_is_none():
    assert noted(None, error="E: no") == '{"error":"E: no","cut":true}'
    assert noted('{"error":"E: no","cut":true}', reason="later") == '{"reason":"later","cut":true}'
    assert noted('{"reason":"later","cut":true}', error="E: no") == '{"error":"E: no","cut":true}'


def test_a_record_that_a_worker_keeps_stays_as_it_is_and_only_its_last_ending_is_replaced():
    record = '{"id":"7","at":1e400,"body":{"n":123456789012345678901234567890}}'
    whole = f'{{"record":{record},"for":"ann","error":"old","note":1,"later":true}}'
    cut = '{"record":{"id":"7"},"error":"old","cut":true}'

    assert noted(whole, error="E: no") == f'{{"record":{record},"for":"ann","error":"E: no"}}'
    assert noted(cut, reason="by phone") == '{"record":{"id":"7"},"reason":"by phone","cut":true}'


@pytest.mark.parametrize("body", ["no JSON", "[]", '{"other":1}', "5", "[" * 100_000])
def test_a_body_of_another_kind_is_left_alone(body):
    assert noted(body, error="E: no") is None


def test_a_body_without_room_for_the_error_is_left_alone():
    record = json.dumps({"record": {"body": "x" * (BODY_LIMIT - 30)}})

    assert len(record) < BODY_LIMIT
    assert noted(record, error="E: no" * 20) is None


def test_no_reason_changes_nothing():
    assert noted('{"error":"E: no","cut":true}', reason="") is None


def test_a_reason_may_be_anything_that_can_be_printed_and_never_fails():
    assert noted(None, reason=ValueError("no")) == '{"reason":"no","cut":true}'
    assert noted(None, reason=printing(RuntimeError)) is not None


def test_the_largest_note_fits_into_an_entry():
    body = noted(None, error=described(ValueError("\0" * 10_000)))

    assert body is not None
    assert len(body.encode()) < BODY_LIMIT


# ----- reading it back

RECORD = {"id": "r1", "at": 1, "source": "feed", "body": {"x": 1}}


def holding(body: object, state: State = "parked") -> Entry:
    return Entry(state, body=json.dumps(body))


@pytest.mark.parametrize(
    "text",
    [
        {"record": RECORD},
        {"record": RECORD, "for": "ann", "error": "Refused: closed", "request": 5},
        {"error": "Effect", "cut": True},
        {"reason": "later"},
    ],
)
def test_what_a_worker_or_a_ledger_wrote_is_read_back_unless_it_is_a_receipt(text: dict[str, object]):
    assert carried(holding(text)) == text
    assert carried(holding(text, "done")) == {}


@pytest.mark.parametrize(
    "body", ["null", "[1]", "{", '{"x": 1}', '{"record": 1, "error": "x"}', "[" * 100_000, None]
)
def test_a_body_of_another_kind_carries_nothing(body: str | None):
    assert carried(Entry("parked", body=body)) == found(Entry("parked", body=body)) == {}


def test_what_a_decision_was_made_upon_is_kept_without_the_request_and_bounded():
    text = {
        "record": RECORD,
        "for": "ann",
        "error": "Refused: closed",
        "reason": "r",
        "request": 5,
        "note": 1,
    }
    large = {"record": {**RECORD, "body": "x" * RECORD_LENGTH}, "error": "Refused: closed"}

    assert found(holding(text)) == {"record": RECORD, "for": "ann", "error": "Refused: closed", "reason": "r"}
    assert found(holding(large)) == {"record": {"id": "r1", "cut": True}, "error": "Refused: closed"}
    assert found(holding({"error": "Effect"})) == {"error": "Effect"}


def test_a_reason_that_a_person_gives_is_masked_and_cut():
    assert stated("see https://ann:hunter2@bank.example") == "see https://***@bank.example"
    assert len(stated("x" * 9000)) == LENGTH
