"""Effects that commit together with their mark: the sink's rows and the ledger's entry in one transaction.

A batch is one transaction. If it fails, it is rolled back whole and split: each task alone, so that a poison
row is counted against itself and its neighbours go through. The sink only writes rows; it never commits.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

import anyio

from onefold.core.claims import Answer, Ending
from onefold.core.documents import load, named, save
from onefold.core.entry import Effect, Entry
from onefold.core.errors import Later, Locked, Misconfigured, Unreachable
from onefold.core.key import Key
from onefold.core.operate import look
from onefold.core.ports import Claim
from onefold.core.protocol import end, note_failure
from onefold.core.reasons import described
from onefold.core.record import Fate, Record
from onefold.core.terms import Terms
from onefold.drive import AsyncPorts, Ports, arun, run
from onefold.ledger.holding import kept
from onefold.ledger.ways import Way
from onefold.runtime import current
from onefold.stores import join
from onefold.worker.racing import claim_raced
from onefold.worker.tally import Tally
from onefold.worker.work import Attempt, Task, bid, is_kept

log = logging.getLogger("onefold.worker")

BATCH = 100

MARKS = 50
"""How many marks stand side by side: that many workers may look for theirs at once."""


class JoinedSink(Protocol):
    """A sink that shares its database with the ledger."""

    @property
    def effect(self) -> Effect: ...

    def transaction(self) -> AbstractContextManager[Any]:
        """Open a transaction and give its connection; leaving normally commits, raising rolls back."""

    def write(self, connection: Any, work: Sequence[tuple[Claim, Record]]) -> Sequence[Any]:
        """Write the rows of these records, and give a receipt for each."""


class JoinedDelivery:
    """Acts on tasks inside transactions of the sink's database."""

    def __init__(
        self,
        name: str,
        sink: JoinedSink,
        terms: Terms,
        ports: AsyncPorts,
        tally: Tally,
        stopping: Callable[[], bool],
    ) -> None:
        self.name = name
        self.sink = sink
        self.terms = terms
        self.tally = tally
        self.stopping = stopping
        self._ports = ports
        self._way = Way("joined", terms=terms, safe=tuple(getattr(sink, "safe", ())))
        self._alone = anyio.Lock()
        self._is_shared = False
        self._rivals = len(tally.sources) - 1

    async def run(self, tasks: Sequence[Task], age: Callable[[Task], float]) -> list[Fate]:
        """Act on tasks; fates in their order."""
        fates: dict[bytes, Fate] = {}
        first: dict[bytes, Task] = {}
        for task in tasks:  # in their order: a queue is to be begun at its head
            first.setdefault(task.key.id, task)
        unique = list(first.values())
        for at in range(0, len(unique), BATCH):
            batch = unique[at : at + BATCH]
            if self.stopping():
                fates.update((task.key.id, "open") for task in batch)
                continue
            async with self._alone:
                await self._check_shared()
                fates.update(await current().blocking(self._together, batch, age))
        return [fates[task.key.id] for task in tasks]

    def _together(self, tasks: Sequence[Task], age: Callable[[Task], float]) -> dict[bytes, Fate]:
        try:
            return self._transact(tasks, age)
        except Locked:
            self.tally.add("busy", tasks[0].record.source, len(tasks))
            return {task.key.id: "open" for task in tasks}
        except (Unreachable, Misconfigured):
            raise  # nothing is wrong with the records: the database is away, or not as it must be
        except Exception as error:
            if len(tasks) == 1:
                return {tasks[0].key.id: self._failed(tasks[0], error)}
        fates: dict[bytes, Fate] = {}
        for task in tasks:
            fates.update(self._together([task], age))
        return fates

    def _transact(self, tasks: Sequence[Task], age: Callable[[Task], float]) -> dict[bytes, Fate]:
        # Tokens of its own for every transaction: whether an earlier one was committed is the entry's to say.
        bids = [
            bid(task, token, self.terms, "joined", None, age(task))
            for task, token in zip(tasks, current().tokens(len(tasks)), strict=True)
        ]
        fates: dict[bytes, Fate] = {}
        with self.sink.transaction() as connection:
            ports = Ports(join(connection))
            answers = run(claim_raced(bids, self._rivals), ports)
            won = [
                Attempt(one, answer, task)
                for task, one, answer in zip(tasks, bids, answers, strict=True)
                if answer.state == "won"
            ]
            receipts = self.sink.write(connection, [(one, one.record) for one in won]) if won else []
            run(end(self._endings(won, receipts)), ports)
        for task, answer in zip(tasks, answers, strict=True):
            fates[task.key.id] = self._fate(task, answer)
        return fates

    def _endings(self, won: Sequence[Attempt], receipts: Sequence[Any]) -> list[Any]:
        return [
            (one.hold, Ending("returned", kept(one.key, receipt)), self.terms)
            for one, receipt in zip(won, receipts, strict=True)
        ]

    def _fate(self, task: Task, answer: Answer) -> Fate:
        source = task.record.source
        match answer.state:
            case "won":
                self.tally.won(task.key.id, source)
                self.tally.add("done", source)
                return "done"
            case "done":
                self.tally.done_before(task.key.id, task.record, answer.entry.source if answer.entry else "")
                return "done"
            case "parked":
                self.tally.add("parked", source)
                return "parked"
            case _:
                self.tally.add("busy", source)
                return "kept" if is_kept(answer.entry) else "open"

    def _failed(self, task: Task, error: Exception) -> Fate:
        """Count an attempt whose transaction was rolled back, in a transaction of its own."""
        said = described(error)
        later = isinstance(error, Later)
        log.log(
            logging.INFO if later else logging.WARNING,
            "%s: %s did not end well: %s",
            self.name,
            task.key,
            said,
        )
        told = bid(task._replace(error=said, later=later), current().token(), self.terms, "joined", None, 0.0)
        with self.sink.transaction() as connection:
            ports = Ports(join(connection))
            run(note_failure(told, self._way.ending(error)), ports)
            [seen] = run(look([task.key]), ports)
        return self._stands(task, seen.entry)

    def _stands(self, task: Task, entry: Entry | None) -> Fate:
        """Say what became of a task whose own transaction was rolled back, from what stands."""
        match entry.state if entry else None:
            case "done":
                return "done"  # another did it meanwhile
            case "parked":
                self.tally.add("failed", task.record.source)
                return "parked"
            case _:
                self.tally.add("refused", task.record.source)
                return "kept" if is_kept(entry) else "open"

    # ----- one database

    async def _check_shared(self) -> None:
        """Make sure that the ledger of this worker stands where the sink writes.

        Otherwise retries would wait in a ledger that nobody looks into.
        """
        if self._is_shared:
            return
        key, mark = named("joined", self.name), current().token()
        await arun(save(key, current().token(), lambda stands: _marked(stands, mark)), self._ports)
        self._is_shared = await current().blocking(self._sees, key, mark)
        if not self._is_shared:
            raise Misconfigured(
                f"the sink of pipeline {self.name} is joined, but writes to another database than the "
                "ledger: give both the same URL, or write effect='idempotent' with a version="
            )

    def _sees(self, key: Key, mark: str) -> bool:
        """Look for the worker's mark in the sink's database."""
        try:
            with self.sink.transaction() as connection:
                [found] = run(load([key]), Ports(join(connection)))
                if found is None or mark not in found.value.get("marks", ()):
                    raise _NotHere  # roll back: no ledger is to be left in a database that is not its own
        except _NotHere:
            return False
        return True


def _marked(stands: Any, mark: str) -> dict[str, Any]:
    """Put a mark beside those of other workers, which may be looking for theirs at this moment."""
    return {"marks": [*(stands or {}).get("marks", [])[1 - MARKS :], mark]}


class _NotHere(Exception):
    """What was looked for is not in this database."""
