"""Moves the table of Mnemosyne, which this application comes from, into a ledger.

    python -m onefold.apps.messages.moving dynamodb://REGION/TABLE
    aws dynamodb scan --consistent-read --table-name TABLE | python -m onefold.apps.messages.moving -

What was completed is done. What was started and not completed may have happened: it is parked in doubt; only
where a repeat does no harm, and its time is over, it is free. An item that cannot be read is parked in doubt,
too; one that names no signal is refused and listed. Nothing that a ledger knows is overwritten, and nothing
is written to the table. Stop what writes to the table before, or run this again afterwards.
"""

from __future__ import annotations

import argparse
import json
import logging
import reprlib
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple, TextIO

from onefold.apps.messages.pipeline import Repeats
from onefold.core.entry import BODY_LIMIT, Effect
from onefold.core.errors import Misconfigured, OnefoldError
from onefold.core.key import Key
from onefold.core.terms import Duration, Seconds, forever_or_seconds, seconds
from onefold.core.wire import Unreadable, flaw, parse_next
from onefold.runtime import current
from onefold.worker.moving import Memory, dynamodb_items, moment, move

log = logging.getLogger("onefold.messages")

WORDS = ("done", "in-doubt", "free", "known", "forgotten", "refused")

COMPLETED = ("completedAt", "result")
"""Any of them says that a signal was completed, unless it is NULL, which says nothing."""

REFUSALS_SHOWN = 20


class Signal(NamedTuple):
    """One item of the table. Times are seconds since 1970."""

    id: str
    processor: str
    started: float | None
    completed: float | None
    """When it was completed; when it was started, where only that is known. None if it was not."""
    expires: float | None
    result: Any = None


class Terms(NamedTuple):
    """How a table is read: what a repeat does, how long an attempt may take, how long done is remembered."""

    effect: Effect = "one-shot"
    processing: Seconds = 60.0
    keep: Seconds | None = None


# ----- reading


def signal(item: Mapping[str, Any]) -> Signal:
    """Read an item, as DynamoDB writes it or as boto3 does, of any version of the table."""
    name, processor = named(item)
    fields = {field: _plain(value) for field, value in item.items()} if _is_typed(item) else dict(item)
    started = _moment(fields, "startedAt")
    is_completed = any(fields.get(field) is not None for field in COMPLETED)
    completed = _moment(fields, "completedAt")
    if is_completed and completed is None:
        completed = started
    if started is None and completed is None:
        raise Misconfigured(f"the signal {name!r:.80} was neither started nor completed: it is no such item")
    expires = _moment(fields, "expiresOn")
    return Signal(name, processor, started, completed, expires, fields.get("result"))


def named(item: Any) -> tuple[str, str]:
    """Read which signal an item is about, and of which processor."""
    if not isinstance(item, Mapping):
        raise Misconfigured(f"an item is {reprlib.repr(item)}, no object: is it the right table?")
    names = [field for field in ("id", "processorId", "contextId") if field in item]
    fields = {field: _plain(item[field]) if _is_typed(item) else item[field] for field in names}
    processor = "processorId" if "processorId" in fields else "contextId"
    return _text(item, fields, "id"), _text(item, fields, processor)


def _moment(fields: Mapping[str, Any], field: str) -> float | None:
    return moment(fields.get(field), f"{field} of the signal {fields['id']!r:.80}")


def _text(item: Mapping[str, Any], fields: Mapping[str, Any], field: str) -> str:
    value = fields.get(field)
    if isinstance(value, str) and value and flaw(value) is None:
        return value
    there = ", ".join(sorted(map(str, item)))[:80]
    raise Misconfigured(f"an item has no {field}, but {there}: is it the right table?")


def _is_typed(item: Mapping[str, Any]) -> bool:
    return isinstance(item.get("id"), Mapping)


def _plain(typed: Any) -> Any:
    """Read a value as DynamoDB writes it: `{"S": "text"}`."""
    try:
        [(kind, value)] = typed.items()
        match kind:
            case "NULL":
                return None
            case "N":
                return Decimal(value)
            case "M":
                return {name: _plain(one) for name, one in value.items()}
            case "L":
                return [_plain(one) for one in value]
            case _:
                return value
    except (AttributeError, TypeError, ValueError, ArithmeticError, RecursionError):
        raise Misconfigured(f"{reprlib.repr(typed)} is no value of DynamoDB") from None


# ----- deciding


def memory(one: Signal, terms: Terms, now: float) -> Memory | None:
    """Say what a ledger should know of a signal; None if it is older than what is remembered."""
    key = Key("messages", one.processor, one.id)
    if one.completed is not None:
        left = None if terms.keep is None else one.completed + terms.keep - now
        if left is not None and left <= 0:
            return None
        return Memory(key, "done", terms.effect, one.started, _receipt(one), left, "mnemosyne")
    over = attempt_ends(one, terms.processing) <= now
    fate: Any = "free" if over and terms.effect != "one-shot" else "in-doubt"
    began = datetime.fromtimestamp(one.started or 0, UTC).isoformat(timespec="seconds")
    told = f"Mnemosyne began it at {began} and did not say how it ended"
    return Memory(key, fate, terms.effect, one.started, source="mnemosyne", told=told)


