"""Times as tables hold them: numbers, timestamps, and texts of a few shapes, each read and written as it is.

Texts of two shapes do not sort by time: a blank sorts before a T, so that a whole day may stand in the wrong
place. So shapes are recognised, and a mixture is said. A text without a zone is UTC, as SQLite's are.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any, NamedTuple

from onefold.core.record import At


class Shape(NamedTuple):
    """One form of times, as text of a fixed width."""

    pattern: re.Pattern[str]
    separator: str
    digits: int
    zone: str

    def written(self, at: float) -> str:
        """Write a moment in this form."""
        moment = datetime.fromtimestamp(at, UTC)
        text = moment.strftime(f"%Y-%m-%d{self.separator}%H:%M:%S")
        fraction = f".{moment.microsecond:06d}"[: self.digits + 1] if self.digits else ""
        return text + fraction + self.zone


def _shape(separator: str, digits: int, zone: str) -> Shape:
    fraction = rf"\.\d{{{digits}}}" if digits else ""
    day, time = r"\d{4}-\d\d-\d\d", r"\d\d:\d\d:\d\d"
    return Shape(re.compile(f"{day}{separator}{time}{fraction}{re.escape(zone)}"), separator, digits, zone)


SHAPES = [
    _shape(separator, digits, zone)
    for separator in (" ", "T")
    for digits in (0, 3, 6)
    for zone in ("", "Z", "+00:00")
]
OURS = _shape("T", 6, "Z")
"""The form in which times are written where no other stands yet."""


def at(value: Any) -> At | None:
    """Read an order value: a number as it is, a time as seconds since 1970; None if it is neither."""
    match value:
        case bool():
            return None
        case int() | float():
            return value
        case Decimal():
            return float(value)
        case datetime():
            return (value if value.tzinfo else value.replace(tzinfo=UTC)).timestamp()
        case date():
            return datetime(value.year, value.month, value.day, tzinfo=UTC).timestamp()
        case str():
            return _read(value)
        case _:
            return None


def _read(text: str) -> float | None:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


def shape_of(value: Any) -> Shape | None:
    """Name the form of a text; None for what is no text, or has no form that is known."""
    if not isinstance(value, str):
        return None
    return next((shape for shape in SHAPES if shape.pattern.fullmatch(value)), None)


def mixed(samples: Iterable[Any]) -> list[str]:
    """Return a sample of every form, if texts of more than one stand in a column that is sorted by."""
    found: dict[Any, str] = {}
    for sample in samples:
        form = shape_of(sample) if isinstance(sample, str) else type(sample).__name__
        found.setdefault(form if form is not None else "unknown", repr(sample))
    texts = any(isinstance(sample, Shape) or sample == "unknown" for sample in found)
    return list(found.values()) if texts and len(found) > 1 else []


def is_number(declared: str) -> bool:
    """Say whether a column was declared to hold numbers."""
    return bool(re.search(r"int|real|num|dec|float|double", declared, re.IGNORECASE))


def is_time(declared: str) -> bool:
    """Say whether a column was declared to hold times, in a database that knows them."""
    return bool(re.match(r"timestamp|datetime|date\b", declared, re.IGNORECASE))
