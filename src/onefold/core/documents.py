"""Small named texts in the store: cursors, run state, settings, endpoints, gaps.

A document is an open entry in a scope of Onefold's own, so that a list of them reads an index. It never
expires and nobody claims it; whoever changes it swaps on the version that was read. What a change may
say is decided by the caller, on what stands now.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from onefold.core.entry import Change, Entry, State
from onefold.core.errors import Unreachable
from onefold.core.flow import Found, get, scan
from onefold.core.key import Key
from onefold.core.protocol import decide

OWN = "onefold."
"""How the scopes of Onefold's own entries begin; lists of effects leave them out."""

PAGE = 500

_OPEN: Sequence[State] = ("free",)


class Document(NamedTuple):
    """A text as it stands: plain JSON values, and when it was written, by the store's clock."""

    value: Any
    written: float
    version: int


def named(kind: str, *names: str) -> Key:
    """Return the key of a document: `named("cursors", pipeline, source)`."""
    return Key(OWN + kind, *names)


async def load(keys: Sequence[Key]) -> list[Document | None]:
    """Read documents, in the order asked."""
    return [_read(seen.entry) for seen in await get(keys)]


async def save(key: Key, token: str, change: Callable[[Any], Any]) -> Document | None:
    """Change a document, and return what stands afterwards.

    `change` gets what stands (None: nothing) and gives what shall stand, or None to leave it. If somebody
    else writes meanwhile, it is asked anew.
    """

    def decision(entry: Entry | None) -> Change | None:
        stands = _read(entry)
        wanted = change(stands.value if stands else None)
        if wanted is None:
            return None
        body = json.dumps(wanted, allow_nan=False)
        text = Entry("free", token=token, effect="idempotent", label=key.label, body=body)
        return Change(key, entry.version if entry else None, text)

    answer = await decide(key, token, decision)
    if answer.state == "unknown":
        raise Unreachable(f"the store did not confirm that {key} was written; it may have been")
    return _read(answer.entry)


async def listed(kind: str) -> list[tuple[Key, Document]]:
    """Read all documents of a kind."""
    found: list[Found] = []
    after: str | None = None
    while True:
        page, after = await scan(OWN + kind, _OPEN, False, after, PAGE)
        found += page
        if after is None:
            break
    texts = ((key, _read(seen.entry)) for key, seen in found)
    return sorted(((key, text) for key, text in texts if text), key=lambda pair: pair[0].label)


def _read(entry: Entry | None) -> Document | None:
    if entry is None or entry.body is None:
        return None
    return Document(json.loads(entry.body), entry.written, entry.version)
