"""Effects that commit together with their mark: the sink's rows and the ledger's entry in one transaction.

A batch is one transaction. If it fails, it is rolled back whole and split: each task alone, so that a poison
row is counted against itself and its neighbours go through. The sink only writes rows; it never commits.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

import anyio.to_thread

from onefold.core.claims import Answer, Bid, Ending
from onefold.core.entry import Effect
from onefold.core.errors import Locked
from onefold.core.ports import Claim
from onefold.core.protocol import end, note_failure
from onefold.core.record import Fate, Record
from onefold.core.terms import Terms
from onefold.drive import Ports, run
from onefold.ledger.holding import kept
from onefold.stores import join
from onefold.worker.racing import claim_raced
from onefold.worker.secret import masked
from onefold.worker.tally import Tally
from onefold.worker.work import Attempt, Task, bid, is_kept

log = logging.getLogger("onefold.worker")

BATCH = 100


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
        self, name: str, sink: JoinedSink, terms: Terms, tally: Tally, stopping: Callable[[], bool]
    ) -> None:
        self.name = name
        self.sink = sink
        self.terms = terms
        self.tally = tally
        self.stopping = stopping
        self._alone = anyio.Lock()
        self._rivals = len(tally.sources) - 1

    async def run(self, tasks: Sequence[Task], age: Callable[[Task], float]) -> list[Fate]:
        """Act on tasks; fates in their order."""
        fates: dict[bytes, Fate] = {}
        unique = list({task.key.id: task for task in reversed(tasks)}.values())
        for at in range(0, len(unique), BATCH):
            batch = unique[at : at + BATCH]
            if self.stopping():
                fates.update((task.key.id, "open") for task in batch)
                continue
            async with self._alone:
                bids = [bid(task, self.terms, "joined", None, age(task)) for task in batch]
                fates.update(await anyio.to_thread.run_sync(self._together, batch, bids))
        return [fates[task.key.id] for task in tasks]

    def _together(self, tasks: Sequence[Task], bids: Sequence[Bid]) -> dict[bytes, Fate]:
        try:
            return self._transact(tasks, bids)
        except Locked:
            self.tally.add("busy", tasks[0].record.source, len(tasks))
            return {task.key.id: "open" for task in tasks}
        except Exception as error:
            if len(tasks) == 1:
                return self._failed(tasks[0], bids[0], error)
        fates: dict[bytes, Fate] = {}
        for task, one in zip(tasks, bids, strict=True):
            fates.update(self._together([task], [one]))
        return fates

    def _transact(self, tasks: Sequence[Task], bids: Sequence[Bid]) -> dict[bytes, Fate]:
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
                self.tally.add("won", source)
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

    def _failed(self, task: Task, failed: Bid, error: Exception) -> dict[bytes, Fate]:
        """Count an attempt whose transaction was rolled back, in a transaction of its own."""
        said = masked(f"{type(error).__name__}: {error}")
        log.warning("%s: %s did not end well: %s", self.name, task.key, said)
        told = bid(task._replace(error=said), self.terms, "joined", None, 0.0)
        with self.sink.transaction() as connection:
            run(note_failure(told, Ending("raised")), Ports(join(connection)))
        self.tally.add("refused", task.record.source)
        return {failed.key.id: "kept"}
