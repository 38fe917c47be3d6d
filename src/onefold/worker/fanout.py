"""One record, an effect per name: the names are asked for once, and again later where they cannot be had.

Asking for names is itself an effect that may be repeated, so a record whose names failed stands in an entry
of its own (`<pipeline>.each`) with attempts and back-off like any other, and holds nobody up.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from onefold.core.entry import Effect
from onefold.core.errors import Misconfigured, Refused
from onefold.core.key import Key
from onefold.core.ports import Claim
from onefold.core.record import Fate, Record
from onefold.worker.pipeline import Pipeline
from onefold.worker.work import Task, named_for

Act = Callable[[Sequence[Task]], Awaitable[list[Fate]]]

ORDER: tuple[Fate, ...] = ("open", "kept", "parked", "done")


class FanOut:
    """A sink whose effect is to act for every name of a record. Safe to repeat: each name has its own key."""

    effect: Effect = "idempotent"

    def __init__(self, pipeline: Pipeline, act: Act) -> None:
        self._pipeline = pipeline
        self._act = act

    async def put(self, work: Sequence[tuple[Claim, Record]]) -> Sequence[Any | Exception]:
        return [await self._expanded(record) for _, record in work]

    async def _expanded(self, record: Record) -> Any:
        key = self._pipeline.key_of(record)
        if key is None:
            return None
        tasks = await self.tasks(key, record)
        fates = await self._act(tasks)
        if "open" in fates:
            return Refused("some of its effects could not be kept yet")
        return {"names": len(tasks)}

    async def tasks(self, key: Key, record: Record) -> list[Task]:
        """Ask for the names of a record, and make a task for each."""
        assert self._pipeline.each is not None, "only a pipeline with each= fans out"
        given = self._pipeline.each(record)
        names = dict.fromkeys(await given if inspect.isawaitable(given) else given)
        for name in names:
            if type(name) is not str or name == "":  # it is the caller's function, whatever its type says
                raise Misconfigured(
                    f"each= of pipeline {self._pipeline.name} gave {name!r:.80}: names are texts"
                )
        return [Task(named_for(key, name), record, name) for name in names]


def each_key(key: Key) -> Key:
    """Name the entry in which a record waits for its names."""
    return Key(f"{key.scope}.each", *key.parts)


def worst(fates: Sequence[Fate]) -> Fate:
    """Say what became of a record, from what became of its effects."""
    return min(fates, key=ORDER.index, default="done")
