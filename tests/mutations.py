"""Pages of external rows with one row mutated, drawn from a seed: what a parser of such rows must survive.

A mutation works on JSON text, because some damage exists only there: NaN, a name that occurs twice, a number
of 500 digits. The other rows of the page stay as they are, so a test can assert that they still arrive. This
module knows no application; a test names the fields that say whose row it is (`owners`), each with a value of
somebody else.
"""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

Row = dict[str, Any]


class Page(NamedTuple):
    """A page as JSON text, and which of its rows was mutated, and how."""

    seed: int
    rows: tuple[str, ...]
    """The rows, each as JSON text."""
    spoiled: int
    """Index of the mutated row."""
    how: str
    """The mutation in words, for the message of a failing test."""

    @property
    def text(self) -> str:
        """Return the page as a JSON list."""
        return f"[{','.join(self.rows)}]"


class _Raw(str):
    """JSON text that `json.dumps` would not write, kept as it is."""


def pages(
    rows: Sequence[Row],
    *,
    owners: Mapping[str, Any] | None = None,
    count: int,
    size: int = 3,
    seed: int = 0,
) -> Iterator[Page]:
    """Yield `count` pages of `size` rows with one mutated; the same seed always yields the same pages."""
    for number in range(seed, seed + count):
        yield page(rows, number, owners=owners, size=size)


def page(rows: Sequence[Row], seed: int, *, owners: Mapping[str, Any] | None = None, size: int = 3) -> Page:
    """Return the page of one seed: to replay a failure, call this with the seed that the failure names."""
    draw = random.Random(seed)
    start = draw.randrange(len(rows))
    chosen = [rows[(start + index) % len(rows)] for index in range(min(size, len(rows)))]
    spoiled = draw.randrange(len(chosen))
    row = copy.deepcopy(chosen[spoiled])
    words = [_mutate(row, draw, owners or {}) for _ in range(draw.choice((1, 1, 1, 2, 3)))]
    texts = [_written(row if index == spoiled else one) for index, one in enumerate(chosen)]
    if draw.random() < 0.03:
        texts[spoiled], words = draw.choice(ODD_ROWS), ["not an object"]
    return Page(seed, tuple(texts), spoiled, "; ".join(words))


def _deep(levels: int) -> _Raw:
    return _Raw("[" * levels + "]" * levels)


VALUES: tuple[Any, ...] = (
    None, True, False, 0, 1, -1, 2**31, 2**63, 2**256, 0.1, -0.5, 1.5, 1e-30, 1e308,
    _Raw("NaN"), _Raw("Infinity"), _Raw("-Infinity"), _Raw("1e999"), _Raw("9" * 500), _Raw("0." + "3" * 500),
    "", " ", "0", "-1", "1.5", "NaN", "Infinity", "-Infinity", "1e999", "9" * 500, "null", "true",
    "false", "x" * 5000, "0x", "0xzz",
    "1٢3", "½", "\u0000", "é", "\U0001f433", "' OR 1=1 --", "<b>", "../../etc/passwd",
    _Raw('"\\ud800"'), [], [None], {}, {"a": 1}, [[1]], _deep(40), _deep(500),
)  # fmt: skip
"""Values that take the place of a field's own."""

ODD_ROWS = ("null", "1", '"text"', "[]", "{}", "NaN", "true", '{"a":1,"a":2}', "[" * 300 + "]" * 300)
"""What may stand in a page instead of a row."""


def _mutate(row: Row, draw: random.Random, owners: Mapping[str, Any]) -> str:
    """Spoil one field of the row, at any depth, and say how."""
    actions: list[Callable[[Row, random.Random], str]] = [
        _swap,
        _swap,
        _swap,
        _retype,
        _drop,
        _double,
        _nest,
        _exchange,
    ]
    if owners and draw.random() < 0.15:
        name = draw.choice(sorted(owners))
        row[name] = copy.deepcopy(owners[name])
        return f"{name} of somebody else"
    return draw.choice(actions)(row, draw) if row else "already empty"


def _place(row: Row, draw: random.Random) -> tuple[Row, str]:
    """Pick a field, sometimes one of an object inside the row."""
    name = draw.choice(sorted(row))
    inner = row[name]
    if isinstance(inner, list) and inner and isinstance(inner[0], dict):
        inner = inner[0]
    if isinstance(inner, dict) and inner and draw.random() < 0.7:
        return _place(inner, draw)
    return row, name


def _swap(row: Row, draw: random.Random) -> str:
    holder, name = _place(row, draw)
    holder[name] = copy.deepcopy(draw.choice(VALUES))  # a later mutation must not change the original
    return f"{name} = {holder[name]!r:.40}"


def _retype(row: Row, draw: random.Random) -> str:
    """Write a number as text, or a text as a number, a list or a boolean."""
    holder, name = _place(row, draw)
    value = holder[name]
    if isinstance(value, bool):
        holder[name] = str(value).lower()
    elif isinstance(value, int | float):
        holder[name] = draw.choice((str(value), f" {value}", f"{value}.0", -value, value * 1000, [value]))
    elif isinstance(value, str):
        holder[name] = draw.choice(
            (len(value), [value], {"value": value}, value.upper(), value[:-1], value + " ")
        )
    else:
        holder[name] = json.dumps(value, default=str)
    return f"{name} retyped to {holder[name]!r:.40}"


def _drop(row: Row, draw: random.Random) -> str:
    holder, name = _place(row, draw)
    del holder[name]
    return f"{name} dropped"


def _double(row: Row, draw: random.Random) -> str:
    """Let a name occur twice, with another value the second time."""
    holder, name = _place(row, draw)
    holder[f"{name}\0twice"] = copy.deepcopy(draw.choice(VALUES))
    return f"{name} twice"


def _nest(row: Row, draw: random.Random) -> str:
    holder, name = _place(row, draw)
    holder[name] = draw.choice(({name: holder[name]}, [holder[name]]))
    return f"{name} nested"


def _exchange(row: Row, draw: random.Random) -> str:
    """Exchange the values of two fields."""
    holder, name = _place(row, draw)
    other = draw.choice(sorted(holder))
    holder[name], holder[other] = holder[other], holder[name]
    return f"{name} and {other} exchanged"


def _written(value: Any) -> str:
    """Write JSON text, with raw parts as they are and doubled names as duplicates."""
    if isinstance(value, _Raw):
        return str(value)
    if isinstance(value, dict):
        return (
            "{"
            + ",".join(
                f"{json.dumps(name.partition(chr(0))[0])}:{_written(one)}" for name, one in value.items()
            )
            + "}"
        )
    if isinstance(value, list):
        return "[" + ",".join(map(_written, value)) + "]"
    return json.dumps(value)
