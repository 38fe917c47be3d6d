"""Text for terminals, as pure functions: nothing that was stored can move the cursor, no secret is shown."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

_SECRET_NAME = r"[\w.-]*(?:pass|pwd|secret|token|key|credential|auth|signature)[\w.-]*"
_SECRET = re.compile(rf"(?<=[?&;])({_SECRET_NAME})=[^&;\s'\"]*", re.IGNORECASE)
# The path of a file may hold an @; anywhere else, whatever stands before the last one may be a password.
_FILE_USER = re.compile(r"(sqlite://)[^/?#\s'\"]*@")
_USER = re.compile(r"(?<![\w+.-])((?!sqlite:)[a-z][\w+.-]*://)[^\s'\"]*@", re.IGNORECASE)
HIDDEN = "***"


def shown(text: str) -> str:
    """Make text from outside safe to print on one line."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else _escape(char) for char in text)


def _escape(char: str) -> str:
    return char.encode("unicode_escape", "surrogatepass").decode()


def scrubbed(text: str, url: str = "") -> str:
    """Take users, passwords and secret-looking options out of every URL in a text, which may quote `url`."""
    if url:
        safe = safe_url(url)
        text = text.replace(url, safe).replace(repr(url)[1:-1], safe)
    for pattern in (_FILE_USER, _USER):
        text = pattern.sub(rf"\1{HIDDEN}@", text)
    return _SECRET.sub(rf"\1={HIDDEN}", text)


def safe_url(url: str) -> str:
    """Take the secrets out of a URL, even where blanks or quotes in it would hide them from `scrubbed`."""
    scheme, slashes, rest = url.partition("://")
    if scheme != "sqlite" and "@" in rest:
        rest = f"{HIDDEN}@{rest.rpartition('@')[2]}"
    return scrubbed(f"{scheme}{slashes}{rest}")


def cut(text: str, length: int) -> str:
    """Shorten a text, and say so."""
    return text if len(text) <= length else f"{text[: length - 1]}…"


def counted(number: int, noun: str, many: str = "") -> str:
    """Write a number with its noun."""
    return f"{number:,} {noun if number == 1 else many or noun + 's'}"


def pairs(facts: Iterable[tuple[str, str]], indent: str = "  ") -> list[str]:
    """Align names and values; those without a value are left out."""
    kept = [(name, value) for name, value in facts if value]
    width = max((len(name) for name, _ in kept), default=0)
    return [f"{indent}{name:<{width}}  {value}" for name, value in kept]


def table(head: Sequence[str], rows: Sequence[Sequence[str]], right: Sequence[int] = ()) -> list[str]:
    """Align columns; those in `right` hold numbers."""
    every = [head, *rows]
    widths = [max(len(row[at]) for row in every) for at in range(len(head))]

    def aligned(row: Sequence[str]) -> str:
        cells = (
            cell.rjust(width) if at in right else cell.ljust(width)
            for at, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        return "  ".join(cells).rstrip()

    return [aligned(row) for row in every]
