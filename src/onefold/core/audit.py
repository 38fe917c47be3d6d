"""What people did to a key, kept beside it: one entry per key, the latest acts only.

It must not decide what an operator may do; it remembers that it was done, by whom, and on what.
"""

from __future__ import annotations

import json
from typing import Any

from onefold.core.claims import Answer
from onefold.core.entry import BODY_LIMIT, Change, Entry, Seen
from onefold.core.errors import Unreachable
from onefold.core.flow import get
from onefold.core.key import Key
from onefold.core.protocol import ask

SCOPE = "onefold.audit"
LIMIT = 20


def audit_key(key: Key) -> Key:
    """Name the entry that remembers what people did to a key."""
    return Key(SCOPE, key.id.hex())


async def note(key: Key, act: dict[str, Any], token: str) -> None:
    """Write an operator's act down, before it is done, so that none goes unseen."""
    [seen] = await get([audit_key(key)])

    def judge(_: int, change: Change, seen: Seen) -> Change | Answer:
        if seen.entry and seen.entry.token == token:
            return Answer("settled", seen.entry)
        return _added(key, seen.entry, act, token)

    [answer] = await ask([_added(key, seen.entry, act, token)], judge)
    if answer.state == "unknown":
        raise Unreachable(f"the store did not confirm the note about {key}; nothing was decided")


async def acts(key: Key) -> list[dict[str, Any]]:
    """Read what people did to a key, the oldest first; `at` is when, by the store's clock."""
    [seen] = await get([audit_key(key)])
    return _read(seen.entry)


def _added(key: Key, entry: Entry | None, act: dict[str, Any], token: str) -> Change:
    body = _fitting([*_read(entry), act][-LIMIT:])
    wanted = Entry("done", token=token, effect="idempotent", label=str(key)[:200], body=body)
    return Change(audit_key(key), entry.version if entry else None, wanted)


def _fitting(acts: list[dict[str, Any]]) -> str:
    """Write acts as far as an entry has room: what was found goes first, and then the oldest acts."""
    while len(text := json.dumps(acts)) > BODY_LIMIT and len(acts) > 1:
        full = next((at for at, act in enumerate(acts[:-1]) if "found" in act), None)
        if full is None:
            acts = acts[1:]
        else:
            acts[full] = {name: value for name, value in acts[full].items() if name != "found"}
    return text


def _read(entry: Entry | None) -> list[dict[str, Any]]:
    if entry is None or not entry.body:
        return []
    acts = _acts(entry.body)
    # The store stamps the entry, not its body: the last act is as old as the entry, and stays so.
    acts[-1].setdefault("at", entry.written)
    return acts


def _acts(body: str) -> list[dict[str, Any]]:
    """Read acts; what somebody spoilt is said in their place, and keeps nobody from acting."""
    try:
        found = json.loads(body)
    except ValueError:
        found = None
    if isinstance(found, list) and found and all(isinstance(act, dict) for act in found):
        return found
    return [{"act": "cannot be read", "by": "?"}]
