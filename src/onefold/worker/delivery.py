"""From tasks to fates: claim in batches, let the sink act, write how each effect ended.

The order is the promise: nothing is put before its claim was won, a one-shot effect not before *begun* was
written, with its claim, and every end is written under the claim's own token. So a one-shot effect is claimed
only when there is room to start it. What an end means is decided in `core.claims`.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, TypeVar

import anyio

from onefold.core.claims import Answer, Bid, Ending
from onefold.core.entry import Effect
from onefold.core.errors import Later, LostClaim, OnefoldError, Refused, Unfinished
from onefold.core.ports import Sink
from onefold.core.protocol import begin_many, end, renew, stop_by
from onefold.core.reasons import described
from onefold.core.record import Fate
from onefold.core.terms import Terms, seconds
from onefold.drive import AsyncHeart, AsyncPorts, arun
from onefold.drive.functions import unfinished
from onefold.ledger.holding import kept
from onefold.ledger.ways import Way
from onefold.runtime import current
from onefold.runtime.threads import Calls
from onefold.worker.crew import Crew
from onefold.worker.eager import Eager
from onefold.worker.ends import Ends
from onefold.worker.racing import RunnersUp, claim_raced, overtake
from onefold.worker.tally import Tally
from onefold.worker.work import Attempt, Task, bid, is_kept, written

log = logging.getLogger("onefold.worker")

CLAIMS = 200
"""How many keys are claimed in one round trip."""

LAST_WORDS = 5.0
"""Seconds that a cancelled effect has for writing how it ended."""

Aged = Callable[[Task], float]
T = TypeVar("T")


class TimedOut(Exception):
    """An effect took longer than its pipeline allows; whether it happened is not known."""


class Delivery:
    """Acts on tasks for one sink, and says what became of each."""

    def __init__(
        self,
        name: str,
        sink: Sink,
        terms: Terms,
        ports: AsyncPorts,
        heart: AsyncHeart,
        tally: Tally,
        *,
        at_once: int = 16,
        timeout: float | str = "5m",
        stopping: Callable[[], bool] = lambda: False,
    ) -> None:
        self.name = name
        self.sink = sink
        self.terms = terms
        self.tally = tally
        self.stopping = stopping
        self._ports = ports
        self._heart = heart
        self._room = anyio.Semaphore(at_once)
        self._turn = asyncio.Lock()
        self._timeout = seconds(timeout, f"timeout of pipeline {name}")
        self._effect: Effect = sink.effect
        self._window: float | None = getattr(sink, "window", None)
        self._batch: int = 1 if self._effect == "one-shot" else int(getattr(sink, "batch", 1))
        self._prepare = getattr(sink, "prepare", None)
        self._rivals = len(tally.sources) - 1
        self._runners_up = RunnersUp()
        self._way = Way(self._effect, terms=terms, safe=tuple(getattr(sink, "safe", ())))

    async def run(self, tasks: Sequence[Task], age: Aged = lambda task: 0.0) -> list[Fate]:
        """Act on tasks; fates in their order. Raises only if the store cannot be asked."""
        first: dict[bytes, Task] = {}
        for task in tasks:  # in their order: a queue is to be begun at its head
            first.setdefault(task.key.id, task)
        fates: dict[bytes, Fate] = {}
        unique = list(first.values())
        if self._effect == "one-shot" and not self._prepare:
            await self._begun(unique, age, fates)
        else:
            for at in range(0, len(unique), CLAIMS):
                await self._act(await self._won(unique[at : at + CLAIMS], age, fates), fates)
        for task in tasks:
            if task is not first[task.key.id]:
                self.tally.repeated(task.record)
        return [fates[task.key.id] for task in tasks]

    async def _won(self, tasks: Sequence[Task], age: Aged, fates: dict[bytes, Fate]) -> list[Attempt]:
        """Claim tasks together; what is not won has its fate."""
        if self.stopping():
            fates.update((task.key.id, "open") for task in tasks)
            return []
        bids = self._bids(tasks, [age(task) for task in tasks])
        answers = await arun(claim_raced(bids, self._rivals), self._ports)
        won = []
        for task, one, answer in zip(tasks, bids, answers, strict=True):
            if answer.state == "won":
                won.append(Attempt(one, answer, task))
                self.tally.won(task.key.id, task.record.source)
            else:
                fates[task.key.id] = self._not_won(task, answer)
        self._heart.add(*[attempt.pulse for attempt in won if attempt.pulse])
        return won

    def _bids(self, tasks: Sequence[Task], ages: Sequence[float]) -> list[Bid]:
        prepares = self._prepare is not None
        return [
            bid(task, token, self.terms, self._effect, self._window, age, prepares)
            for task, token, age in zip(tasks, current().tokens(len(tasks)), ages, strict=True)
        ]

    def _not_won(self, task: Task, answer: Answer) -> Fate:
        source = task.record.source
        match answer.state:
            case "done":
                self.tally.done_before(task.key.id, task.record, answer.entry.source if answer.entry else "")
                return "done"
            case "parked":
                self.tally.add("parked", source)
                return "parked"
            case _:
                self.tally.add("busy", source)
                self._runners_up.note(task, answer.entry)
                return "kept" if is_kept(answer.entry) else "open"

    async def _begun(self, tasks: Sequence[Task], age: Aged, fates: dict[bytes, Fate]) -> None:
        """Claim one-shot effects as there is room for them: the claim says *begun*, so each starts then."""
        waiting, held = deque(tasks), list[Attempt]()
        trouble: OnefoldError | None = None
        crew = Crew()
        async with self._ends(crew, held, fates) as ends, crew:
            while waiting and trouble is None:
                # One claims at a time: room that is left meanwhile is then claimed for together.
                async with self._turn:
                    taken = await self._in_turn(waiting)
                    try:
                        started = await self._started(taken, age, held, fates)
                    except OnefoldError as error:  # what has started is let come to its end
                        trouble, started = error, []
                crew.share(started, lambda one: self._acted([one], ends))
        if trouble is not None:
            raise trouble

    async def _started(
        self, tasks: Sequence[Task], age: Aged, held: list[Attempt], fates: dict[bytes, Fate]
    ) -> list[Attempt]:
        """Claim what there is room for; what is not won leaves its room to others."""
        left = len(tasks)
        try:
            won = await self._won(tasks, age, fates)
            held += won
            await self._ready(won, fates)
            left -= len(won)
            return won
        finally:
            for _ in range(left):
                self._room.release()

    async def _act(self, won: Sequence[Attempt], fates: dict[bytes, Fate]) -> None:
        """Let effects that were claimed together have their turns."""
        waiting = deque(won[at : at + self._batch] for at in range(0, len(won), self._batch))
        crew = Crew()
        async with self._ends(crew, won, fates) as ends, crew:
            while waiting:
                chunks = await self._in_turn(waiting)
                if self._prepare:  # preparing may wait, and must not hold up its neighbours
                    crew.start(self._prepared(chunks[0], ends, fates))
                    continue
                await self._set_out(chunks, fates)
                crew.share(chunks, lambda chunk: self._acted(chunk, ends))

    @asynccontextmanager
    async def _ends(
        self, crew: Crew, held: Sequence[Attempt], fates: dict[bytes, Fate]
    ) -> AsyncIterator[Ends]:
        """Say how effects end; if cancelled, what ended is said, and what had no turn is given back."""
        ends = Ends(crew, lambda chunk, results: self._ended(chunk, results, fates))
        try:
            yield ends
        finally:
            with anyio.move_on_after(LAST_WORDS, shield=True):
                await ends.say()
                left = [attempt for attempt in held if not attempt.finished]
                if left:
                    await self._give_back(left, fates)

    async def _in_turn(self, waiting: deque[T]) -> list[T]:
        """Wait for room for one, and take as many as there is room for: they begin together."""
        await self._room.acquire()
        taken = [waiting.popleft()]
        while waiting and not self._prepare:
            try:
                self._room.acquire_nowait()
            except anyio.WouldBlock:
                break
            taken.append(waiting.popleft())
        return taken

    async def _prepared(self, chunk: Sequence[Attempt], ends: Ends, fates: dict[bytes, Fate]) -> None:
        await self._set_out([chunk], fates)
        await self._acted(chunk, ends)

    async def _set_out(self, chunks: Sequence[Sequence[Attempt]], fates: dict[bytes, Fate]) -> None:
        """Make chunks ready; where that fails, what they took up is room for others again."""
        try:
            await self._ready([one for chunk in chunks for one in chunk], fates)
        except BaseException:
            for _ in chunks:
                self._room.release()
            raise

    async def _acted(self, chunk: Sequence[Attempt], ends: Ends) -> None:
        try:
            ready = [one for one in chunk if not one.finished]
            results = await self._put(ready) if ready else []
        finally:
            self._room.release()
        ends.add(ready, results)

    async def _ready(self, chunk: Sequence[Attempt], fates: dict[bytes, Fate]) -> None:
        """Make sure that each effect may start now; what may not is finished here, and left to others."""
        if self.stopping():
            await self._give_back(chunk, fates)
            return
        try:
            if self._prepare:
                await self._begin(chunk, fates)
            else:
                await self._in_time(chunk, fates)
        except OnefoldError as error:
            log.warning("%s: the store did not let an effect begin: %s", self.name, error)
            self._leave([one for one in chunk if not one.finished], fates)

    async def _begin(self, chunk: Sequence[Attempt], fates: dict[bytes, Fate]) -> None:
        """Write *begun* with the prepared requests; an effect starts only if that is certain."""
        bodies: list[str | None] = []
        ready: list[Attempt] = []
        for one in chunk:
            prepared = one.request is None
            if not prepared or await self._request(one, fates):
                ready.append(one)
                bodies.append(written(one.task) if prepared else None)
        answers = await arun(begin_many([one.hold for one in ready], bodies), self._ports)
        await self._heard(ready, answers, fates)

    async def _request(self, attempt: Attempt, fates: dict[bytes, Fate]) -> bool:
        assert self._prepare is not None, "only a sink that prepares comes here"
        try:
            attempt.request = await self._prepare(attempt, attempt.record)
        except Exception as error:  # nothing was sent: preparing is safe to repeat
            refused = error if isinstance(error, Refused) else Refused(described(error))
            await self._ended([attempt], [refused], fates)
            return False
        return True

    async def _in_time(self, chunk: Sequence[Attempt], fates: dict[bytes, Fate]) -> None:
        """Renew what waited so long that its lease would not cover the start."""
        now = await self._ports.clock.monotonic()
        late = [one for one in chunk if now >= stop_by(one.hold.since, self.terms)]
        if late:
            await self._heard(late, await arun(renew([one.hold for one in late]), self._ports), fates)

    async def _heard(
        self, chunk: Sequence[Attempt], answers: Sequence[Answer], fates: dict[bytes, Fate]
    ) -> None:
        now = await self._ports.clock.monotonic()
        for one, answer in zip(chunk, answers, strict=True):
            if one.pulse:
                one.pulse.hear(answer, now)
            if answer.state != "won":
                self._leave([one], fates)

    def _leave(self, chunk: Sequence[Attempt], fates: dict[bytes, Fate]) -> None:
        """Let claims be that can no longer be relied upon; their entries keep the records."""
        for attempt in chunk:
            attempt.finished = True
            self.tally.add("lost", attempt.record.source)
            fates[attempt.key.id] = "kept" if is_kept(attempt.entry) else "open"
        self._heart.drop(*[attempt.pulse for attempt in chunk if attempt.pulse])

    async def _put(self, chunk: Sequence[Attempt]) -> Sequence[Any | BaseException]:
        """Let the sink act; what it raises as a whole is the answer to each."""
        with Calls() as calls:
            return await self._put_under(chunk, calls)

    async def _put_under(self, chunk: Sequence[Attempt], calls: Calls) -> Sequence[Any | BaseException]:
        pulse = chunk[0].pulse if len(chunk) == 1 else None
        limit: asyncio.Timeout | None = None
        try:
            acting = Eager(self.sink.put([(one, one.record) for one in chunk]))
            if acting.ended:  # it waited for nothing, and needs no limit, which costs a timer
                return _one_each(self.sink, acting.result(), len(chunk))
            async with asyncio.timeout(self._timeout) as limit:  # half of what a scope of anyio costs
                if pulse is not None:
                    pulse.tell = partial(_cut_off, limit)
                    if pulse.lost:  # the lease ended during the first step
                        _cut_off(limit)
                return _one_each(self.sink, await acting, len(chunk))
        except asyncio.CancelledError as error:
            await self._cut_short(chunk, error, calls)
            raise
        except Exception as error:
            return [self._told(chunk, error, limit)] * len(chunk)
        finally:
            if pulse is not None:
                pulse.tell = None

    async def _cut_short(self, chunk: Sequence[Attempt], error: asyncio.CancelledError, calls: Calls) -> None:
        """Write the end of effects that were cancelled, unless a thread still works at them.

        A thread cannot be cancelled. So its claim stays held, as that of a worker that was killed; a one-shot
        effect is in doubt either way.
        """
        if calls.running and self._effect != "one-shot":
            log.warning("%s: %d effects still run in a thread: their claims run out", self.name, len(chunk))
            self._leave(chunk, {})
            return
        with anyio.move_on_after(LAST_WORDS, shield=True):
            await self._ended(chunk, [error] * len(chunk), {})

    def _told(self, chunk: Sequence[Attempt], error: Exception, limit: asyncio.Timeout | None) -> Exception:
        """Say what an error means: what was cut off by us is told from what the sink raised itself."""
        if limit is None or not limit.expired():
            return error
        if len(chunk) == 1 and chunk[0].lost:
            return LostClaim(chunk[0].key)
        return TimedOut(f"it took longer than {self._timeout:.0f} s")

    async def _ended(
        self, chunk: Sequence[Attempt], results: Sequence[Any | BaseException], fates: dict[bytes, Fate]
    ) -> None:
        """Write how attempts ended."""
        endings = [self._ending(one, result) for one, result in zip(chunk, results, strict=True)]
        holds = [(one.hold, how, self.terms) for one, how in zip(chunk, endings, strict=True)]
        try:
            answers = await arun(end(holds), self._ports)
        except OnefoldError as error:
            log.warning("%s: the store did not take the end of %d effects: %s", self.name, len(holds), error)
            answers = [Answer("unknown")] * len(holds)
        finally:
            self._drop(chunk)
        for one, how, answer in zip(chunk, endings, answers, strict=True):
            fates[one.key.id] = self._fate(one, how, answer)
        if self._rivals:
            await self._let_others_try(chunk, answers)

    async def _let_others_try(self, chunk: Sequence[Attempt], answers: Sequence[Answer]) -> None:
        """Give a key that failed to the source that came second with it; recovery then acts on it."""
        second = [self._runners_up.take(one.key.id) for one in chunk]
        found = [(task, answer.entry) for task, answer in zip(second, answers, strict=True) if task]
        bids = self._bids([task for task, _ in found], [0.0] * len(found))
        try:
            await arun(overtake(bids, [entry for _, entry in found], self._rivals), self._ports)
        except OnefoldError as error:  # then the first one's record waits its time, and is tried again
            log.warning("%s: %d records could not overtake others: %s", self.name, len(bids), error)

    def _ending(self, attempt: Attempt, result: Any | BaseException) -> Ending:
        if what := unfinished(result):  # a function that did not run must not count as done
            result = Unfinished(
                attempt.key, f"the sink returned {what}", "do the work in the sink's function"
            )
        if not isinstance(result, BaseException):
            return Ending("returned", kept(attempt.key, result))
        how = self._way.ending(result)
        error = described(result)
        level = logging.INFO if isinstance(result, Later) else logging.WARNING
        names = {"pipeline": self.name, "source": attempt.record.source, "key": str(attempt.key)}
        log.log(level, "%s: %s did not end well: %s", self.name, attempt.key, error, extra=names)
        later = isinstance(result, Later)
        note = result.note if isinstance(result, Later) else None
        return how._replace(body=written(attempt.task._replace(error=error, note=note, later=later)))

    def _fate(self, attempt: Attempt, how: Ending, answer: Answer) -> Fate:
        source = attempt.record.source
        if answer.state == "unknown":
            self.tally.add("unsettled", source)
            return "kept" if is_kept(attempt.entry) else "open"
        if answer.state == "lost" or answer.entry is None:
            self.tally.add("lost", source)
            return "kept"
        entry = answer.entry
        match entry.state:
            case "done":
                self.tally.add("done", source)
                return "done"
            case "parked":
                self.tally.add("in-doubt" if entry.why == "in-doubt" else "failed", source)
                return "parked"
            case _:
                self.tally.add("released" if how.at_once else "refused", source)
                return "kept" if is_kept(entry) else "open"

    async def _give_back(self, chunk: Sequence[Attempt], fates: dict[bytes, Fate]) -> None:
        holds = [(one.hold, Ending("refused", at_once=True), self.terms) for one in chunk]
        try:
            await arun(end(holds), self._ports)
        except OnefoldError as error:
            log.warning("%s: %d claims could not be given back: %s", self.name, len(holds), error)
        self._drop(chunk)
        for one in chunk:
            self.tally.add("released", one.record.source)
            fates[one.key.id] = "kept" if is_kept(one.entry) else "open"

    def _drop(self, chunk: Sequence[Attempt]) -> None:
        for one in chunk:
            one.finished = True
        self._heart.drop(*[one.pulse for one in chunk if one.pulse])


def _one_each(sink: Sink, results: Sequence[Any], number: int) -> Sequence[Any]:
    if len(results) != number:
        raise TypeError(
            f"{type(sink).__name__}.put answered {len(results)} of {number} items: give one answer for each"
        )
    return results


def _cut_off(limit: asyncio.Timeout) -> None:
    """End what runs under a limit now; what is being cut off already is left to its last words."""
    if not limit.expired():
        limit.reschedule(0.0)
