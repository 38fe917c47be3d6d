"""What a pipeline does with what its sources show: records to tasks, tasks to their deliveries.

It knows the kinds of records (plain, for several names, retracting, without a key) and the delivery of
each; how an effect is claimed and ended is the delivery's.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Protocol

from onefold.core.claims import Bid
from onefold.core.entry import Why
from onefold.core.errors import OnefoldError
from onefold.core.key import Key
from onefold.core.protocol import set_aside
from onefold.core.record import Broken, Fate, Record, Standing
from onefold.drive import AsyncHeart, AsyncPorts, arun
from onefold.runtime import current
from onefold.worker.delivery import Aged, Delivery
from onefold.worker.fanout import FanOut, each_key, worst
from onefold.worker.joined import JoinedDelivery
from onefold.worker.pipeline import Pipeline
from onefold.worker.retraction import Undo, undo_key
from onefold.worker.standing import standings
from onefold.worker.tally import Tally
from onefold.worker.work import Task, bid, broken_key

log = logging.getLogger("onefold.worker")

Fresh = Sequence[tuple[Key, Record]]


class Delivers(Protocol):
    """Acts on tasks, and says what became of each."""

    async def run(self, tasks: Sequence[Task], age: Aged) -> list[Fate]: ...


class Acting:
    """The doing part of one pipeline, shared by its sources and its recovery."""

    def __init__(
        self,
        pipeline: Pipeline,
        ports: AsyncPorts,
        heart: AsyncHeart,
        tally: Tally,
        stopping: Callable[[], bool],
    ) -> None:
        self.pipeline = pipeline
        self.tally = tally
        self._ports = ports
        self._heart = heart
        self._stopping = stopping
        attend = getattr(pipeline.sink, "attend", None)
        if attend:
            attend(self.set_aside)
        self._plain = self._delivery(pipeline.sink)
        self._fan_out = FanOut(pipeline, lambda tasks: self._plain.run(tasks, self._age))
        self._each = self._delivery(self._fan_out) if pipeline.each else None
        self._undo = self._delivery(Undo(pipeline, pipeline.undo, ports)) if pipeline.undo else None

    def _delivery(self, sink: object) -> Delivers:
        pipeline = self.pipeline
        if getattr(sink, "effect", None) == "joined":
            return JoinedDelivery(
                pipeline.name,
                sink,  # type: ignore[arg-type]
                pipeline.terms,
                self._ports,
                self.tally,
                self._stopping,
            )
        return Delivery(
            pipeline.name,
            sink,  # type: ignore[arg-type]
            pipeline.terms,
            self._ports,
            self._heart,
            self.tally,
            at_once=pipeline.at_once,
            timeout=pipeline.timeout,  # type: ignore[arg-type]
            stopping=self._stopping,
        )

    # ----- what sources show

    def key(self, record: Record) -> Key | None:
        """Return the key that a record is accounted for by; one without a key is named by its own text."""
        try:
            key = self.pipeline.key_of(record)
        except Exception as error:  # the key function is the caller's, and the record the outside's
            return broken_key(self.pipeline.name, record.source, f"{record.id} {error!r:.200}")
        if key is not None and record.retracts is not None:
            return undo_key(key, record)
        return key

    async def fates(self, fresh: Fresh) -> list[Fate]:
        """Act on records, and say what became of each."""
        fates: dict[bytes, Fate] = {}
        broken = f"{self.pipeline.name}.broken"
        await self._without_key([pair for pair in fresh if pair[0].scope == broken], fates)
        retracting = [pair for pair in fresh if pair[1].retracts is not None]
        plain = [pair for pair in fresh if pair[0].id not in fates and pair[1].retracts is None]
        if self._each is None:
            await self._act(self._plain, [Task(key, record) for key, record in plain], fates)
        else:
            await self._for_each(plain, fates)
        # After the others: what is taken back may stand on the same page.
        await self._retract(retracting, fates)
        return [fates[key.id] for key, _ in fresh]

    async def _act(self, delivery: Delivers, tasks: Sequence[Task], fates: dict[bytes, Fate]) -> None:
        told = await delivery.run(tasks, self._age)
        fates.update((task.key.id, fate) for task, fate in zip(tasks, told, strict=True))

    async def _for_each(self, plain: Fresh, fates: dict[bytes, Fate]) -> None:
        assert self._each is not None, "only a pipeline with each= comes here"
        tasks: list[Task] = []
        owned: dict[bytes, list[bytes]] = {}
        for key, record in plain:
            try:
                own = await self._fan_out.tasks(key, record)
            except Exception:  # kept under an entry of its own, which asks again and says what is wrong
                waits = Task(each_key(key), record)
                await self._act(self._each, [waits], fates)
                fates[key.id] = fates[waits.key.id]
                continue
            if not own:
                self.tally.add("filtered", record.source)
            owned[key.id] = [task.key.id for task in own]
            tasks += own
        await self._act(self._plain, tasks, fates)
        fates.update((key, worst([fates[one] for one in ids])) for key, ids in owned.items())

    async def _retract(self, retracting: Fresh, fates: dict[bytes, Fate]) -> None:
        for key, record in retracting:
            self.tally.add("retracted", record.source)
            if self._undo is not None:
                await self._act(self._undo, [Task(key, record)], fates)
                continue
            await self._park(
                [(key, record, "nobody said how to take it back: give the pipeline undo=")], "by-hand"
            )
            fates[key.id] = "parked"

    async def _without_key(self, broken: Fresh, fates: dict[bytes, Fate]) -> None:
        if broken:
            await self._park([(key, record, "it has no key") for key, record in broken], "failed")
            fates.update((key.id, "parked") for key, _ in broken)

    async def standing(self, shown: Fresh) -> list[Standing]:
        """Say how records stand in the ledger now."""
        return await standings(self._ports, shown, self._keys)

    async def _keys(self, key: Key, record: Record) -> Sequence[Key]:
        if self._each is None or record.retracts is not None or key.scope != self.pipeline.name:
            return [key]
        try:
            return [task.key for task in await self._fan_out.tasks(key, record)]
        except Exception:  # its names cannot be had: then it waits under an entry of its own
            return [each_key(key)]

    # ----- what cannot be acted upon

    async def set_aside(self, source: str, broken: Sequence[Broken]) -> None:
        """Park what a source showed that is no record, or what a sink fetched and cannot use."""
        rows = []
        for one in broken:
            key = broken_key(self.pipeline.name, source, one.raw)
            rows.append((key, Record(key.label[:80], one.raw, 0, source), one.reason))
        await self._park(rows, "failed")

    async def _park(self, rows: Sequence[tuple[Key, Record, str]], why: Why) -> None:
        bids: dict[bytes, Bid] = {}
        for key, record, reason in rows:
            self.tally.add("broken" if why == "failed" else "parked", record.source)
            log.warning("%s: %s is set aside: %s", self.pipeline.name, key, reason)
            task = Task(key, record, error=reason)
            bids[key.id] = bid(task, current().token(), self.pipeline.terms, "idempotent", None, 0.0)
        answers = await arun(set_aside(list(bids.values()), why), self._ports)
        if any(answer.state == "unknown" for answer in answers):
            raise OnefoldError(f"the store did not confirm that {len(rows)} records were set aside")

    # ----- what waits in entries

    async def again(self, tasks: Sequence[Task]) -> None:
        """Act on tasks that were kept in their entries: retries that are due, and what a dead holder left."""
        own = self.pipeline.name
        routes = (
            (self._each, [task for task in tasks if task.key.scope == f"{own}.each"]),
            (self._plain, [t for t in tasks if t.key.scope == own and t.record.retracts is None]),
            # After the others: what is taken back may wait beside it.
            (self._undo, [task for task in tasks if task.record.retracts is not None]),
        )
        for delivery, routed in routes:
            if delivery is not None and routed:
                await delivery.run(routed, self._age)

    @property
    def scopes(self) -> list[str]:
        """The scopes in which tasks of this pipeline may wait."""
        return [self.pipeline.name, *([f"{self.pipeline.name}.each"] if self._each else [])]

    def _age(self, task: Task) -> float:
        """Say how old a record is, where its source orders by time; otherwise it counts as new."""
        source = self.pipeline.sources.get(task.record.source)
        if source is None or not getattr(source, "timed", False):
            return 0.0
        return max(current().time() - task.record.at, 0.0)
