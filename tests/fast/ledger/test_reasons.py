"""Why the last attempt ended is kept while an entry is open, and disturbs nothing that comes after."""

from __future__ import annotations

import json
import sqlite3
from typing import Any

import pytest

from onefold import Key, Ledger, Refused, Terms
from onefold.core.entry import Change, Entry
from onefold.core.errors import Later, Mismatch
from onefold.worker.work import is_kept
from tests.fast.ledger.doors import stored

KEY = Key("reasons", 1)
CLASSES = ["one-shot", "keyed", "idempotent"]


def note(store: Any, key: Key = KEY) -> dict[str, Any]:
    told: dict[str, Any] = json.loads(stored(store, key).body or "{}")
    return told


def raising(error: BaseException):
    def effect() -> None:
        raise error

    return effect


@pytest.mark.parametrize("effect", CLASSES)
@pytest.mark.parametrize(
    ("error", "text"),
    [
        (RuntimeError("the bank said no"), "RuntimeError: the bank said no"),
        (Refused("closed"), "Refused: closed"),
        (Later("closed", 90), "Later: closed; again in 90.0 s"),
    ],
    ids=["raised", "refused", "later"],
)
def test_what_an_effect_raised_is_kept_in_its_entry(door, effect, error, text):
    with pytest.raises(type(error)):
        door.call(KEY, raising(error), effect=effect)

    assert note(door.store)["error"] == text
    assert not is_kept(stored(door.store, KEY)), "a worker must not take it for a record"


@pytest.mark.parametrize(("end", "state"), [("park", "parked"), ("release", "free")])
def test_the_reason_of_a_claim_that_was_parked_or_released_is_kept(door, end, state):
    claim = door.do(door.ledger.claim(KEY))
    door.do(getattr(claim, end)("ask https://me:hunter2@bank.example first"))

    assert stored(door.store, KEY).state == state
    assert note(door.store)["reason"] == "ask https://***@bank.example first"


def test_the_reason_of_many_claims_that_were_released_is_kept_with_each(door):
    keys = [Key("reasons", number) for number in range(3)]
    claims = door.do(door.ledger.claim_many(keys))

    assert door.do(door.ledger.release_many(claims, "the shop closes")) == []
    assert [note(door.store, key)["reason"] for key in keys] == ["the shop closes"] * 3


def test_only_the_last_ending_is_told(door, time):
    for error in (Refused("one"), Refused("two")):
        with pytest.raises(Refused):
            door.call(KEY, raising(error))
        time.now += 100
    assert note(door.store)["error"] == "Refused: two"

    claim = door.do(door.ledger.claim(KEY))
    assert note(door.store)["error"] == "Refused: two", "while it is tried again"
    door.do(claim.park("enough"))

    assert note(door.store) == {"reason": "enough", "cut": True}


def test_an_ending_without_a_reason_leaves_what_was_told_before(door, time):
    with pytest.raises(Refused):
        door.call(KEY, raising(Refused("one")))
    time.now += 100
    door.do(door.do(door.ledger.claim(KEY)).release())

    assert note(door.store)["error"] == "Refused: one"


@pytest.mark.parametrize("effect", CLASSES)
def test_after_a_failure_the_effect_runs_its_receipt_is_kept_and_its_content_still_compared(
    door, time, effect
):
    with pytest.raises(Refused):
        door.call(KEY, raising(Refused("no")), effect=effect, content="a")
    time.now += 100
    with pytest.raises(Mismatch):
        door.call(KEY, lambda: 5, effect=effect, content="b")

    assert door.call(KEY, lambda: None, effect=effect, content="a").state == "ran"
    assert stored(door.store, KEY).body == "null"
    assert door.call(KEY, lambda: 6, effect=effect, content="a")[:2] == ("done", None)


def test_a_record_that_a_worker_keeps_is_not_lost_when_a_ledger_fails_on_its_key(door):
    body = '{"record":{"id":"7","at":1,"source":"s","body":null},"error":"old"}'
    free = Entry("free", token="worker", effect="idempotent", label="1", source="s", body=body)
    door.store.swap([Change(KEY, None, free)])

    with pytest.raises(Refused):
        door.call(KEY, raising(Refused("no")), effect="idempotent")

    assert note(door.store) == {"record": json.loads(body)["record"], "error": "Refused: no"}
    assert is_kept(stored(door.store, KEY))


def test_a_holder_that_was_parked_in_the_meantime_still_tells_what_it_ran_into(door, time):
    def slow() -> None:
        time.now += 60
        assert door_of_another.call(KEY, lambda: 5).state == "parked"
        raise RuntimeError("the answer was lost")

    door_of_another = Ledger(door.store)

    with pytest.raises(RuntimeError):
        door.call(KEY, slow)

    assert (stored(door.store, KEY).why, note(door.store)["error"]) == (
        "in-doubt",
        "RuntimeError: the answer was lost",
    )


def test_what_a_person_decides_after_a_failure_has_its_own_receipt(door):
    with pytest.raises(RuntimeError):
        door.call(KEY, raising(RuntimeError("lost")))
    door.do(door.ledger.resolve(KEY, happened=True, receipt="seen", by="ann"))

    assert door.call(KEY, lambda: 5).receipt == "seen"


def test_an_exception_that_cannot_be_printed_is_raised_and_its_claim_ends(door):
    class Silent(Exception):
        def __str__(self) -> str:
            raise RuntimeError

    with pytest.raises(Silent):
        door.call(KEY, raising(Silent()))

    assert stored(door.store, KEY).why == "in-doubt"
    assert note(door.store)["error"] == "Silent: its text cannot be read (RuntimeError)"


def test_a_joined_effect_that_failed_tells_why_after_its_transaction_was_rolled_back(tmp_path):
    connection = sqlite3.connect(tmp_path / "shop.db", isolation_level=None)
    ledger = Ledger.on(connection)
    terms = Terms(attempts=3)
    connection.execute("BEGIN IMMEDIATE")
    with pytest.raises(RuntimeError):
        ledger.call(KEY, raising(RuntimeError("no such flat")), terms=terms)
    connection.execute("COMMIT")

    entry = ledger.look(KEY)
    assert entry is not None
    assert (entry.state, json.loads(entry.body or "")["error"]) == ("free", "RuntimeError: no such flat")
    connection.close()
