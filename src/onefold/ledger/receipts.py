"""Receipts and fingerprints: values of the caller's, as JSON text that fits into an entry, and back.

What cannot be stored is said, never guessed: a value that would come back as another one (NaN, a tuple
without an annotation) is as unstorable as one that JSON does not know. Nothing here asks a store.
"""

from __future__ import annotations

import math
import sys
import warnings
from collections.abc import Callable
from functools import lru_cache, partial
from hashlib import blake2b
from types import FunctionType, NoneType
from typing import Any, get_type_hints
from weakref import WeakKeyDictionary

import msgspec

from onefold.core.entry import BODY_LIMIT, Entry
from onefold.core.errors import Misconfigured, NoReceipt
from onefold.core.key import Key

_ENCODER = msgspec.json.Encoder()
_SORTED = msgspec.json.Encoder(order="deterministic")
_HERE = __file__.rpartition("receipts")[0]


def encode(value: Any) -> str:
    """Write a receipt as JSON; raise ValueError with the reason if it cannot be kept."""
    if value is None:
        return "null"
    try:
        text = _ENCODER.encode(value)
    except (TypeError, ValueError, OverflowError, RecursionError, UnicodeError) as error:
        raise ValueError(f"it cannot be written as JSON: {error}") from error
    if len(text) > BODY_LIMIT:
        raise ValueError(f"it is {len(text)} bytes of JSON, and {BODY_LIMIT} are kept")
    if b"null" in text and _holds_nan(value):
        raise ValueError("it holds NaN or an infinity, which JSON cannot say")
    return text.decode()


def _holds_nan(value: Any) -> bool:
    try:
        return _has_nan(msgspec.to_builtins(value))
    except RecursionError as error:
        raise ValueError("it is nested too deeply to be checked") from error


def faithful(value: Any, wanted: Any) -> str:
    """Write a receipt that is equal when it is read as the wanted type; raise ValueError if it is not.

    Reading it back costs more than writing it, so values that JSON cannot change are not read.
    """
    text = encode(value)
    plain = _is_plain(value)
    if plain and (wanted is Any or wanted is type(value)):
        return text
    try:
        back = _decoder(wanted).decode(text)
        # JSON tells its own types apart, so plain values that are equal can differ only as 5 and 5.0 do.
        same = value == back if plain and _is_plain(back) else _is_same(value, back)
    except Exception as error:  # types of the user's may raise anything when they are made or compared
        raise ValueError(f"it cannot be read back as the return type: {error}") from error
    if not same:
        raise ValueError(_changed(value, back, wanted))
    return text


_SCALARS = frozenset((str, int, float, bool, NoneType))


def _is_plain(value: Any) -> bool:
    """Say whether a value is made of exactly the types that JSON has."""
    if type(value) in _SCALARS:
        return True
    left = [value]
    while left:  # no recursion: a value may be nested more deeply than Python can follow
        one = left.pop()
        kind = type(one)
        if kind is list:
            left += one
        elif kind is dict and all(type(name) is str for name in one):
            left += one.values()
        elif kind not in _SCALARS:
            return False
    return True


def _is_same(value: Any, back: Any) -> bool:
    """Say whether a value came back: equal, and of the same type at every depth."""
    kind = type(value)
    if kind is not type(back):
        # An int may be returned where the annotation says float.
        return kind is int and type(back) is float and bool(value == back)
    if kind in _SCALARS:
        return bool(value == back)
    if isinstance(value, (list, tuple)):
        return len(value) == len(back) and all(map(_is_same, value, back))
    if isinstance(value, dict):
        pairs = zip(value.items(), back.items(), strict=False)  # JSON keeps their order
        return len(value) == len(back) and all(_is_same(one, other) for one, other in pairs)
    fields = _fields(kind)
    if fields:
        return all(_is_same(getattr(value, name, None), getattr(back, name, None)) for name in fields)
    return bool(value == back)


def _fields(kind: type) -> tuple[str, ...]:
    """Name the fields of a class that is compared by them, whatever its own == says."""
    found = getattr(kind, "__dataclass_fields__", None) or getattr(kind, "__struct_fields__", None) or ()
    return tuple(found)


def _changed(value: Any, back: Any, wanted: Any) -> str:
    was, now = type(value).__name__, type(back).__name__
    came = f"a {was} would come back as {now}" if was != now else f"this {was} would not come back equal"
    hint = "annotate what the function returns" if wanted is Any else "its return type does not restore it"
    return f"{came}: {hint}, or return what JSON can hold"


def warn_unkept(key: Key, reason: str) -> None:
    """Warn that a receipt is not kept, at the line that called into this package."""
    level, frame = 1, sys._getframe()
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_HERE):
        level, frame = level + 1, frame.f_back
    warnings.warn(f"{key} is done, but its receipt is not kept: {reason}", RuntimeWarning, stacklevel=level)


def _has_nan(value: Any) -> bool:
    match value:
        case float():
            return not math.isfinite(value)
        case dict():
            return any(map(_has_nan, value.values()))
        case list() | tuple():
            return any(map(_has_nan, value))
        case _:
            return False


def decode(key: Key, entry: Entry, wanted: Any = Any) -> Any:
    """Read the receipt of a done entry as the wanted type."""
    if entry.body is None:
        raise NoReceipt(key, "what the effect returned could not be stored")
    try:
        return _decoder(wanted).decode(entry.body)
    except (msgspec.DecodeError, TypeError) as error:
        raise NoReceipt(key, f"what is stored does not fit the return type: {error}") from error


@lru_cache(maxsize=256)
def _decoder(wanted: Any) -> msgspec.json.Decoder[Any]:
    """Keep what it costs to understand a type: for a nested one, more than the store takes to answer."""
    return msgspec.json.Decoder(wanted)


def fingerprint(content: Any) -> str:
    """Digest the content that must be the same whenever the key is."""
    try:
        text = _SORTED.encode(content)
    except (TypeError, ValueError, OverflowError, RecursionError, UnicodeError) as error:
        raise Misconfigured(f"content= cannot be fingerprinted: {error}") from error
    return blake2b(text, digest_size=16).hexdigest()


_RETURNS: WeakKeyDictionary[FunctionType, Any] = WeakKeyDictionary()
"""What functions were found to return: evaluating an annotation costs more than a claim."""


def return_type(function: Callable[..., Any]) -> Any:
    """Return what a function says it returns; Any if it says nothing that can be found."""
    while isinstance(function, partial):
        function = function.func
    plain = getattr(function, "__func__", function)  # a bound method is another object every time
    if "return" not in getattr(plain, "__annotations__", ()):
        return Any
    if not isinstance(plain, FunctionType):
        return _evaluated(plain)
    found = _RETURNS.get(plain)
    if found is None:
        found = _RETURNS[plain] = _evaluated(plain)
    return found


def _evaluated(function: Callable[..., Any]) -> Any:
    try:
        return get_type_hints(function).get("return", Any)
    except (NameError, TypeError, AttributeError):
        return Any
