"""The judgement about lost replies: what is certain is borne out by the entry; unknown is always right."""

import random
from typing import get_args

import pytest
from msgspec.structs import replace

from onefold.core.entry import Entry
from onefold.testing.mishaps import Drop, Exchange, Reset, Swallow
from onefold.testing.torture.losses import some_mishaps, was_cut
from onefold.testing.torture.verdicts import DEEDS, RECEIPT, Asked, Losses, Told, borne_out

HELD = Entry("held", token="mine", version=7)
RENEWED = replace(HELD, version=8)
SETTLED = Entry("done", token="mine", version=8, body=RECEIPT)
RELEASED = Entry("free", token="mine", version=8)
THEIRS = Entry("held", token="theirs", version=8)
DONE = Entry("done", token="theirs", version=8)
PARKED = Entry("parked", token="theirs", version=8)
EVERYTHING = (None, HELD, RENEWED, SETTLED, RELEASED, THEIRS, DONE, PARKED)


def asked(told: Told, entry: Entry | None) -> Asked:
    return Asked("claim", "Swallow()", told, "mine", before=7, entry=entry)


@pytest.mark.parametrize(
    ("told", "right"),
    [
        ("won", [HELD, RENEWED]),
        ("renewed", [RENEWED]),
        ("settled", [SETTLED]),
        ("released", [RELEASED]),
        ("busy", [THEIRS]),
        ("done", [DONE]),
        ("parked", [PARKED]),
        ("lost", [THEIRS, DONE, PARKED]),
        ("mismatch", []),
        ("unknown", list(EVERYTHING)),
    ],
)
def test_what_was_told_is_right_where_the_entry_bears_it_out_and_nowhere_else(told, right):
    assert [entry for entry in EVERYTHING if borne_out(asked(told, entry))] == right


def test_every_word_is_judged():
    assert set(get_args(Told)) >= {
        "won", "renewed", "settled", "released", "busy", "done", "parked", "lost", "mismatch", "unknown"
    }  # fmt: skip


def test_a_receipt_that_is_not_the_one_that_was_given_is_found():
    assert not borne_out(asked("settled", replace(SETTLED, body='"another"')))


def test_the_closing_line_counts_cuts_the_misled_and_the_unknown():
    found = Losses(3, [asked("won", HELD), asked("busy", HELD), asked("unknown", None)])

    assert str(found) == "3 cut, misclassified 1, unknown 1, busy 1, won 1"
    assert str(found.misclassified[0]) == (
        "claim under Swallow(): told busy (mine), the server has held by mine"
    )
    assert found.by_deed()["claim"] == {"won": 1, "busy": 1, "unknown": 1}


@pytest.mark.parametrize(
    ("exchange", "cut"),
    [
        (Exchange(1, None, sent=9, delivered=9, answered=5, heard=5), False),
        (Exchange(1, Drop(), sent=9), True),
        (Exchange(1, Swallow(), sent=9, delivered=9, answered=5), True),
        (Exchange(1, Reset(4, "request"), sent=9, delivered=4), True),
        (Exchange(1, Reset(99, "request"), sent=9, delivered=9, answered=5, heard=5), False),
        (Exchange(1, Reset(2), sent=9, delivered=9, answered=5, heard=2), True),
        (Exchange(1, Reset(99), sent=9, delivered=9, answered=5, heard=5), False),
    ],
)
def test_only_what_was_not_heard_counts_as_cut(exchange: Exchange, cut: bool):
    assert was_cut(exchange) == cut


def test_the_same_seed_draws_the_same_mishaps_of_every_kind():
    drawn = [some_mishaps(random.Random(seed)) for seed in range(200)]

    assert drawn == [some_mishaps(random.Random(seed)) for seed in range(200)]
    kinds = {type(mishap) for mishaps in drawn for mishap in mishaps}
    sides = {mishap.side for mishaps in drawn for mishap in mishaps if isinstance(mishap, Reset)}
    assert kinds == {Swallow, Drop, Reset}
    assert sides == {"request", "reply"}
    assert {len(mishaps) for mishaps in drawn} == {1, 2, 3}
    assert len(DEEDS) == 10
