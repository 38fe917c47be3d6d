"""Texts with the few HTML tags that chats know: escaping, measuring, cutting and splitting them.

A cut never falls into a tag or an entity, and what was open is closed again. It checks no tag: a chat that
cannot read one says so. Nothing here sends anything.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from html import unescape

LIMIT = 4096
"""The most that one message shows, in units of UTF-16, after its tags and entities were read."""

MORE = "…"

_TOKEN = re.compile(r"<[^<>]*>|&(?:#\d+|#x[0-9a-fA-F]+|\w+);|.", re.DOTALL)
_NAME = re.compile(r"</?\s*([\w-]+)")
_ESCAPES = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;"})


def escaped(text: object) -> str:
    """Make any text safe to stand between tags, or in a quoted attribute."""
    return str(text).translate(_ESCAPES)


def length(html: str) -> int:
    """Count what a message shows, as chats count it."""
    return sum(map(_units, _TOKEN.findall(html)))


def cut(html: str, limit: int = LIMIT) -> str:
    """Shorten a message to what fits, and say by an ellipsis that there was more."""
    tokens = _TOKEN.findall(html)
    if sum(map(_units, tokens)) <= limit:
        return html
    kept = list(_fitting(tokens, limit - len(MORE)))
    return "".join([*kept, MORE, *_closing(_open(kept))])


def split(html: str, limit: int = LIMIT) -> list[str]:
    """Part a message into several that fit, at a line or a word where one ends; tags go on in the next."""
    left: list[str] = _TOKEN.findall(html)
    pieces: list[str] = []
    opened: list[str] = []
    while left:
        kept = list(_fitting(left, limit)) or left[:1]
        if len(kept) < len(left):
            kept = kept[: _ending(kept)]
        pieces.append("".join([*opened, *kept, *_closing(_open([*opened, *kept]))]))
        opened, left = _open([*opened, *kept]), left[len(kept) :]
    return [piece for piece in pieces if length(piece)]


def _units(token: str) -> int:
    """Count the units of UTF-16 that a token shows; a tag shows nothing."""
    if len(token) > 1 and token[0] == "<":
        return 0
    return len(unescape(token).encode("utf-16-le", "surrogatepass")) // 2


def _fitting(tokens: Sequence[str], limit: int) -> Iterator[str]:
    room = limit
    for token in tokens:
        room -= _units(token)
        if room < 0:
            return
        yield token


def _ending(tokens: Sequence[str]) -> int:
    """Say where the last whole line or word ends, if it does not leave most of the piece behind."""
    for ends in ("\n", " "):
        for at in range(len(tokens) - 1, len(tokens) // 2, -1):
            if tokens[at] == ends:
                return at + 1
    return len(tokens)


def _open(tokens: Iterable[str]) -> list[str]:
    """Return the tags that are still open after these tokens, the outermost first."""
    stack: list[str] = []
    for token in tokens:
        if len(token) == 1 or token[0] != "<":
            continue
        if not token.startswith("</"):
            stack.append(token)
        elif stack and _name(stack[-1]) == _name(token):
            stack.pop()
    return stack


def _closing(opened: Sequence[str]) -> list[str]:
    return [f"</{_name(tag)}>" for tag in reversed(opened)]


def _name(tag: str) -> str:
    found = _NAME.match(tag)
    return found[1].lower() if found else ""
