"""Reads JSON of the outside strictly: what Python would let pass is marked, and said in a sentence.

A flaw (NaN, a number of a thousand digits, a key that stands twice, half a surrogate pair, nesting without
end) spoils only the value that holds it, so that one bad row does not stop a feed. Nothing here waits.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any

from onefold.core.errors import OnefoldError

DIGITS = 400
"""How long a number may be written. Amounts of tokens have up to 78 digits."""

DEPTH = 32
"""How deep a value may be nested."""

QUOTED = 2000
"""How much of something broken is kept for people to look at."""


class Unreadable(OnefoldError):
    """What a source answered cannot be used, or not be believed. Nothing was read; the cursor stays."""


class Flaw:
    """Stands in for a value that must not be passed on, and says why."""

    __slots__ = ("reason",)

    def __init__(self, reason: str) -> None:
        self.reason = reason

    def __repr__(self) -> str:
        return f"<{self.reason}>"


class FlawedObject(Flaw):
    """Stands in for an object whose names are not to be trusted."""

    __slots__ = ()


class Sifted(list[Any]):
    """A list from which elements were taken out: sound as a list of rows, but no longer what was sent.

    Inside of a row it is a flaw, so that no row is passed on with a part of it missing.
    """


def parse(text: str) -> Any:
    """Read a JSON text, with a `Flaw` in the place of every value that is not to be trusted."""
    try:
        return _DECODER.decode(text)
    except RecursionError:
        raise Unreadable("it is nested without end") from None
    except ValueError as error:
        raise Unreadable(f"it is no JSON ({error}): {text[:80]!r}") from None


def parse_next(text: str, at: int) -> tuple[Any, int]:
    """Read the JSON value that starts at a place of a text that holds several; say where it ends."""
    try:
        return _DECODER.raw_decode(text, at)
    except RecursionError:
        raise Unreadable("it is nested without end") from None
    except ValueError as error:
        raise Unreadable(f"it is no JSON ({error}): {text[at : at + 80]!r}") from None


def flaw(value: Any, depth: int = DEPTH) -> str | None:
    """Say what is wrong with a parsed value, anywhere in it; None if nothing is."""
    match value:
        case str():
            return None if value.isascii() else _bad_text(value)
        case Flaw():
            return value.reason
        case Sifted():
            return "a list in it has an element that is not to be trusted"
        case float() if not math.isfinite(value):
            return f"{value} stands in it, which is no JSON"
        case dict() | list() if depth == 0:
            return f"it is nested deeper than {DEPTH} levels"
        case dict():
            inner = [*value, *value.values()]
        case list():
            inner = value
        case _:
            return None
    for one in inner:
        if type(one) is str and one.isascii():  # most of what a service sends
            continue
        if found := flaw(one, depth - 1):
            return found
    return None


def sifted(body: Any, bad: Callable[[Any], object] = flaw) -> tuple[Any, list[Any]]:
    """Take bad elements out of the outermost lists of a body; return the rest, and what was taken out.

    Only out of lists of rows, which hold objects or lists: in a column of numbers every place counts.
    """
    taken: list[Any] = []
    return _sift(body, bad, taken, DEPTH), taken


def _sift(value: Any, bad: Callable[[Any], object], taken: list[Any], depth: int) -> Any:
    if isinstance(value, dict) and depth:
        return {name: _sift(one, bad, taken, depth - 1) for name, one in value.items()}
    if not isinstance(value, list) or not any(isinstance(one, dict | list | FlawedObject) for one in value):
        return value
    marks = [bool(bad(one)) for one in value]
    if not any(marks):
        return value
    taken += [one for one, mark in zip(value, marks, strict=True) if mark]
    return Sifted(one for one, mark in zip(value, marks, strict=True) if not mark)


def quoted(value: Any) -> str:
    """Write something broken down for people to look at: cut, and always the same for the same thing."""
    text = value if isinstance(value, str) else _ENCODER.encode(_shallow(value))
    return text.encode("utf-8", "backslashreplace").decode()[:QUOTED]


def _shallow(value: Any, depth: int = DEPTH) -> Any:
    if depth == 0:
        return "…"
    if isinstance(value, dict):
        return {key: _shallow(one, depth - 1) for key, one in value.items()}
    if isinstance(value, list):
        return [_shallow(one, depth - 1) for one in value]
    return value


def _bad_text(text: str) -> str | None:
    try:
        text.encode()
    except UnicodeEncodeError:
        return "a text in it holds half of a surrogate pair"
    return None


def _whole(text: str) -> int | Flaw:
    return int(text) if len(text) <= DIGITS else Flaw(f"a number in it has {len(text)} digits")


def _broken_off(text: str) -> float | Flaw:
    if len(text) > DIGITS:
        return Flaw(f"a number in it has {len(text)} digits")
    number = float(text)
    return number if math.isfinite(number) else Flaw(f"the number {text} in it is too large")


def _constant(text: str) -> Flaw:
    return Flaw(f"{text} stands in it, which is no JSON")


def _pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any] | FlawedObject:
    value = dict(pairs)
    if len(value) == len(pairs):
        return value
    names = [name for name, _ in pairs]
    twice = next(name for name in names if names.count(name) > 1)
    return FlawedObject(f"its key {twice[:80]!r} stands twice")


_DECODER = json.JSONDecoder(
    parse_int=_whole, parse_float=_broken_off, parse_constant=_constant, object_pairs_hook=_pairs
)
_ENCODER = json.JSONEncoder(default=repr, ensure_ascii=False)
