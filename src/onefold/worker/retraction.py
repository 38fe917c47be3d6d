"""Taking back what was done: a record that retracts another runs the pipeline's `undo`, once, by its own key.

It acts only if the original is done. While the original is open it waits; if the original was never done
there is nothing to take back. That nobody has seen it tells so only at the last attempt, and only once the
cursor has come to the retraction: until then the original may have to be read again. A source shows what it
takes back first, and knows how deep a fork must be before it does.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from onefold.core.documents import load
from onefold.core.entry import Effect
from onefold.core.errors import Later, Misconfigured, Refused
from onefold.core.key import Key
from onefold.core.operate import look
from onefold.core.ports import Claim, Sink
from onefold.core.record import Record
from onefold.core.terms import Seconds
from onefold.drive import AsyncPorts, arun
from onefold.worker.pipeline import Pipeline
from onefold.worker.progress import cursor_key, position

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
        if seen.entry is None:
            return await self._unseen(key, claim, record)
        if seen.entry.state == "parked":
            return Refused(f"{key} is parked: it is taken back once it is done")
        if seen.entry.state != "done":
            return self._later(f"{key} is {seen.entry.state}, and taken back once it is done")
        [result] = await self._sink.put([(claim, record)])
        return result

    async def _unseen(self, key: Key, claim: Claim, record: Record) -> Any:
        """Say what becomes of a retraction whose original has no entry: the original may be on its way."""
        [text] = await arun(load([cursor_key(self._pipeline.name, record.source)]), self._ports)
        cursor, _ = position(text and text.value)
        if cursor.at is None or cursor.at < record.at:
            return self._later(f"{key} was not seen yet, and {record.source} was not read as far as that")
        if claim.attempt < self._pipeline.terms.attempts:
            return Refused(f"{key} was not seen yet, and may be on its way")
        return NOT_DONE

    def _later(self, reason: str) -> Later:
        return Later(reason, self._pipeline.terms.backoff[0])
