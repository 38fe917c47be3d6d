"""Bad input gets a typed error and a sentence, and loses nothing."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from onefold import Key, Ledger, Terms
from onefold.core.errors import Misconfigured, Mismatch, NoReceipt
from onefold.runtime import current
from tests.fast.ledger.doors import stored

KEY = Key("bad", 1)


def nested(depth: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize(
    "receipt",
    [
        object(),
        {1, object()},
        "x" * 70_000,
        float("nan"),
        [1.0, float("inf")],
        "\ud800",
        nested(100_000),
        10**5000,
    ],
    ids=["object", "set", "oversized", "nan", "infinity", "surrogate", "deep", "huge-number"],
)
def test_a_receipt_that_cannot_be_stored_still_settles_with_a_warning(door, receipt):
    with pytest.warns(RuntimeWarning, match="its receipt is not kept"):
        outcome = door.call(KEY, lambda: receipt)

    assert (outcome.state, outcome.receipt is receipt) == ("ran", True)
    assert stored(door.store, KEY).state == "done"
    with pytest.raises(NoReceipt, match="could not be stored"):
        door.call(KEY, lambda: "again")


def test_the_largest_receipt_is_kept(door):
    receipt = "x" * (64 * 1024 - 2)
    door.call(KEY, lambda: receipt)

    assert door.call(KEY, lambda: "again").receipt == receipt


def test_a_key_twice_in_one_batch_is_refused_and_nothing_is_claimed(door):
    with pytest.raises(Misconfigured, match="stands twice"):
        door.do(door.ledger.claim_many([KEY, Key("bad", 2), Key("bad", "1")]))

    assert door.store.get([KEY])[0].entry is None


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ({"effect": "harmless"}, "choose one of joined, keyed, idempotent, one-shot"),
        ({"effect": "joined"}, r"use Ledger.on\(connection\)"),
        ({"safe": ("no",)}, "give exception types"),
        ({"wait": -1}, "wait is -1"),
        ({"wait": True}, "wait is True"),
        ({"wait": float("nan")}, "wait is nan"),
        ({"wait": float("inf")}, "wait is inf"),
        ({"wait": "soon"}, "wait is 'soon': write a number of seconds or text like \"5s\""),
        ({"terms": 60}, "terms is 60"),
        ({"window": 0}, "window is 0"),
        ({"at": datetime(2026, 1, 1)}, "without a time zone"),  # noqa: DTZ001
        ({"content": object()}, "cannot be fingerprinted"),
    ],
)
def test_a_bad_how_is_refused_before_anything_is_asked(store, how, words):
    with pytest.raises(Misconfigured, match=words):
        Ledger(store).call(KEY, lambda: 5, **how)

    assert store.get([KEY])[0].entry is None


def test_a_misspelt_how_is_met_with_the_nearest_name(store):
    with pytest.raises(TypeError, match=r"did you mean effect=\?"):
        Ledger(store).call(KEY, lambda: 5, efect="keyed")  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="is not known here"):
        Ledger(store).call(KEY, lambda: 5, zzz=1)  # type: ignore[call-arg]


def test_what_is_for_one_key_is_refused_for_many(store):
    for how in ({"probe": print}, {"content": "x"}, {"wait": 1.0}):
        with pytest.raises(Misconfigured, match="one key at a time"):
            Ledger(store).claim_many([KEY], **how)


def test_scopes_of_onefolds_own_are_refused(door):
    with pytest.raises(Misconfigured, match="belongs to Onefold itself"):
        door.call(Key("onefold.audit", 1), lambda: 5)


def test_other_content_under_a_known_key_is_a_mismatch(door):
    door.call(KEY, lambda: 5, content={"cents": 1, "to": "bank"})
    before = stored(door.store, KEY)

    assert door.call(KEY, lambda: 6, content={"to": "bank", "cents": 1}).receipt == 5
    with pytest.raises(Mismatch, match="other content"):
        door.call(KEY, lambda: 6, content={"cents": 2, "to": "bank"})

    assert stored(door.store, KEY) == before


def test_other_content_under_a_key_that_expired_is_no_mismatch_though_nobody_purged_it(door, time):
    terms = Terms(keep="8d")
    door.call(KEY, lambda: 5, content="old", terms=terms)
    time.now += 8 * 86400 - 1
    with pytest.raises(Mismatch):
        door.call(KEY, lambda: 6, content="new", terms=terms)
    time.now += 1

    assert door.call(KEY, lambda: 6, content="new", terms=terms)[:2] == ("ran", 6)
    with pytest.raises(Mismatch):
        door.call(KEY, lambda: 7, content="old", terms=terms)


def test_a_record_older_than_keep_is_parked_beyond_memory_not_run(door):
    ran = []
    long_ago = datetime.fromtimestamp(current().time(), UTC) - timedelta(days=9)

    outcome = door.call(KEY, lambda: ran.append(1), at=long_ago, terms=Terms(keep="8d"))

    assert (outcome.state, ran) == ("parked", [])
    assert stored(door.store, KEY).why == "beyond-memory"


def test_an_idempotent_record_older_than_keep_is_done_again(door):
    long_ago = datetime.fromtimestamp(current().time(), UTC) - timedelta(days=9)

    outcome = door.call(KEY, lambda: 5, at=long_ago, terms=Terms(keep="8d"), effect="idempotent")

    assert outcome.state == "ran"


def test_a_claim_that_was_not_won_cannot_be_settled(door):
    first = door.do(door.ledger.claim(KEY))
    second = door.do(door.ledger.claim(KEY))

    with pytest.raises(Misconfigured, match="was not won here but is busy"):
        door.do(second.settle())
    door.do(first.settle())
    with pytest.raises(Misconfigured, match="settled, released or parked here before"):
        door.do(first.settle())


def test_resolving_what_is_not_parked_is_refused_with_its_story(door):
    door.call(KEY, lambda: 5)

    with pytest.raises(Misconfigured, match="nothing to resolve: bad/1 is done"):
        door.do(door.ledger.resolve(KEY, happened=True, by="ops"))


def test_a_probe_that_answers_true_is_refused_and_nothing_changes(door, time):
    door.do(door.ledger.claim(KEY))
    time.now += 60

    with pytest.raises(Misconfigured, match="a probe answered True"):
        door.call(KEY, lambda: 5, probe=lambda: True)

    assert stored(door.store, KEY).why == "in-doubt"


def test_hostile_keys_stay_apart_and_are_shown_escaped(door):
    hostile = [
        "a",
        "A",
        "a ",
        "é",
        "e\u0301",
        "a\0",
        "'; DROP TABLE onefold_entries; --",
        "$where",
        "\r\nSET x 1",
    ]
    for name in hostile:
        assert door.call(Key("hostile", name), lambda: "x").state == "ran"

    labels = {stored(door.store, Key("hostile", name)).label for name in hostile}

    assert len(labels) == len(hostile)
    assert all(label.isprintable() for label in labels)
