"""Keys on a command line, and keys as a person would type them again.

A store knows a key's digest and its label; where the label is whole, the parts can be read back from
it, and the digest proves that they are the right ones.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, TypeVar

import click

from onefold.core.entry import Entry
from onefold.core.errors import Misconfigured
from onefold.core.key import Key

F = TypeVar("F", bound=Callable[..., Any])

_PART = re.compile(r"(?:[^/\\]|\\.)+")
_ESCAPED = re.compile(r"\\([/\\])")


def names_a_key(required: bool = True) -> Callable[[F], F]:
    """Give a command the arguments SCOPE PART…, and --id instead of the parts."""

    def decorate(function: F) -> F:
        function = click.option("--id", "digest", metavar="HEX", help="The key's id, instead of its parts.")(
            function
        )
        function = click.argument("parts", nargs=-1, metavar="[PART]...")(function)
        return click.argument("scope", required=required, metavar="SCOPE" if required else "[SCOPE]")(
            function
        )

    return decorate


def typed_key(scope: str, parts: tuple[str, ...], digest: str | None) -> Key:
    """Return the key that was typed; a part that names nothing is an error of the command line."""
    if bool(parts) == bool(digest):
        raise click.UsageError(f"name a key: {scope} PART..., or {scope} --id HEX")
    if digest is None:
        try:
            return Key(scope, *parts)
        except Misconfigured as error:
            raise click.UsageError(str(error)) from error
    if not re.fullmatch("[0-9a-f]{64}", digest):
        raise click.UsageError(f"--id is {digest!r:.80}: an id is 64 hexadecimal digits")
    return Key.stored(scope, bytes.fromhex(digest), f"{digest[:12]}…")


def spelled_out(key: Key, entry: Entry | None) -> Key:
    """Return the key with the parts that its stored label shows, or at least with that label."""
    if key.parts or entry is None:
        return key
    return _read_back(key, entry.label) or Key.stored(key.scope, key.id, entry.label)


def _read_back(key: Key, label: str) -> Key | None:
    parts = [_ESCAPED.sub(r"\1", part) for part in _PART.findall(label)]
    try:
        read = Key(key.scope, *parts)
    except Misconfigured:
        return None
    return read if read.id == key.id else None
