"""What a planted bug is: a small change to the text of production code, and which histories must show it."""

from __future__ import annotations

from typing import Literal, NamedTuple

History = Literal["ledger", "worker", "tiles"]


class Edit(NamedTuple):
    """One replacement in the text of one module; the old text must be there exactly once."""

    module: str
    old: str
    new: str


class Bug(NamedTuple):
    """A mistake somebody could make."""

    name: str
    sentence: str
    edits: tuple[Edit, ...]
    history: History = "ledger"
    """Which histories show it: of ledgers, of workers with their sources, or of tiles that are filled."""


def bug(name: str, sentence: str, module: str, old: str, new: str) -> Bug:
    """Plant a bug by one replacement."""
    return Bug(name, sentence, (Edit(module, old, new),))
