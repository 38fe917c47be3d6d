"""Names of tables and columns in SQL: checked and quoted, because they cannot be bound as values are.

Only plain names are taken, so that a name means the same in every database and nothing can hide in one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from onefold.core.errors import Misconfigured
from onefold.tables import Kind

_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,62}")


def checked(name: object, what: str) -> str:
    """Return a name of a column or table, if it is a plain one."""
    if not isinstance(name, str) or not _PLAIN.fullmatch(name):
        raise Misconfigured(
            f"{what} is {name!r:.80}: write a plain name of letters, digits and underscores, as in fetched_at"
        )
    return name


def checked_table(name: str) -> str:
    """Return the name of a table, which may have that of its schema before it."""
    for part in name.split(".", 1):
        checked(part, "table")
    return name


def quoted(kind: Kind, name: str) -> str:
    """Quote a checked name, part by part."""
    mark = "`" if kind == "mariadb" else '"'
    return ".".join(f"{mark}{part}{mark}" for part in name.split("."))


def listed(kind: Kind, names: Iterable[str]) -> str:
    """Quote names and put commas between them."""
    return ", ".join(quoted(kind, name) for name in names)
