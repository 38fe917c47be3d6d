"""What the MongoDB store asks of its client: one command for one change; up to three round trips for a batch.

A batch reads the server's clock, writes plain documents with that time, and looks only at what it may have
lost (decision 15). What it won is known from the write's reply. Nothing is decided here.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

from onefold.core.entry import OPEN, STATES, UNKNOWN, Change, Reply, Seen, State
from onefold.core.errors import Unanswered, Unreachable
from onefold.core.flow import Found
from onefold.core.key import Key
from onefold.stores.mongodb import documents
from onefold.stores.mongodb.documents import NOW, Command, Taken
from onefold.stores.mongodb.schema import read_clock
from onefold.stores.shells import on_client


class MongoPlan:
    """The three methods of a store, as flows over `execute`. `now` is the clock, as the server reads it."""

    def __init__(self, now: Callable[[], Any] = lambda: NOW) -> None:
        self._now = now

    async def get(self, keys: Sequence[Key]) -> Sequence[Seen]:
        stored = await on_client("execute", documents.look(keys, self._now())) if keys else []
        by_id = {bytes(document["_id"]): document for document in stored}
        return [documents.seen(by_id.get(key.id)) for key in keys]

    async def swap(self, changes: Sequence[Change]) -> Sequence[Reply]:
        if len(changes) != 1 or changes[0].entry is None:
            return await self._swap_many(changes)
        try:
            return [await self._swap_one(changes[0])]
        except Unanswered:
            return [UNKNOWN]

    async def _swap_many(self, changes: Sequence[Change]) -> list[Reply]:
        """Try changes and fill in what is learnt of each; at a break, the rest stays unknown."""
        replies: list[Reply] = [UNKNOWN] * len(changes)
        lost: list[int] = []
        written = False
        try:
            removals_only = all(change.entry is None for change in changes)
            clock = 0.0 if removals_only else await read_clock(self._now())
            for write in documents.write_many(changes, clock, self._now()):
                told = await on_client("execute", write.command)
                written = True
                for place, seen in zip(write.places, write.written, strict=True):
                    replies[place] = seen
                for place in write.lost(told):
                    replies[place] = UNKNOWN
                    lost.append(place)
            found = await self.get([changes[place].key for place in lost])
        except Unreachable as error:
            # Where only the clock was asked for, nothing was written. Yet a break of the connection is
            # answered with "unknown" here too: the caller then asks again, as it does for a single change.
            if not written and not isinstance(error, Unanswered):
                raise
            return replies
        for place, seen in zip(lost, found, strict=True):
            replies[place] = seen
        return replies

    async def _swap_one(self, change: Change) -> Seen:
        try:
            told = await on_client("execute", documents.write_one(change, self._now()))
        except Taken:
            [stored] = await self._look_again([change.key])
            return stored
        return documents.seen(told["value"])

    async def _look_again(self, keys: Sequence[Key]) -> Sequence[Seen]:
        """Look at what was just written; where that fails, the writing has been all the same."""
        try:
            return await self.get(keys)
        except Unreachable as error:
            raise Unanswered(str(error)) from error

    async def scan(
        self, scope: str | None, states: Sequence[State], due: bool, after: str | None, limit: int
    ) -> tuple[Sequence[Found], str | None]:
        rows: list[Found] = []
        wanted = [state for state in STATES if state in states and (state in OPEN or not due)]
        start: list[Any] | None = json.loads(after) if after else None
        for state in wanted[wanted.index(start[0]) if start else 0 :]:
            place = start[1:] if start and state == start[0] else None
            page = self._page(state, scope, due, place, limit - len(rows))
            found = await on_client("execute", page)
            rows += [documents.found(document) for document in found]
            if len(rows) == limit:
                last = found[-1]
                return rows, json.dumps([state, last["scope"], last.get("due"), bytes(last["_id"]).hex()])
        return rows, None

    def _page(
        self, state: State, scope: str | None, due: bool, place: list[Any] | None, limit: int
    ) -> Command:
        if state not in OPEN:
            after = bytes.fromhex(place[2]) if place else b""
            return documents.walk_done(scope, after, limit, self._now())
        behind = (place[0], place[1], bytes.fromhex(place[2])) if place else None
        return documents.list_open(state, scope, due, behind, limit, self._now())
