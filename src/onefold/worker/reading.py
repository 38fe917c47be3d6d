"""Reads one source of a pipeline for ever: pages in, tasks to the delivery, the cursor behind them.

A source that fails is asked again after a pause, and disturbs nobody else. A bounded number of pages is under
way at a time, so that a slow sink slows its source. What a record's fate means for the cursor is decided in
`progress`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import anyio

from onefold.core.backoff import Backoff, failures_now, pause
from onefold.core.cursor import Cursor
from onefold.core.documents import load, named, save
from onefold.core.errors import OnefoldError, Unreachable
from onefold.core.flow import Flow
from onefold.core.key import Key
from onefold.core.paging import highest
from onefold.core.ports import Source
from onefold.core.reasons import described
from onefold.core.record import At, Fate, Gap, Mark, Page, Record, Standing
from onefold.drive import AsyncPorts, arun
from onefold.runtime import current
from onefold.worker.acting import Acting, Fresh
from onefold.worker.progress import (
    Recent,
    Ticket,
    Track,
    cursor_key,
    furthest,
    moved,
    position,
    read_before,
)

log = logging.getLogger("onefold.worker")

T = TypeVar("T")

AHEAD = 4
"""How many pages of a source are under way at a time, unless it says otherwise (`ahead`)."""

PAGE = 200
"""How many records are handed on together; a larger page is cut."""

TRIES = 3
"""How often a source that fails is asked by a worker that reads everything once."""

STORE_PATIENCE = 30.0
"""Seconds after which a reader gives up asking the store."""

SAVE_EVERY = 0.5
"""Seconds between two writes of a cursor that moves."""


class Reader:
    """One source of one pipeline."""

    def __init__(
        self,
        acting: Acting,
        name: str,
        ports: AsyncPorts,
        owner: str,
        stopping: Callable[[], bool],
        once: bool = False,
    ) -> None:
        self.pipeline = acting.pipeline
        self.name = name
        self.source: Source = acting.pipeline.sources[name]
        self.tally = acting.tally
        self.caught_up = False
        self._was_read = False
        self._more = False
        self._acting = acting
        self._ports = ports
        self._owner = owner
        self._stopping = stopping
        self._once = once
        self._since = current().time()
        self._recent = Recent()
        self._track = Track(Cursor(), self._recent)
        self._generation = 0
        self._saved: tuple[Any, ...] = ()
        self._saved_at = 0.0
        self._backoff: Backoff = getattr(self.source, "backoff", Backoff())
        self._failures = 0
        self._well_since: float | None = None
        self._trouble: Exception | None = None
        self._read_before: At | None = None
        self._highest: At | None = None
        self._timed = bool(getattr(self.source, "timed", False))

    # ----- the life of a reader

    async def run(self, reading: anyio.CancelScope) -> None:
        """Read until told to stop, or until a finite source ends; then wait for what is under way."""
        async with anyio.create_task_group() as group:
            ahead = int(getattr(self.source, "ahead", AHEAD))
            room = anyio.Semaphore(ahead)
            with reading:
                await self._rounds(group, room)
            for _ in range(ahead):
                await room.acquire()
        if self._trouble:
            self._tell_trouble(self._trouble)
        await self._save("stopped" if self._stopping() else "ended", last=True)

    def _tell_trouble(self, error: Exception) -> None:
        """Say what went wrong with the last page: there is no further round that would."""
        self.tally.errors[self.name] = described(error)
        log.error(
            "%s: source %s ended before all it showed was accounted for: %s",
            *(self.pipeline.name, self.name, error),
            extra={"pipeline": self.pipeline.name, "source": self.name},
        )

    async def _rounds(self, group: anyio.abc.TaskGroup, room: anyio.Semaphore) -> None:
        while not self._stopping():
            try:
                await self._load()
                await self._round(group, room)
            except (
                Exception
            ) as error:  # whatever a source raises is its own trouble: it is said, and tried again
                wait = await self._failed(error)
                if self._once and self._failures >= TRIES:
                    return
                await current().sleep(wait)
                continue
            # A round may end before the present; then the next one goes on from the cursor.
            if getattr(self.source, "finite", False) or (self._once and not self._more):
                return

    async def _round(self, group: anyio.abc.TaskGroup, room: anyio.Semaphore) -> None:
        read_to = highest(self._highest, self._track.cursor.at, self._read_before)
        if read_to is not None:
            self.tally.read_to[self.name] = read_to
        pages = self.source.read(self._track.cursor)
        self._more = False
        try:
            async for page in pages:
                self._more = page.more
                await self._take(page, group, room)
                await self._goes_well()
                self._caught_up(not page.more)
                if self._trouble:
                    raise self._trouble
                if self._once and self.caught_up:
                    break
        finally:
            close = getattr(pages, "aclose", None)
            if close:
                with anyio.move_on_after(5, shield=True):
                    await close()
        self._was_read = True
        if not self._more:
            self._track.turn()
        await self._save("ok")

    async def _goes_well(self) -> None:
        self._was_read = True
        self.tally.errors.pop(self.name, None)
        if self._well_since is None:
            self._well_since = await self._ports.clock.monotonic()
            self.tally.connected[self.name] = current().time()

    def _caught_up(self, so_it_is: bool) -> None:
        self.caught_up = so_it_is
        if so_it_is:
            self._since = current().time()

    async def _failed(self, error: Exception) -> float:
        now, since = await self._ports.clock.monotonic(), self._well_since
        self._failures = failures_now(self._backoff, self._failures, None if since is None else now - since)
        self._well_since = self._trouble = None
        self.caught_up = False
        self.tally.errors[self.name] = described(error)
        self.tally.connected.pop(self.name, None)
        wait = pause(self._backoff, self._failures, current().random())
        log.warning(
            "%s: source %s failed, reading again in %.1f s: %s",
            *(self.pipeline.name, self.name, wait, error),
            extra={"pipeline": self.pipeline.name, "source": self.name},
        )
        await self._save("failing", last=True)
        return wait

    # ----- pages

    async def _take(self, page: Page, group: anyio.abc.TaskGroup, room: anyio.Semaphore) -> None:
        if page.gap:
            await self._note_gap(page.gap)
        if page.broken:
            await self._acting.set_aside(self.name, page.broken)
        for at in range(0, len(page.records), PAGE):
            await room.acquire()
            records = [record._replace(source=self.name) for record in page.records[at : at + PAGE]]
            ticket, fresh = self._enter(records, page.mark, await self._ports.clock.monotonic())
            group.start_soon(self._deliver, ticket, fresh, records, room)
        if page.mark and not page.records:
            self._track.end(self._track.enter((), page.mark))
            await self._save("ok")

    def _enter(
        self, records: Sequence[Record], mark: Mark | None, now: float
    ) -> tuple[Ticket, list[tuple[Key, Record]]]:
        """Sort a page: what is fresh is delivered, what was seen in this run is only accounted for."""
        places: list[tuple[Any, bytes | None]] = []
        fresh: list[tuple[Key, Record]] = []
        self.tally.add("seen", self.name, len(records))
        for record in records:
            key = self._acting.key(record)
            if key is None:
                self.tally.add("filtered", self.name)
                places.append((record.at, None))
                continue
            places.append((record.at, key.id))
            if self._highest is None or record.at > self._highest:
                self._highest = record.at
            if self._recent.knows(key.id):
                self.tally.repeated(record)
                continue
            self.tally.sighted(key.id, self.name, now)
            self._recent.begin(key.id)
            fresh.append((key, record))
        return self._track.enter(places, mark), fresh

    async def _deliver(
        self, ticket: Ticket, fresh: Fresh, records: Sequence[Record], room: anyio.Semaphore
    ) -> None:
        try:
            fates = await self._acting.fates(fresh)
            for (key, _), fate in zip(fresh, fates, strict=True):
                self._recent.end(key.id, fate)
            await self._tell(records, ticket)
        except OnefoldError as error:  # the store is away: nothing is lost, the source shows it again
            for key, _ in fresh:
                self._recent.end(key.id, "open")
            self._trouble = error
        finally:
            self._track.end(ticket)
            room.release()
        await self._save("ok")

    async def _tell(self, records: Sequence[Record], ticket: Ticket) -> None:
        """Tell the source what became of its records, and how they stand, if it shows that to people."""
        shown = zip(records, (key for _, key in ticket.places), strict=True)
        # What an earlier page has under way is told by that page.
        told = [(record, key) for record, key in shown if key is None or not self._recent.is_under_way(key)]
        note = getattr(self.source, "note", None)
        try:
            await self.source.tell([(record, self._fate(key)) for record, key in told])
            if note:
                await note(await self._standing(records))
        except Exception as error:  # the source is away: it is told when it shows these records again
            self._trouble = error

    async def _standing(self, records: Sequence[Record]) -> list[Standing]:
        """Look how records stand. What this run has under way is left out: it will be told at its end."""
        keyed = [(key, record) for record in records if (key := self._acting.key(record)) is not None]
        passed = [Standing(record, "done") for record in records if self._acting.key(record) is None]
        ended = [(key, record) for key, record in keyed if self._recent.fate(key.id) != "open"]
        standing = await self._acting.standing(ended)
        for (key, _), one in zip(ended, standing, strict=True):
            self._recent.end(key.id, one.fate)
        return [*passed, *standing]

    def _fate(self, key: bytes | None) -> Fate:
        return "done" if key is None else self._recent.fate(key)

    async def _note_gap(self, gap: Gap) -> None:
        """Write a gap down where people look; a stretch that could not be read is never passed in silence."""
        self.tally.add("gap", self.name)
        log.error(
            "%s: source %s has a gap from %s to %s: %s",
            *(self.pipeline.name, self.name, *gap[:2], gap.reason),
            extra={"pipeline": self.pipeline.name, "source": self.name},
        )
        key = named("gaps", self.pipeline.name, self.name, str(gap.until))
        text = {"pipeline": self.pipeline.name, "source": self.name, **gap._asdict()}
        await self._ask(save(key, current().token(), lambda stands: None if stands else text))

    # ----- the cursor

    async def _load(self) -> None:
        [text] = await self._ask(load([cursor_key(self.pipeline.name, self.name)]))
        cursor, generation = position(text and text.value)
        self._read_before = read_before(text and text.value)
        if generation != self._generation:
            self._track = Track(cursor, self._recent)
        else:
            self._track.cursor = furthest(cursor, self._track.cursor)
        self._generation = generation

    async def _ask(self, flow: Flow[T]) -> T:
        """Ask the store, to the end: a stop cuts off what is read, not what the store is being told."""
        with anyio.move_on_after(STORE_PATIENCE, shield=True):
            return await arun(flow, self._ports)
        raise Unreachable(f"the store did not answer within {STORE_PATIENCE:.0f} s")

    async def _save(self, status: str, last: bool = False) -> None:
        """Write the cursor and how the source does, if something changed; not at every page."""
        now, error = await self._ports.clock.monotonic(), self.tally.errors.get(self.name)
        state = (self._generation, self._track.cursor, status, error)
        if state == self._saved or (not last and now - self._saved_at < SAVE_EVERY):
            return
        text: dict[str, Any] = {"pipeline": self.pipeline.name, "source": self.name, "owner": self._owner}
        text |= {
            "timed": bool(getattr(self.source, "timed", False)),
            "status": status,
            "error": error,
            "lag": self.known_lag,
            "ran": current().time(),
        }
        cursor = self._track.cursor
        try:
            await self._ask(
                save(
                    cursor_key(self.pipeline.name, self.name),
                    current().token(),
                    lambda stands: moved(stands, cursor, self._generation, text),
                )
            )
        except (
            OnefoldError
        ) as trouble:  # the next page writes it again; a cursor that is behind loses nothing
            log.warning("%s: the cursor of %s was not written: %s", self.pipeline.name, self.name, trouble)
            return
        self._saved, self._saved_at = state, now

    @property
    def under_way(self) -> int:
        """How many records were read and are not accounted for yet."""
        return self._track.under_way

    @property
    def known_lag(self) -> float | None:
        """How far behind its source this reader is; None while it has read nothing that would tell."""
        return self.lag if self._was_read or (self._timed and self._track.cursor.at is not None) else None

    @property
    def lag(self) -> float:
        """How far behind its source this reader is, in seconds: nothing once it was read to its present."""
        if self.caught_up and not self.under_way:
            return 0.0
        at = self._track.cursor.at
        return max(current().time() - (at if self._timed and at is not None else self._since), 0.0)
