"""Text for terminals, as pure functions: nothing that was stored can move the cursor."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def shown(text: str) -> str:
    """Make text from outside safe to print on one line."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else _escape(char) for char in text)


def _escape(char: str) -> str:
    return char.encode("unicode_escape", "surrogatepass").decode()


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
