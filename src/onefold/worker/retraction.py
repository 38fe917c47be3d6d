"""Taking back what was done: a record that retracts another runs the pipeline's `undo`, once, by its own key.

It acts only if the original is done. While the original is open it waits; if the original was never done
there is nothing to take back. How deep a fork must be before a source retracts is the source's to know.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from onefold.core.entry import Effect
from onefold.core.errors import Misconfigured, Refused
from onefold.core.key import Key
from onefold.core.operate import look
from onefold.core.ports import Claim, Sink
from onefold.core.record import Record
from onefold.core.terms import Seconds
from onefold.drive import AsyncPorts, arun
from onefold.worker.pipeline import Pipeline

PATIENCE = 3
"""At this attempt an original that nobody has seen counts as one that was never done."""

NOT_DONE = {"undone": False, "reason": "the original was never done"}


def undo_key(key: Key, record: Record) -> Key:
    """Name the taking back of one effect by one retraction; another fork is another retraction."""
    return Key(key.scope, *key.parts, "undo", record.id)


class Undo:
    """A sink that takes back what was done, and nothing else."""

    def __init__(self, pipeline: Pipeline, sink: Sink, ports: AsyncPorts) -> None:
        if sink.effect == "joined":
            raise Misconfigured(
                f"undo= of pipeline {pipeline.name} is joined, but what is taken back is looked up outside "
                "of its transaction: give a sink of another class"
            )
        self.effect: Effect = sink.effect
        # What the sink says of itself holds here too: a window that nobody hears of would seem endless.
        self.window: Seconds | None = getattr(sink, "window", None)
        self.safe: tuple[type[BaseException], ...] = tuple(getattr(sink, "safe", ()))
        self.prepare = getattr(sink, "prepare", None)
        self._pipeline = pipeline
        self._sink = sink
        self._ports = ports

    async def put(self, work: Sequence[tuple[Claim, Record]]) -> Sequence[Any | Exception]:
        return [await self._undone(claim, record) for claim, record in work]

    async def _undone(self, claim: Claim, record: Record) -> Any:
        key = self._pipeline.key_of(record)
        if key is None:
            return NOT_DONE
        [seen] = await arun(look([key]), self._ports)
        if seen.entry is None and claim.attempt < PATIENCE:
            return Refused(f"{key} was not seen yet, and may be on its way")
        if seen.entry is None:
            return NOT_DONE
        if seen.entry.state != "done":
            return Refused(f"{key} is {seen.entry.state}: it is taken back once it is done")
        [result] = await self._sink.put([(claim, record)])
        return result
