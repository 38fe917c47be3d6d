"""Receipts come back equal by the return annotation, or they are not kept and the caller is warned."""

from __future__ import annotations

import asyncio
import sys
import warnings
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, TypedDict
from uuid import UUID
from zoneinfo import ZoneInfo

import msgspec
import pytest

from onefold import AsyncLedger, Key, Ledger
from onefold.core.errors import NoReceipt
from onefold.drive import Inline
from onefold.ledger.holding import kept
from onefold.stores.memory import MemoryStore
from tests.fast.ledger.doors import stored

KEY = Key("receipts", 1)


class Colour(StrEnum):
    RED = "red"


class Point(NamedTuple):
    x: int
    at: datetime


@dataclass
class Line:
    text: str
    cents: Decimal


@dataclass(eq=False)
class Order:
    id: UUID
    lines: tuple[Line, ...] = ()
    seen: set[int] = field(default_factory=set)


@dataclass
class Child(Line):
    more: int = 0


class Charged(msgspec.Struct):
    id: str
    at: datetime | None = None


class Row(TypedDict):
    id: str
    parts: tuple[int, str]


class Picky:
    """Raises when it is compared."""

    def __eq__(self, other: object) -> bool:
        raise RuntimeError


@dataclass
class Brittle:
    inner: int

    def __post_init__(self) -> None:
        if self.inner == 13:
            raise KeyError("unlucky")


AT = datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=UTC)
ID = UUID("6f1b4c9e-3d1a-4b7e-9a52-0c5de2b3f701")


def returning(value: Any, wanted: Any = None) -> Any:
    def effect():
        return value

    if wanted is not None:
        effect.__annotations__["return"] = wanted
    return effect


@pytest.fixture
def quiet() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


@pytest.mark.usefixtures("quiet")
@pytest.mark.parametrize(
    ("value", "wanted"),
    [
        (None, None),
        ("text", None),
        (True, None),
        (2**70, None),
        (-0.1, None),
        ([1, [None, {"a": 1.5}]], None),
        ({"a": {"b": []}}, None),
        ("text", str),
        (5, int),
        (5, float),
        (None, str | None),
        ("text", str | None),
        (b"\x00\xff", bytes),
        ((1, "two"), tuple[int, str]),
        ([(1, 2), (3, 4)], list[tuple[int, int]]),
        ({1: "a"}, dict[int, str]),
        (Decimal("12.50"), Decimal),
        (AT, datetime),
        (AT.astimezone(ZoneInfo("Europe/Berlin")), datetime),
        (AT.replace(tzinfo=None), datetime),
        (date(2026, 1, 2), date),
        (timedelta(hours=1.5), timedelta),
        (ID, UUID),
        (Colour.RED, Colour),
        ({1, 2}, set[int]),
        (Line("a", Decimal("0.10")), Line),
        (Order(ID, (Line("a", Decimal("0.10")),), {1}), Order),
        (Point(1, AT), Point),
        (Charged("a", AT), Charged),
        ({"id": "a", "parts": (1, "b")}, Row),
        ([1, 2], Sequence[int]),
        ("text", Any),
    ],
    ids=repr,
)
def test_what_the_return_annotation_restores_comes_back_equal_and_of_the_same_type(value, wanted):
    ledger = Ledger("memory:")

    ran = ledger.call(KEY, returning(value, wanted))
    done = ledger.call(KEY, returning("again", wanted))

    assert (ran.state, ran.receipt is value, done.state) == ("ran", True, "done")
    if isinstance(value, Order):
        assert (type(done.receipt), vars(done.receipt)) == (Order, vars(value))
    else:
        assert done.receipt == value
        assert type(done.receipt) is (float if wanted is float else type(value))


@pytest.mark.parametrize(
    ("value", "wanted", "reason"),
    [
        (b"\x00\xff", None, "a bytes would come back as str: annotate what the function returns"),
        ((1, "two"), None, "a tuple would come back as list"),
        ([1, (2, 3)], None, "this list would not come back equal"),
        ({"a": (2, 3)}, None, "this dict would not come back equal"),
        ({1: "a"}, None, "this dict would not come back equal"),
        (Decimal("12.50"), None, "a Decimal would come back as str"),
        (AT, None, "a datetime would come back as str"),
        (ID, None, "a UUID would come back as str"),
        (Colour.RED, None, "a Colour would come back as str"),
        (Line("a", Decimal(1)), None, "a Line would come back as dict"),
        (Point(1, AT), None, "a Point would come back as list"),
        (OrderedDict(a=1), None, "a OrderedDict would come back as dict"),
        (2**60 + 1, float, "a int would come back as float"),
        ((1, 2), Sequence[int], "a tuple would come back as list: its return type does not restore it"),
        ((1, 2), list[int], "a tuple would come back as list"),
        (Child("a", Decimal(1), 7), Line, "a Child would come back as Line"),
        (Colour.RED, str, "a Colour would come back as str"),
        ("text", int, "cannot be read back as the return type: Expected `int`, got `str`"),
        (None, str, "cannot be read back as the return type: Expected `str`, got `null`"),
        (5, UUID, "cannot be read back as the return type"),
    ],
    ids=repr,
)
def test_what_would_come_back_as_another_value_is_not_kept_and_said(value, wanted, reason):
    ledger = Ledger("memory:")

    with pytest.warns(RuntimeWarning) as told:
        ran = ledger.call(KEY, returning(value, wanted))

    assert (ran.state, ran.receipt is value) == ("ran", True)
    assert len(told) == 1
    assert f"{KEY} is done, but its receipt is not kept: " in str(told[0].message)
    assert reason in str(told[0].message)
    with pytest.raises(NoReceipt, match="could not be stored"):
        ledger.call(KEY, returning("again", wanted))