def unread(item: Mapping[str, Any], reason: str, effect: Effect) -> Memory:
    """Say what a ledger should know of a signal whose item cannot be read: nobody knows whether it happened.

    Left out, it would look new, and its message would be sent again.
    """
    name, processor = named(item)
    key = Key("messages", processor, name)
    return Memory(
        key, "in-doubt", effect, source="mnemosyne", told=f"Mnemosyne's item cannot be read: {reason}"
    )


def attempt_ends(one: Signal, processing: Seconds) -> float:
    """Say when an attempt has had its time: what the table says, or so long after it began."""
    return one.expires if one.expires is not None else (one.started or 0.0) + processing


def _receipt(one: Signal) -> str | None:
    """Keep what the effect returned, if JSON can say it and an entry has room for it."""
    try:
        text = json.dumps(one.result, default=_number, allow_nan=False)
    except (TypeError, ValueError, ArithmeticError, RecursionError):
        return None
    return text if one.result is not None and len(text.encode()) <= BODY_LIMIT else None


def _number(value: Any) -> float | int:
    if isinstance(value, Decimal):
        return int(value) if value == value.to_integral_value() else float(value)
    raise TypeError


# ----- doing


def move_in(
    items: Iterable[Mapping[str, Any]],
    store: str | None = None,
    *,
    effect: Repeats = "one-shot",
    processing: Duration = "60s",
    keep: Duration = "forever",
    now: float | None = None,
) -> Counter[str]:
    """Move items of the table into a store; count what became of them.

    *done*, *in-doubt* and *free* were written, *known* was there already, *forgotten* is older than `keep`,
    *refused* names no signal. Everything is read before the first write; a table without a single signal is
    the wrong one, and nothing is written.
    """
    terms = Terms(effect, seconds(processing, "processing"), forever_or_seconds(keep, "keep"))
    found, refused = remembered(items, terms, current().time() if now is None else now)
    if refused and not found:
        raise refused[0]
    _tell(refused)
    kept = [one for one in found if one]
    became = Counter[str](move(kept, store))
    became["forgotten"] = len(found) - len(kept)
    became["refused"] = len(refused)
    return +became


def remembered(
    items: Iterable[Any], terms: Terms, now: float
) -> tuple[list[Memory | None], list[Misconfigured]]:
    """Say what a ledger should know of each item, and why others name no signal."""
    found: list[Memory | None] = []
    refused: list[Misconfigured] = []
    for item in items:
        try:
            found.append(_remembered(item, terms, now))
        except Misconfigured as error:
            refused.append(error)
    return found, refused


def _remembered(item: Any, terms: Terms, now: float) -> Memory | None:
    try:
        return memory(signal(item), terms, now)
    except Misconfigured as error:
        return unread(item, str(error), terms.effect)


def _tell(refused: Sequence[Misconfigured]) -> None:
    for error in refused[:REFUSALS_SHOWN]:
        log.warning("not moved: %s", error)
    if len(refused) > REFUSALS_SHOWN:
        log.warning("not moved: %d more items that name no signal", len(refused) - REFUSALS_SHOWN)


def items(place: str, standard_input: TextIO | None = None) -> Iterator[Mapping[str, Any]]:
    """Give the items of a table by its URL, of a file that AWS tools wrote, or of standard input (`-`)."""
    if place.startswith("dynamodb:"):
        return dynamodb_items(place)
    return exported((standard_input or sys.stdin).read() if place == "-" else _read(place))


def _read(file: str) -> str:
    try:
        return Path(file).read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise Misconfigured(f"{file} cannot be read: {error}") from None


def exported(text: str) -> Iterator[Mapping[str, Any]]:
    """Give the items of a scan (`{"Items": […]}`), or of an export, one to a line (`{"Item": {…}}`)."""
    at, text = 0, text.strip()
    try:
        while at < len(text):
            part, at = parse_next(text, at)
            while text[at : at + 1].isspace():
                at += 1
            yield from part["Items"] if "Items" in part else [part.get("Item", part)]
    except (Unreadable, TypeError, AttributeError) as error:
        raise Misconfigured(f"that is no scan or export of a DynamoDB table: {error}") from None


def main(arguments: Sequence[str]) -> int:
    """Move a table, and say what became of it."""
    parser = argparse.ArgumentParser(prog="python -m onefold.apps.messages.moving", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument(
        "table", help="dynamodb://REGION/TABLE[?endpoint=URL], a file, or - for standard input"
    )
    parser.add_argument("--store", help="where to; as for onefold run if left out")
    parser.add_argument("--effect", default="one-shot", choices=("one-shot", "keyed", "idempotent"))
    parser.add_argument("--processing", default="60s", help="how long an attempt may take")
    parser.add_argument("--keep", default="forever", help="how long done is remembered, from its completion")
    asked = parser.parse_args(arguments)
    try:
        became = move_in(
            items(asked.table),
            asked.store,
            effect=asked.effect,
            processing=asked.processing,
            keep=asked.keep,
        )
    except OnefoldError as error:
        sys.stderr.write(f"nothing more was moved: {error}\n")
        return 1
    told = ", ".join(f"{became[word]} {word}" for word in WORDS if became[word])
    sys.stdout.write(f"{told or 'nothing to move'}\n")
    return 1 if became["refused"] else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
