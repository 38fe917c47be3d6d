"""Secrets of a configuration: read from the environment or a file, never written in the clear.

A `Secret` is a text whose repr hides it, and whose value is masked in everything that a worker logs or
stores. An error about a secret says where it was looked for, never what was found.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from onefold.core.errors import Misconfigured
from onefold.core.redaction import HIDDEN, KNOWN, masked

SHORTEST = 4
"""Values below this length are not masked: they would take every second word out of a log."""

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")

__all__ = ["SHORTEST", "Secret", "is_reference", "masked", "resolved"]


class Secret(str):
    """A text that is not shown; use it as any other."""

    __slots__ = ()

    def __new__(cls, value: str) -> Secret:
        if len(value) >= SHORTEST:
            KNOWN.add(value)
        return super().__new__(cls, value)

    def __repr__(self) -> str:
        return f"Secret({HIDDEN})"


def is_reference(value: object) -> bool:
    """Say whether a value names where a secret is: `env:NAME` or `file:PATH`."""
    return isinstance(value, str) and not isinstance(value, Secret) and value.startswith(("env:", "file:"))


def resolved(reference: str, what: str, folder: Path) -> Secret:
    """Read the secret that a reference names; a relative file lies beside the file that names it."""
    kind, _, where = reference.partition(":")
    value = _from_environment(where, what) if kind == "env" else _from_file(folder / where, what)
    if not value:
        raise Misconfigured(f"{what} is {reference}, but that is empty")
    return Secret(value)


def _from_environment(name: str, what: str) -> str:
    if not _NAME.fullmatch(name):
        # Not quoted: somebody may have written the secret itself behind the colon.
        raise Misconfigured(f"{what} begins with env:, but what follows is no name of a variable")
    if name not in os.environ:
        raise Misconfigured(f"{what} is env:{name}, but ${name} is not set: export {name}=…")
    return os.environ[name].strip()


def _from_file(path: Path, what: str) -> str:
    try:
        return path.read_text("utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is no UTF-8"
        raise Misconfigured(f"{what} is file:{path}, which cannot be read: {reason}") from None
