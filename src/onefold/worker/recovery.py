"""Acts on what waits in entries: retries that are due, what dead holders left, doubts that a probe settles.

Any worker of a pipeline does it, from the entries alone; the claims decide which one. It touches no cursor.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Sequence

import anyio

from onefold.core.claims import Answer, is_suspect
from onefold.core.entry import Entry, State
from onefold.core.errors import OnefoldError
from onefold.core.flow import Found, scan
from onefold.core.key import Key
from onefold.core.protocol import answer_probe
from onefold.drive import AsyncPorts, arun
from onefold.ledger.holding import probe_answer
from onefold.runtime import current
from onefold.worker.acting import Acting
from onefold.worker.work import Attempt, Task, bid, read

log = logging.getLogger("onefold.worker")

PAGE = 200
LOOKS = (0.2, 5.0)
"""Seconds between two looks for work that is due: the shortest pause, and the longest."""


class Recovery:
    """Looks for due work of one pipeline, for ever."""

    def __init__(self, acting: Acting, ports: AsyncPorts, stopping: anyio.Event) -> None:
        self._acting = acting
        self._ports = ports
        self._stopping = stopping
        terms = acting.pipeline.terms
        shortest, longest = LOOKS
        self._pause = min(max(min(terms.backoff[0], terms.lease / 3), shortest), longest)
        self._probe = getattr(acting.pipeline.sink, "probe", None)
        self._last = False
        self._rest: anyio.CancelScope | None = None

    async def run(self) -> None:
        """Look, act, rest; a store that is away is asked again after a rest."""
        while not self._stopping.is_set():
            last = self._last
            try:
                for scope in self._acting.scopes:
                    await self._due(scope)
                if self._probe:
                    await self._in_doubt()
            except OnefoldError as error:
                log.warning("%s: looking for due work failed: %s", self._acting.pipeline.name, error)
            if last:
                return
            with anyio.move_on_after(self._pause * current().uniform(0.75, 1.25)) as self._rest:
                if not self._last:
                    await self._stopping.wait()

    def finish(self) -> None:
        """Look once more, for all that is due now, and end."""
        self._last = True
        if self._rest is not None:
            self._rest.cancel()

    async def _due(self, scope: str) -> None:
        async for found in self._pages(scope, ("free", "held")):
            tasks = [task for task in (self._task(key, seen.entry) for key, seen in found) if task]
            await self._acting.again([task for task in tasks if not task.alone])
            for suspect in (task for task in tasks if task.alone):
                await self._acting.again([suspect])

    def _task(self, key: Key, entry: Entry | None) -> Task | None:
        task = self._read(key, entry) if entry else None
        if task and entry and entry.state == "held":
            self._acting.tally.add("taken-over", task.record.source)
            return task._replace(alone=is_suspect(entry, self._acting.pipeline.terms))
        return task

    def _read(self, key: Key, entry: Entry) -> Task | None:
        """Read a task that this pipeline may act upon: another one of its name may act in another way."""
        task, owns = read(key, entry), self._acting.pipeline.owns
        return task if task and (owns is None or owns(key, task.record)) else None

    async def _pages(self, scope: str, states: tuple[State, ...]) -> AsyncIterator[Sequence[Found]]:
        after: str | None = None
        while not self._stopping.is_set():
            found, after = await arun(_page(scope, states, after), self._ports)
            if found:
                yield found
            if after is None:
                return

    async def _in_doubt(self) -> None:
        async for found in self._pages(self._acting.pipeline.name, ("parked",)):
            for key, seen in found:
                if seen.entry and seen.entry.why == "in-doubt":
                    await self._ask(key, seen.entry)

    async def _ask(self, key: Key, entry: Entry) -> None:
        """Ask the sink's probe about one attempt; its answer holds for that version of the entry alone."""
        task, pipeline = self._read(key, entry), self._acting.pipeline
        if task is None or self._probe is None:
            return
        one = bid(task, current().token(), pipeline.terms, entry.effect, None, 0.0)
        try:
            told, body = probe_answer(
                await self._probe(Attempt(one, Answer("parked", entry), task), task.record)
            )
        except Exception as error:  # the far side is away: the doubt stays
            log.warning("%s: the probe of %s failed: %s", pipeline.name, key, error)
            return
        if told is not None:
            await arun(answer_probe(key, entry, current().token(), told, body), self._ports)


async def _page(
    scope: str, states: tuple[State, ...], after: str | None
) -> tuple[Sequence[Found], str | None]:
    return await scan(scope, states, True, after, PAGE)
