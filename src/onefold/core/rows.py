"""From the rows of an answer to records: where the rows stand, what names one, where it stands in time.

Units are brought to seconds here, once. What is no record is set apart with the reason; an answer that shows
its rows in the wrong unit, or instead of rows an error, is refused as a whole. A function of the caller's
never sees what is not to be trusted. Nothing here waits.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any, Literal, NamedTuple

from onefold.core.record import At, Broken, Record
from onefold.core.wire import Unreadable, flaw, quoted, sifted

Field = str | Callable[[Any], Any]
"""A name of a field, with dots for fields inside it, or a function of the row or body."""

Unit = Literal["s", "ms", "us", "ns", "iso"]

UNITS: dict[str, float] = {"s": 1, "ms": 1e3, "us": 1e6, "ns": 1e9}

AHEAD = 3600.0
"""Seconds by which a record may come from our future. One far ahead would carry the cursor with it, and
everything after that would seem old."""

OLDEST = 1e8
"""Times before 1973 are zeros, counters or another unit."""


STUMBLES = 100
"""Over how many rows of a page the caller's function may stumble. If there are more, the page is refused:
then the feed or the function has changed, and nobody should sort its rows one by one."""


class Shape(NamedTuple):
    """How to read a row."""

    id: Field
    at: Field
    unit: Unit | None = "s"
    rows: Field | None = None
    """Where the rows stand in the body; None if the body is the list."""


def rows_of(body: Any, where: Field | None) -> list[Any]:
    """Find the rows in a body. A body without them is an error that came as a success.

    A function gets the body without its flawed rows. Those, and rows over which the function stumbles, are
    appended to what it returns, as they were sent: whoever reads the rows sets them apart.
    """
    taken: list[Any] = []
    if callable(where):
        rows, taken = _chosen(body, where)
    else:
        rows = body if where is None else pick(body, where)
    if isinstance(rows, list):
        return [*rows, *taken] if taken else rows
    place = "" if where is None or callable(where) else f" under {where!r}"
    raise Unreadable(f"it shows no list of rows{place}, but {quoted(body)[:200]}")


def _chosen(body: Any, choose: Callable[[Any], Any]) -> tuple[Any, list[Any]]:
    sound, taken = sifted(body)
    try:
        return choose(sound), taken
    except Unreadable as error:  # the function refuses the answer as a whole
        raise _lost(body, "the list of its rows", error) from None
    except Exception as error:
        culprits = _culprits(sound, choose)
        if not culprits:
            raise _lost(body, "the list of its rows", error) from None
    names = {id(one) for one in culprits}
    try:
        return choose(sifted(sound, lambda one: id(one) in names)[0]), [*taken, *culprits]
    except Exception as error:
        raise _lost(body, "the list of its rows", error) from None


def _culprits(body: Any, choose: Callable[[Any], Any]) -> list[Any]:
    """Find the elements over which a function stumbles, by halves; none if it is not for their sake."""

    def works(some: Sequence[Any]) -> bool:
        kept = {id(one) for one in some}
        try:
            choose(sifted(body, lambda one: id(one) not in kept)[0])
        except Exception:
            return False
        return True

    if not works([]):
        return []
    found: list[Any] = []
    waiting = [sifted(body, lambda one: True)[1]]
    while waiting and len(found) <= STUMBLES:
        some = waiting.pop()
        if works(some):
            continue
        if len(some) == 1:
            found += some
        else:
            waiting += [some[len(some) // 2 :], some[: len(some) // 2]]
    return found if len(found) <= STUMBLES else []


def pick(value: Any, field: Field) -> Any:
    """Take a field out of a row or body; None if it is not there."""
    if callable(field):
        return field(value)
    for name in field.split("."):
        value = value.get(name) if isinstance(value, dict) else None
    return value


def found(body: Any, field: Field, what: str) -> Any:
    """Take a field out of a body; the function that finds it may stumble over an error that came instead."""
    try:
        return pick(sifted(body)[0] if callable(field) else body, field)
    except Exception as error:
        raise _lost(body, what, error) from None


def _lost(body: Any, what: str, error: Exception) -> Unreadable:
    return Unreadable(f"{what} cannot be found ({error!r:.80}) in {quoted(body)[:200]}")


def records(rows: Sequence[Any], shape: Shape, now: float) -> tuple[list[Record], list[Broken]]:
    """Read rows, in their order; `now` is our time in seconds since 1970."""
    good: list[Record] = []
    broken: list[Broken] = []
    for row in rows:
        read = _read(row, shape)
        (good if isinstance(read, Record) else broken).append(read)  # type: ignore[arg-type]
    if shape.unit is None:
        return good, broken
    timely = [one for one in good if _is_timely(one, now)]
    if good and not timely:
        raise Unreadable(
            f"all its {len(good)} rows lie outside of our time, the first at {_told(good[0].at)}: "
            f"is unit={shape.unit!r} right, and this machine's clock?"
        )
    far = [one for one in good if not _is_timely(one, now)]
    return timely, [*broken, *(Broken(quoted(one.body), f"its time is {_told(one.at)}") for one in far)]


def _is_timely(record: Record, now: float) -> bool:
    return OLDEST <= record.at <= now + AHEAD


def _read(row: Any, shape: Shape) -> Record | Broken:
    """Read one row. The functions are the caller's and the row the outside's: what they raise is said."""
    wrong = flaw(row)
    if wrong is None and not isinstance(row, dict):
        wrong = f"it is no object, but {type(row).__name__}"
    if wrong is None:
        try:
            name, at = named(pick(row, shape.id)), moment(pick(row, shape.at), shape.unit)
        except Exception as error:
            wrong = str(error) if isinstance(error, Unreadable) else f"{type(error).__name__}: {error}"
        else:
            return Record(name, row, at)
    return Broken(quoted(row), wrong)


def unsound(record: Record) -> str | None:
    """Say why a record that the caller's function made cannot be passed on; None if it can."""
    name: Any = record.id
    at: Any = record.at
    if not isinstance(name, str) or not name or flaw(name):
        return f"it has no id, but {quoted(name)[:80]}"
    if isinstance(at, bool) or not isinstance(at, int | float) or flaw(at):
        return f"it has no order value, but {quoted(at)[:80]}"
    return flaw(record.body)