def test_a_value_that_raises_when_it_is_made_or_compared_still_settles():
    store = MemoryStore()
    unlucky = Brittle(1)
    unlucky.inner = 13

    with pytest.warns(RuntimeWarning, match="not kept"):
        Ledger(store).call(KEY, returning(unlucky, Brittle))
    with pytest.warns(RuntimeWarning, match="not kept"):
        Ledger(store).call(Key("receipts", 2), returning(Picky(), Picky))

    assert stored(store, KEY).state == stored(store, Key("receipts", 2)).state == "done"


@pytest.mark.parametrize("inmost", [5, None, (1, 2)])
def test_a_list_so_deep_that_python_cannot_follow_it_still_settles(inmost):
    store, value = MemoryStore(), inmost
    for _ in range(sys.getrecursionlimit() - 150):
        value = [value]

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert Ledger(store).call(KEY, returning(value)).state == "ran"

    assert (stored(store, KEY).state, stored(store, KEY).body is None) == ("done", inmost != 5)


@pytest.mark.usefixtures("quiet")
def test_the_receipt_of_a_worker_is_kept_as_json_for_people():
    assert kept(KEY, (1, Decimal("12.50"))) == '[1,"12.50"]'


@pytest.mark.usefixtures("quiet")
def test_the_annotation_of_a_partial_is_that_of_its_function():
    def charge(order: str) -> Decimal:
        return Decimal("12.50")

    ledger = Ledger("memory:")
    for _ in range(2):
        assert type(ledger.call(KEY, partial(charge, "A-17")).receipt) is Decimal


def test_a_warning_that_is_turned_into_an_error_comes_after_the_key_is_settled(door):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(RuntimeWarning, match="not kept"):
            door.call(KEY, lambda: (1, 2))

    assert stored(door.store, KEY).state == "done"


# ----- where the warning points


def next_line() -> int:
    return sys._getframe(1).f_lineno + 1


def places(told: pytest.WarningsRecorder) -> list[tuple[str, int]]:
    return [(Path(one.filename).name, one.lineno) for one in told]


def test_the_warning_points_at_the_line_of_the_blocking_call():
    ledger, expected = Ledger("memory:"), []

    @ledger.protect("receipts", key=lambda number: number)
    def pair(number: int):
        return (number, number)

    def main() -> None:
        keys = [Key("lines", number) for number in range(5)]
        expected.append(next_line())
        pair(1)
        expected.append(next_line())
        ledger.call(keys[0], lambda: (1, 2))
        expected.append(next_line())
        ledger.claim(keys[1]).settle((1, 2))
        many = ledger.claim_many(keys[2:])
        expected.extend([next_line()] * 3)
        ledger.settle_many([(one, (1, 2)) for one in many])

    with pytest.warns(RuntimeWarning) as told:
        main()

    assert places(told) == [(Path(__file__).name, line) for line in expected]


def test_the_warning_points_at_the_line_of_the_awaited_call():
    expected = []

    async def main() -> None:
        ledger = AsyncLedger(Inline(MemoryStore()))

        @ledger.protect("receipts", key=lambda number: number)
        async def pair(number: int):
            await asyncio.sleep(0)
            return (number, number)

        async def effect():
            return (1, 2)

        keys = [Key("lines", number) for number in range(5)]
        expected.append(next_line())
        await pair(1)
        expected.append(next_line())
        await ledger.call(keys[0], effect)
        won = await ledger.claim(keys[1])
        expected.append(next_line())
        await won.settle((1, 2))
        many = await ledger.claim_many(keys[2:])
        expected.extend([next_line()] * 3)
        await ledger.settle_many([(one, (1, 2)) for one in many])

    with pytest.warns(RuntimeWarning) as told:
        asyncio.run(main())

    assert places(told) == [(Path(__file__).name, line) for line in expected]
