"""What operators do to cursors and gaps, as flows: read them, move a cursor, close a gap.

Every act is noted before it is done. Going back is safe, because the ledger knows what was done. Going
forward passes over what was never read, so it leaves a gap where people look.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from onefold.core.audit import note
from onefold.core.documents import Document, listed, load, named, save
from onefold.core.record import At
from onefold.worker.progress import cursor_key, position, put_back


class Move(NamedTuple):
    """An operator's word about a cursor, upon the generation that was shown."""

    pipeline: str
    source: str
    at: At | None
    by: str
    generation: int


class Closing(NamedTuple):
    """An operator's word that what lay in a gap came another way, or is not wanted."""

    pipeline: str
    source: str
    until: str
    reason: str
    by: str


async def cursors() -> list[dict[str, Any]]:
    """Read all cursors."""
    return [one.value for _, one in await listed("cursors")]


async def gaps() -> list[dict[str, Any]]:
    """Read all stretches that could not be read, and that nobody has closed."""
    return [one.value for _, one in await listed("gaps") if not _is_closed(one.value)]


def _is_closed(gap: dict[str, Any]) -> bool:
    return "closed_by" in gap


async def close(wanted: Closing, token: str) -> dict[str, Any] | None:
    """Close a gap, and return what stands; None if there is no such gap, or somebody closed it."""
    key = named("gaps", wanted.pipeline, wanted.source, wanted.until)
    [found] = await load([key])
    if found is None or _is_closed(found.value):
        return None
    await note(key, {"act": "close", "by": wanted.by, "reason": wanted.reason}, token)

    def change(stands: Any) -> Any:
        if not stands or _is_closed(stands):
            return None
        return {**stands, "closed_by": wanted.by, "closed_because": wanted.reason, "set": token}

    return _own(await save(key, token, change), token)


async def cursor(pipeline: str, source: str) -> Document | None:
    """Read one cursor."""
    [document] = await load([cursor_key(pipeline, source)])
    return document


def forward(stands: Any, at: At | None) -> bool:
    """Say whether a move would pass over what was never read."""
    stood = position(stands)[0].at
    return at is not None and (stood is None or at > stood)


async def move(wanted: Move, token: str) -> dict[str, Any] | None:
    """Move a cursor; None if another operator moved it meanwhile."""
    key = cursor_key(wanted.pipeline, wanted.source)
    [found] = await load([key])
    stood, generation = position(found and found.value)
    if generation != wanted.generation:
        return None
    await note(key, {"act": "set", "by": wanted.by, "was": stood.at, "to": wanted.at}, token)
    if forward(found and found.value, wanted.at):
        await _leave_gap(wanted, stood.at, token)

    def change(stands: Any) -> Any:
        if position(stands)[1] != wanted.generation:
            return None
        return {**put_back(stands, wanted.at, wanted.by), "set": token}

    return _own(await save(key, token, change), token)


def _own(document: Document | None, token: str) -> dict[str, Any] | None:
    """Return what stands, if it is what this act wrote."""
    text: dict[str, Any] | None = document.value if document else None
    return text if text and text.get("set") == token else None


async def _leave_gap(wanted: Move, stood: At | None, token: str) -> None:
    text = {"pipeline": wanted.pipeline, "source": wanted.source, "since": stood, "until": wanted.at}
    text["reason"] = f"passed over by {wanted.by}"
    key = named("gaps", wanted.pipeline, wanted.source, str(wanted.at))
    await save(key, token, lambda stands: text)