def named(value: Any) -> str:
    """Read the name of a record."""
    if isinstance(value, bool) or not isinstance(value, str | int) or value == "":
        raise Unreadable(f"it has no id, but {quoted(value)[:80]}")
    return str(value)


def moment(value: Any, unit: Unit | None) -> At:
    """Read an order value; with a unit it becomes seconds since 1970."""
    if unit == "iso":
        return _iso(value)
    number = _number(value)
    if number is None:
        raise Unreadable(f"it has no order value, but {quoted(value)[:80]}")
    return number if unit is None or unit == "s" else number / UNITS[unit]


def spelled(at: At, unit: Unit | None) -> str:
    """Write an order value as the feed does, rounded down: a page may start early, never late."""
    if unit == "iso":
        return datetime.fromtimestamp(math.floor(at), UTC).isoformat().replace("+00:00", "Z")
    return str(math.floor(at if unit is None else at * UNITS[unit]))


def _iso(value: Any) -> float:
    if not isinstance(value, str):
        raise Unreadable(f"it has no time, but {quoted(value)[:80]}")
    try:
        read = datetime.fromisoformat(value)
    except ValueError:
        raise Unreadable(f"its time is no ISO 8601: {quoted(value)[:80]}") from None
    return (read if read.tzinfo else read.replace(tzinfo=UTC)).timestamp()


def _number(value: Any) -> At | None:
    if isinstance(value, str):
        value = _from_text(value)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return value if abs(value) < 2**63 else None


def _from_text(text: str) -> At | None:
    try:
        return int(text) if text.lstrip("-").isdigit() else float(text)
    except ValueError:
        return None


def _told(at: At) -> str:
    """Write a time for people; one that no calendar holds stays a number."""
    try:
        return datetime.fromtimestamp(at, UTC).isoformat()
    except (ValueError, OverflowError, OSError):
        return f"{at:.0f}"
