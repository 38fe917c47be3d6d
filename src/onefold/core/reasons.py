"""How the last attempt on a key ended, as text that an open entry keeps for people: an error or a reason.

A worker writes the text together with its record; a ledger has no record and writes the text alone. Texts are
masked and bounded. Whatever an exception does when it is printed, nothing here raises.
"""

from __future__ import annotations

import json
from typing import Any

import msgspec
from msgspec import Raw

from onefold.core.entry import BODY_LIMIT, Entry
from onefold.core.redaction import masked

LENGTH = 500
"""The most characters that are kept of an error or a reason."""

_READ = 8 * LENGTH
"""The most characters that are looked at. Masking makes a text shorter, so more is read than kept."""

_ENDING = ("error", "reason", "note", "later", "cut")
"""What belongs to one ending, and is replaced by the next."""

RECORD_LENGTH = 4096
"""The most characters of JSON that are kept of a record beside a person's decision."""

_DECODER = msgspec.json.Decoder(dict[str, Raw])
_ENCODER = msgspec.json.Encoder()


def described(error: BaseException) -> str:
    """Name an exception by its type and message, masked and cut."""
    name, message = type(error).__name__, _printed(error)
    return _safe(f"{name}: {message}" if message else name)


def _printed(value: object) -> str:
    try:
        return str.__str__(str(value))
    except Exception as broken:  # code of the user's: its __str__ may raise anything, or return no text
        return f"its text cannot be read ({type(broken).__name__})"


def _safe(text: str) -> str:
    """Return a text as it may be kept: masked, cut, and valid Unicode."""
    if len(text) > _READ:
        text = text[:_READ]
        before, _, last = text.rpartition(" ")
        # A URL that is cut may have lost the @ by which its password is found.
        text = f"{before} …" if "://" in last else text
    text = masked(text.encode("utf-8", "replace").decode())
    return text if len(text) <= LENGTH else text[: LENGTH - 1] + "…"


def noted(body: str | None, *, error: str = "", reason: object = "") -> str | None:
    """Write how an attempt ended into the body of its entry; None if the body is to stay as it is.

    A record that a worker keeps there stays. A body of any other kind is not ours to change. Where there is
    no record, `cut` tells workers so.
    """
    kept, said = _kept(body), error or _safe(_printed(reason))
    if kept is None or not said:
        return None
    ending: dict[str, object] = {"error" if error else "reason": said}
    text = {name: value for name, value in kept.items() if name not in _ENDING} | ending
    if "record" not in kept or "cut" in kept:
        text["cut"] = True  # workers look for it at the end
    encoded = _ENCODER.encode(text)
    return encoded.decode() if len(encoded) <= BODY_LIMIT else None


def carried(entry: Entry) -> dict[str, Any]:
    """Read what a worker or a ledger wrote into an open entry; empty if neither did, or it is done."""
    try:
        text = json.loads(entry.body or "null") if entry.state != "done" else None
    except (ValueError, RecursionError):
        return {}
    if not isinstance(text, dict):
        return {}
    told = isinstance(text.get("error"), str) or isinstance(text.get("reason"), str)
    return text if isinstance(text.get("record"), dict) or (told and "record" not in text) else {}


def found(entry: Entry) -> dict[str, Any]:
    """Give what an open entry said, bounded, for the note about a decision: a receipt replaces it."""
    text = {name: value for name, value in carried(entry).items() if name in ("record", "for", *_ENDING[:2])}
    if len(json.dumps(text.get("record"))) > RECORD_LENGTH:
        text["record"] = {"id": str(text["record"].get("id"))[:LENGTH], "cut": True}
    return text


def stated(reason: str) -> str:
    """Return a reason that a person gave, as it may be kept."""
    return _safe(reason)


def _kept(body: str | None) -> dict[str, Raw] | None:
    """Read the body of an open entry; None if neither a worker nor a ledger wrote it."""
    if body is None:
        return {}
    try:
        text = _DECODER.decode(body)
    except (msgspec.DecodeError, RecursionError):
        return None
    return text if "record" in text or text.keys() <= set(_ENDING) else None
