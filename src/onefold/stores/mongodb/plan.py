"""What the MongoDB store asks of its client: one command for one change; for a batch a write and a look.

A write of many does not tell what is stored, so a look follows it. What was written by then is acknowledged,
and the look sees it. Nothing is decided here.
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
        try:
            if len(changes) == 1 and changes[0].entry is not None:
                return [await self._swap_one(changes[0])]
            await _write(documents.write_many(changes, self._now()))
            return await self._look_again([change.key for change in changes])
        except Unanswered:
            return [UNKNOWN] * len(changes)

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


async def _write(commands: Sequence[Command]) -> None:
    """Send writes one after another. Once one was sent, nobody may say that nothing was written."""
    for at, command in enumerate(commands):
        try:
            await on_client("execute", command)
        except Unreachable as error:
            if at:
                raise Unanswered(str(error)) from error
            raise
