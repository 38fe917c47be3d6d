"""What operators and lookers-on do, as flows: look, list, resolve, retry.

Every act is noted before it is done. What an operator may do is decided in `claims`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from onefold.core import claims
from onefold.core.audit import note
from onefold.core.claims import Answer
from onefold.core.entry import Change, Entry, Seen, State
from onefold.core.flow import Found, get, scan
from onefold.core.key import Key
from onefold.core.protocol import decide

PAGE = 500


async def look(keys: Sequence[Key]) -> Sequence[Seen]:
    """Read what is known of keys."""
    return await get(keys)


async def page(
    scope: str | None, states: Sequence[State], after: str | None, limit: int = PAGE
) -> tuple[Sequence[Found], str | None]:
    """Read one page of a list."""
    return await scan(scope, states, False, after, limit)


async def resolve(key: Key, happened: bool, body: str | None, by: str, token: str) -> Answer:
    """Write a person's decision about a parked key; *lost* if it is not parked."""
    act = {"act": "resolve", "happened": happened, "by": by}
    return await _operate(key, token, act, lambda entry: claims.resolve(key, entry, token, happened, body))


async def retry(key: Key, by: str, token: str) -> Answer:
    """Make a key due now, if that is known to be safe; *lost* if it is not."""
    return await _operate(
        key, token, {"act": "retry", "by": by}, lambda entry: claims.retry(key, entry, token)
    )


async def _operate(key: Key, token: str, act: dict[str, Any], decision: Any) -> Answer:
    [seen] = await get([key])
    change: Change | None = decision(seen.entry)
    if change is None:
        return Answer("lost", seen.entry)
    await note(key, {**act, **_found(seen.entry)}, token)
    return await decide(key, token, decision)


def _found(entry: Entry | None) -> dict[str, Any]:
    """Say what the act was done upon."""
    return {"version": entry.version, "was": entry.why or entry.state} if entry else {}
