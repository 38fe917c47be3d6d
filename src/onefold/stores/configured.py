"""Which names `onefold.toml` may hold. A misspelt name is refused by everything that reads the file.

A misspelt `store` would otherwise send a ledger to another store, and effects would happen twice. Settings of
apps are checked where the app is loaded, because only the app knows them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from onefold.core.errors import Misconfigured

TOP = ("store", "worker", "pipelines", "apps")
WORKER = ("grace", "listen", "log", "purge")
PIPELINE = (
    "use",
    "lease",
    "keep",
    "attempts",
    "backoff",
    "at_once",
    "timeout",
    "duplicate_alarm",
    "lag_alarm",
)


def check_names(tables: Mapping[str, Any], text: str, file: Path) -> None:
    """Refuse a name at the top of the file, in [worker] or in [pipelines.NAME] that means nothing."""
    known("", tables, TOP, str(file))
    pipelines = _table(tables.get("pipelines"))
    sections = {
        "worker": tables.get("worker"),
        **{f"pipelines.{name}": pipelines[name] for name in pipelines},
    }
    for title, section in sections.items():
        allowed = WORKER if title == "worker" else PIPELINE
        for name in _table(section):
            known(title, [name], allowed, origin(text, title, name, file))


def _table(value: object) -> dict[str, Any]:
    """Read a table; what should be one and is not is refused by the worker, which needs it."""
    return value if isinstance(value, dict) else {}


def known(title: str, names: Iterable[str], allowed: Iterable[str], origin: str) -> None:
    """Refuse names that mean nothing, with the nearest one that does."""
    wanted = list(allowed)
    for name in names:
        if name not in wanted:
            near = get_close_matches(name, wanted, 1)
            hint = f"did you mean {near[0]}?" if near else f"these are known: {', '.join(wanted)}"
            where = f"[{title}] has" if title else "there is"
            raise Misconfigured(f"{where} no setting {name!r}: {hint} (from {origin})")


def origin(text: str, title: str, name: str, file: Path) -> str:
    """Name the file and, where it can be found, the line of a setting."""
    line = line_of(text, title, name)
    return f"{file}, line {line}" if line else str(file)


def line_of(text: str, title: str, name: str) -> int | None:
    """Return the line of a setting; None where it is written in a way that this function does not follow."""
    inside = ""
    for number, line in enumerate(text.splitlines(), 1):
        if header := re.match(r"\s*\[\s*([^\[\]]+?)\s*\]", line):
            inside = header[1].replace('"', "").replace("'", "")
        elif inside == title and re.match(rf"\s*[\"']?{re.escape(name)}[\"']?\s*[=.]", line):
            return number
    return None
