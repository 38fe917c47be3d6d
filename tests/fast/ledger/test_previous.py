"""A ledger that an earlier version wrote: its keys are found, its receipts are read, nothing runs again.

`previous/keys.json` and `previous/ledger.sql` were written by the version before keys refused members of
enums. They are data, not made by these tests: a change of how keys are computed has to find them too.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from enum import Enum, IntEnum, StrEnum
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from onefold import Key, Ledger
from onefold.core.errors import NoReceipt
from onefold.stores.sqlite import SqliteStore

PREVIOUS = Path(__file__).parent / "previous"
KEYS: list[dict[str, Any]] = json.loads((PREVIOUS / "keys.json").read_text("utf-8"))
RECEIPTS = [
    "sent",
    5,
    None,
    True,
    1.5,
    [1, "two", None],
    {"id": "r1", "lines": [{"cents": 4900}]},
    "ünïcode",
    [],
    "",
]
LATER = 1_794_900_000.0
"""A time after the old ledger was written, and before anything in it expires."""


class Plan(str, Enum):  # noqa: UP042  (the old ledger has a key of such a member)
    GOLD = "gold"


class Size(int, Enum):
    BIG = 3


class Level(IntEnum):
    HIGH = 7


class Colour(StrEnum):
    RED = "red"


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    path = tmp_path / "old.db"
    old = sqlite3.connect(path)
    old.executescript((PREVIOUS / "ledger.sql").read_text("utf-8"))
    old.close()
    made = Ledger(SqliteStore(path, clock=lambda: LATER))
    yield made
    made.close()


def effect(*parts: Any) -> Any:
    raise AssertionError(f"{parts} ran again")


def protected(ledger: Ledger, scope: str) -> Any:
    return ledger.protect(scope, key=lambda *parts: parts)(effect)


def test_keys_are_computed_as_the_previous_version_computed_them():
    assert [Key(one["scope"], *one["parts"]).id.hex() for one in KEYS] == [one["id"] for one in KEYS]


def test_nothing_that_the_previous_version_did_runs_again(ledger):
    for at, one in enumerate(KEYS):
        assert protected(ledger, one["scope"])(*one["parts"]) == RECEIPTS[at % len(RECEIPTS)]


def test_content_that_the_previous_version_digested_is_still_the_same_content(ledger):
    def content(*parts: Any) -> Any:
        return {"parts": [str(part) for part in parts]}

    digested = [one for one in KEYS if ledger.look(Key(one["scope"], *one["parts"])).fingerprint]

    assert len(digested) > 5
    for one in digested:
        protect = ledger.protect(one["scope"], key=lambda *parts: parts, content=content)
        protect(effect)(*one["parts"])


@pytest.mark.parametrize(
    "part",
    [Size.BIG, Level.HIGH, Colour.RED, str(Plan.GOLD), UUID("6f1b4c9e-3d1a-4b7e-9a52-0c5de2b3f701")],
    ids=repr,
)
def test_members_of_enums_and_uuids_find_what_was_stored_for_them(ledger, part):
    protected(ledger, "charges")(part)


@pytest.mark.parametrize(
    ("name", "receipt"),
    [
        ("tuple", [1, "two"]),
        ("bytes", "AP8="),
        ("decimal", "12.50"),
        ("datetime", "2026-01-02T03:04:05Z"),
        ("uuid", "6f1b4c9e-3d1a-4b7e-9a52-0c5de2b3f701"),
        ("dataclass", {"id": "r1", "at": "2026-01-02T00:00:00Z"}),
    ],
)
def test_receipts_that_the_previous_version_changed_are_read_as_it_read_them(ledger, name, receipt):
    assert ledger.call(Key("receipts", name), effect).receipt == receipt


def test_a_receipt_that_the_previous_version_could_not_keep_is_said_to_be_gone(ledger):
    with pytest.raises(NoReceipt):
        ledger.call(Key("receipts", "nan"), effect)


@pytest.mark.parametrize("name", ["held", "parked", "in-doubt"])
def test_what_the_previous_version_left_open_is_not_run(ledger, name):
    assert ledger.call(Key("states", name), effect).state == "parked"
