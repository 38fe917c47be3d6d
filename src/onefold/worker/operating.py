"""What operators do to cursors, as flows: read them, move one. Every move is noted before it is done.

Going back is safe, because the ledger knows what was done. Going forward passes over what was never read, so
it leaves a gap where people look.
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


async def cursors() -> list[dict[str, Any]]:
    """Read all cursors."""
    return [one.value for _, one in await listed("cursors")]


async def gaps() -> list[dict[str, Any]]:
    """Read all stretches that could not be read."""
    return [one.value for _, one in await listed("gaps")]


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

    document = await save(key, token, change)
    text: dict[str, Any] | None = document.value if document else None
    return text if text and text.get("set") == token else None


async def _leave_gap(wanted: Move, stood: At | None, token: str) -> None:
    text = {"pipeline": wanted.pipeline, "source": wanted.source, "since": stood, "until": wanted.at}
    text["reason"] = f"passed over by {wanted.by}"
    key = named("gaps", wanted.pipeline, wanted.source, str(wanted.at))
    await save(key, token, lambda stands: text)
