"""What a planted bug is: small changes to production code, and which histories must show it.

A change replaces text (`Edit`) or a function by its name (`Swap`). A swap survives refactoring inside the
function; an edit is for a mistake in the middle of one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, NamedTuple

History = Literal["ledger", "worker", "tiles", "whales", "messages", "candles", "listings", "copytrade"]


class Misplanted(Exception):
    """The text or the function that a bug replaces is not there, or the replacement does not fit."""


class Edit(NamedTuple):
    """One replacement in the text of one module; the old text must be there exactly once."""

    module: str
    old: str
    new: str


class Swap(NamedTuple):
    """One function of one module that behaves wrongly.

    The replacement gets the original as its first argument, then the arguments of the call:
    `lambda original, *args: original(*args) + 1`. For a method these start with `self`, for a class method
    with `cls`. A replacement of an async function may be async or not.

    The module that defines the replacement must not import `onefold` at its top: planting imports `onefold`
    anew, so these names would mean classes from before. Import inside the replacement.
    """

    module: str
    qualname: str
    """As in `__qualname__`: `function`, `Class.method`, `Outer.Inner.method`."""
    replacement: Callable[..., Any]


class Bug(NamedTuple):
    """A mistake somebody could make."""

    name: str
    sentence: str
    edits: tuple[Edit | Swap, ...]
    history: History = "ledger"
    """Which histories show it: of ledgers, of workers with their sources, of tiles, or of an application."""


def bug(name: str, sentence: str, module: str, old: str, new: str) -> Bug:
    """Plant a bug by one replacement of text."""
    return Bug(name, sentence, (Edit(module, old, new),))


def swapped(name: str, sentence: str, module: str, qualname: str, replacement: Callable[..., Any]) -> Bug:
    """Plant a bug by one replacement of a function."""
    return Bug(name, sentence, (Swap(module, qualname, replacement),))
