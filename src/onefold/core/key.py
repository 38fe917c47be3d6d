"""What makes two records the same effect: a scope and its parts, digested before any store sees them.

Keys come from the outside and may be hostile, and stores disagree about which texts are equal; so
identity is a digest of length-prefixed bytes. Unicode is not normalised: two spellings are two keys.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from enum import Enum
from functools import lru_cache
from hashlib import blake2b
from shlex import quote
from uuid import UUID

from onefold.core.errors import Misconfigured

Part = str | int | UUID

LABEL_LENGTH = 200
SCOPE_LENGTH = 128

_PIECE = re.compile(r"(?:[^/\\]|\\.)+")
_ESCAPE = re.compile(r"\\(?:x([0-9a-f]{2})|u([0-9a-f]{4})|U(00(?:0[0-9a-f]|10)[0-9a-f]{4})|(.))")


class Key:
    """A scope and one or more parts; an int stands for its decimal text, a UUID for its usual text.

    `id` is what stores know, `label` is for people (cut and escaped), `parts` is empty on a key
    that came back from a store.
    """

    __slots__ = ("id", "label", "parts", "scope")

    def __init__(self, scope: str, *parts: Part) -> None:
        if not parts:
            raise Misconfigured(f"a key in scope {scope!r} has no parts")
        # Copying a digest that has taken in the scope costs less than starting one with it.
        digest = _scope_digest(scope).copy()
        texts: list[str] = []
        for part in parts:
            text = part if type(part) is str else _text(scope, part)
            raw = text.encode() if text and text.isascii() else _raw(text, scope, parts)
            digest.update(len(raw).to_bytes(8, "big") + raw)
            texts.append(text)
        # A member of an enum that is also text prints as its name, so the plain text is kept.
        self.scope = scope if type(scope) is str else str.__str__(scope)
        self.parts: tuple[str, ...] = tuple(texts)
        self.id = digest.digest()
        self.label = label(texts)

    @classmethod
    def stored(cls, scope: str, id: bytes, label: str) -> Key:
        """Return the key a store knows, whose parts nobody remembers."""
        key = cls.__new__(cls)
        key.scope, key.id, key.label, key.parts = scope, id, label, ()
        return key

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Key) and self.id == other.id

    def __hash__(self) -> int:
        return hash(self.id)

    @property
    def spelled(self) -> str:
        """The key as arguments of a command line; after a `--` in it no option can follow."""
        printable = self.parts and all(
            part.isprintable() and len(part) <= LABEL_LENGTH for part in self.parts
        )
        words = (self.scope, *self.parts) if printable else (self.scope,)
        option = [] if printable else ["--id", self.id.hex()]
        spelled = [quote(word) for word in words]
        # What starts with a dash would be read as an option.
        dashed = any(word.startswith("-") for word in words)
        return " ".join([*option, "--", *spelled] if dashed else [*spelled, *option])

    def __str__(self) -> str:
        return f"{self.scope}/{self.label}"

    def __repr__(self) -> str:
        return f"<Key {self}>"

    def __reduce__(self) -> tuple[object, ...]:
        return (Key.stored, (self.scope, self.id, self.label))


def label(parts: Sequence[str]) -> str:
    """Join parts for people: control characters and separators escaped, cut to a bounded length."""
    if len(parts) == 1 and len(parts[0]) <= LABEL_LENGTH and _is_plain(parts[0]):
        return parts[0]
    shown: list[str] = []
    room = LABEL_LENGTH
    for part in parts:
        piece = escaped(part[: room + 1])
        shown.append(piece)
        room -= len(piece) + 1
        if room < 0:
            break
    text = "/".join(shown)
    return text if len(text) <= LABEL_LENGTH else text[: LABEL_LENGTH - 1] + "…"


def parts_of(label: str) -> list[str]:
    """Read the parts back from a label, unless it was cut; the inverse of `label`."""
    return [_ESCAPE.sub(_unescaped, part) for part in _PIECE.findall(label)]


def _unescaped(found: re.Match[str]) -> str:
    code, char = found[1] or found[2] or found[3], found[4]
    return chr(int(code, 16)) if code else {"n": "\n", "t": "\t", "r": "\r"}.get(char, char)


def escaped(text: str) -> str:
    """Make text safe to print: nothing in it can move a cursor, end a line or fake a separator."""
    return text if _is_plain(text) else "".join(_shown(char) for char in text)


def _is_plain(text: str) -> bool:
    return text.isprintable() and "/" not in text and "\\" not in text


def _shown(char: str) -> str:
    if char in "/\\":
        return "\\" + char
    return char if char.isprintable() else char.encode("unicode_escape", "surrogatepass").decode()


def _text(scope: str, part: object) -> str:
    if isinstance(part, str):
        return _plain_text(scope, part)
    if isinstance(part, int) and not isinstance(part, bool):
        return str(int(part))
    if isinstance(part, UUID):
        return str(part)
    raise Misconfigured(
        f"a key in scope {scope!r} has a part of type {type(part).__name__}: parts are str, int or UUID"
    )


def _plain_text(scope: str, part: str) -> str:
    """Return the text of a str subclass; refuse one that prints as another text, such as Plan.GOLD.

    Earlier versions digested what it prints as. Taking its text now would miss those keys and run their
    effects again, so the caller decides which of the two texts the key is made of.
    """
    text, printed = str.__str__(part), str(part)
    if text == printed:
        return text
    plain = ".value" if isinstance(part, Enum) else "plain text"
    raise Misconfigured(
        f"a key in scope {scope!r} has a part of type {type(part).__name__} with the text {text!r:.80}, "
        f"but it prints as {printed!r:.80}: pass {plain} for new keys. Earlier versions of Onefold stored "
        f"the key of str(part): pass str(part) for as long as those keys are kept, or their effects run again"
    )


def _raw(text: str, scope: str, parts: tuple[Part, ...]) -> bytes:
    if not text:
        raise Misconfigured(f"a part of a key in scope {scope!r} is empty: {parts!r:.80}; a missing field?")
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise Misconfigured(
            f"a part of a key in scope {scope!r} is not valid Unicode: {text!r:.80}"
        ) from None


@lru_cache(maxsize=1024)
def _scope_digest(scope: object) -> blake2b:
    """Return the digest that every key of a scope starts from. Copy it; never update it."""
    if not isinstance(scope, str) or not scope or len(scope) > SCOPE_LENGTH or not scope.isprintable():
        raise Misconfigured(f"{scope!r:.80} is no scope: 1 to {SCOPE_LENGTH} printable characters are")
    raw = scope.encode()
    return blake2b(len(raw).to_bytes(8, "big") + raw, digest_size=32)
