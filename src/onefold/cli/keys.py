"""Keys on a command line: typed as scope and parts, pasted as the label that lists and logs print, or by id.

A store knows a key's digest and its label; where the label is whole, the parts can be read back from
it, and the digest proves that they are the right ones. A label that fits several keys is refused.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

import click

from onefold.cli.opened import Opened
from onefold.core.entry import OPEN, Entry, Seen
from onefold.core.errors import Misconfigured
from onefold.core.key import Key, parts_of
from onefold.core.operate import look

F = TypeVar("F", bound=Callable[..., Any])

CUT = "…"
"""How a label ends that was cut."""


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


def find_key(store: Opened, scope: str, parts: tuple[str, ...], digest: str | None) -> tuple[Key, Seen]:
    """Return the key that was typed or pasted, with what is stored under it."""
    if digest is None and (parts or "/" in scope):
        return _by_words(store, (scope, *parts))
    key = _by_id(scope, parts, digest)
    [seen] = store.run(look([key]))
    return spelled_out(key, seen.entry), seen


def _by_id(scope: str, parts: tuple[str, ...], digest: str | None) -> Key:
    if bool(parts) == bool(digest) or digest is None:
        raise click.UsageError(f"name a key: {scope} PART..., {scope}/LABEL, or {scope} --id HEX")
    if not re.fullmatch("[0-9a-f]{64}", digest):
        raise click.UsageError(f"--id is {digest!r:.80}: an id is 64 hexadecimal digits")
    return Key.stored(scope, bytes.fromhex(digest), f"{digest[:12]}…")


# ----- labels


def _by_words(store: Opened, words: Sequence[str]) -> tuple[Key, Seen]:
    """Take words for a scope and its parts; if no such key is stored, take them for a label."""
    typed = _typed(words)
    keys = {key.id: key for key in (*typed, *meant(words))}
    if not keys:
        raise click.UsageError(f"{words[0]!r:.80} names no key: write SCOPE PART..., or paste a label")
    found = list(zip(keys.values(), store.run(look(list(keys.values()))), strict=True))
    stored = [(key, seen) for key, seen in found if seen.entry]
    if typed and found[0][1].entry:
        return found[0]
    if len(stored) == 1:
        return stored[0]
    return _only(words, stored or _cut(store, words)) or found[0]


def _typed(words: Sequence[str]) -> list[Key]:
    if len(words) == 1:
        return []
    try:
        return [Key(words[0], *words[1:])]
    except Misconfigured as error:
        raise click.UsageError(str(error)) from error


def meant(words: Sequence[str]) -> list[Key]:
    """Return every key that prints as these words: a scope may hold slashes, as a label does."""
    keys: list[Key] = []
    for scope, label in _splits("/".join(words)):
        try:
            keys.append(Key(scope, *parts_of(label)))
        except Misconfigured:
            continue
    return keys


def _splits(text: str) -> Iterable[tuple[str, str]]:
    return [(text[:at], text[at + 1 :]) for at, char in enumerate(text) if char == "/"]


def _cut(store: Opened, words: Sequence[str]) -> list[tuple[Key, Seen]]:
    """Search for a label that was cut: first among open entries, then by a walk over those that are done."""
    text = "/".join(words)
    if not text.endswith(CUT):
        return []
    for states in (OPEN, ("done",)):
        found = [
            (spelled_out(key, seen.entry), seen)
            for scope, label in _splits(text)
            for entries in store.found(scope, states)
            for key, seen in entries
            if key.label == label
        ]
        if found:
            return found
    return []


def _only(words: Sequence[str], found: Sequence[tuple[Key, Seen]]) -> tuple[Key, Seen] | None:
    if len(found) < 2:
        return found[0] if found else None
    ids = ", ".join(f"{key.scope} --id {key.id.hex()}" for key, _ in found[:5])
    raise click.UsageError(f"{'/'.join(words)!r:.80} is the label of several keys; name one by its id: {ids}")


def spelled_out(key: Key, entry: Entry | None) -> Key:
    """Return the key with the parts that its stored label shows, or at least with that label."""
    if key.parts or entry is None:
        return key
    return _read_back(key, entry.label) or Key.stored(key.scope, key.id, entry.label)


def _read_back(key: Key, label: str) -> Key | None:
    try:
        read = Key(key.scope, *parts_of(label))
    except Misconfigured:
        return None
    return read if read.id == key.id else None
