"""What operators and lookers-on do, as flows: look, list, resolve, retry.

Every act is noted before it is done. What an operator may do is decided in `claims`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from onefold.core import claims
from onefold.core.audit import note
from onefold.core.claims import Answer
from onefold.core.entry import Change, Entry, Seen, State
from onefold.core.flow import Found, get, scan
from onefold.core.key import Key
from onefold.core.protocol import decide
from onefold.core.reasons import found, stated

PAGE = 500

Decision = Callable[[Entry | None], Change | None]


async def look(keys: Sequence[Key]) -> Sequence[Seen]:
    """Read what is known of keys."""
    return await get(keys)


async def page(
    scope: str | None, states: Sequence[State], after: str | None, limit: int = PAGE
) -> tuple[Sequence[Found], str | None]:
    """Read one page of a list."""
    return await scan(scope, states, False, after, limit)


async def resolve(
    key: Key,
    happened: bool,
    body: str | None,
    by: str,
    token: str,
    shown: Entry | None = None,
    reason: str = "",
) -> Answer:
    """Write a person's decision about a parked key; *lost* if it is not parked, or not as it was shown."""
    act = {"act": "resolve", "happened": happened, "by": by, **_because(reason)}
    decision = _upon(shown, lambda entry: claims.resolve(key, entry, token, happened, body))
    return await _operate(key, token, act, decision)


async def retry(key: Key, by: str, token: str, shown: Entry | None = None, reason: str = "") -> Answer:
    """Make a key due now, if that is known to be safe; *lost* if it is not, or not as it was shown."""
    decision = _upon(shown, lambda entry: claims.retry(key, entry, token))
    return await _operate(key, token, {"act": "retry", "by": by, **_because(reason)}, decision)


def _upon(shown: Entry | None, decision: Decision) -> Decision:
    """Let a decision hold only for the version that a person saw, if it is known which."""
    if shown is None:
        return decision
    return lambda entry: decision(entry) if entry is not None and entry.version == shown.version else None


async def _operate(key: Key, token: str, act: dict[str, Any], decision: Decision) -> Answer:
    [seen] = await get([key])
    if seen.entry is None or decision(seen.entry) is None:
        return Answer("lost", seen.entry)
    await note(key, {**act, **_found(seen.entry)}, token)
    return await decide(key, token, decision)


def _because(reason: str) -> dict[str, Any]:
    return {"reason": stated(reason)} if reason else {}


def _found(entry: Entry) -> dict[str, Any]:
    """Say what the act was done upon, with the record and the error that a receipt would overwrite."""
    text = found(entry)
    return {"version": entry.version, "was": entry.why or entry.state, **({"found": text} if text else {})}
