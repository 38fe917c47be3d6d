"""The statements of the SQL stores, as files that can be read, reviewed and run by hand.

`NAME_NNNN_title.sql` are migrations, in order; `NAME_statements.sql` holds the named statements.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

# Not importlib.resources: it would be the slowest import of a command that reads a file.
_HERE = Path(__file__).parent
_NAMED = re.compile(r"^-- name: (\w+)\n(.*?)(?=^-- name: |\Z)", re.MULTILINE | re.DOTALL)


@cache
def statements(store: str) -> dict[str, str]:
    """Return a store's statements by name."""
    text = (_HERE / f"{store}_statements.sql").read_text("utf-8")
    return {name: _without_comments(body) for name, body in _NAMED.findall(text)}


@cache
def migrations(store: str) -> list[list[str]]:
    """Return a store's migrations in order, each as its statements."""
    return [_split(_without_comments(text)) for text in scripts(store)]


@cache
def scripts(store: str) -> list[str]:
    """Return the texts of a store's migrations in order."""
    found = [file for file in _HERE.iterdir() if re.match(rf"{store}_\d{{4}}_", file.name)]
    return [file.read_text("utf-8") for file in sorted(found)]


def printable(store: str) -> str:
    """Return a store's schema to be run by hand; its last line keeps Onefold from making it again."""
    known = scripts(store)
    return "\n".join([*known, f"INSERT INTO onefold_meta (name, value) VALUES ('schema', '{len(known)}');\n"])


def _without_comments(text: str) -> str:
    return re.sub(r"^--.*\n", "", text, flags=re.MULTILINE).strip().rstrip(";")


def _split(text: str) -> list[str]:
    return [statement.strip() for statement in text.split(";\n") if statement.strip()]
