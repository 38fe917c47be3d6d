"""Receipts and fingerprints: values of the caller's, as JSON text that fits into an entry, and back.

What cannot be stored is said, never guessed: a value that JSON would change without a word (NaN) is
as unstorable as one that JSON does not know. Nothing here asks a store.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from hashlib import blake2b
from types import FunctionType
from typing import Any, get_type_hints
from weakref import WeakKeyDictionary

import msgspec

from onefold.core.entry import BODY_LIMIT, Entry
from onefold.core.errors import Misconfigured, NoReceipt
from onefold.core.key import Key

_ENCODER = msgspec.json.Encoder()
_SORTED = msgspec.json.Encoder(order="deterministic")


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
    if b"null" in text and _has_nan(msgspec.to_builtins(value)):
        raise ValueError("it holds NaN or an infinity, which JSON cannot say")
    return text.decode()


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
