"""The scripts that run inside a server, as files that can be read, reviewed and tried by hand.

`NAME_layout.lua` stands before every other script `NAME_*.lua` of a store: the names of its keys, and what
its scripts have in common.
"""

from __future__ import annotations

from functools import cache
from hashlib import sha1
from pathlib import Path
from typing import NamedTuple

# Not importlib.resources: it would be the slowest import of a command that reads a file.
_HERE = Path(__file__).parent


class Script(NamedTuple):
    """A script as it is sent, and the digest by which a server knows it again."""

    text: str
    digest: str


@cache
def scripts(store: str) -> dict[str, Script]:
    """Return a store's scripts by name, each with the layout before it."""
    layout, rest = _layout(store), sorted(_HERE.glob(f"{store}_*.lua"))
    return {
        file.stem.removeprefix(f"{store}_"): script(layout + file.read_text("utf-8"))
        for file in rest
        if file.read_text("utf-8") != layout
    }


def script(text: str) -> Script:
    """Name a text by its digest, as servers do."""
    return Script(text, sha1(text.encode(), usedforsecurity=False).hexdigest())


def listing(store: str) -> str:
    """Return everything that a store's scripts consist of, for people: the layout once, then the scripts."""
    layout = _layout(store)
    parts = [f"-- {name}\n{found.text.removeprefix(layout)}" for name, found in scripts(store).items()]
    return "\n".join([layout, *parts])


def _layout(store: str) -> str:
    return (_HERE / f"{store}_layout.lua").read_text("utf-8")
