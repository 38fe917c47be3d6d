"""What the Redis store asks of a connection: one script call for many keys, and what it makes of the replies.

A script compares, writes and indexes in one step, by the server's clock; `redis_layout.lua` shows the keys.
Done entries are in no index, and are walked over with SCAN. Nothing is decided here.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

import msgspec
from msgspec.structs import astuple

from onefold.core.entry import NOTHING, OPEN, STATES, UNKNOWN, Change, Entry, Reply, Seen, State, stamped
from onefold.core.errors import Unanswered
from onefold.core.flow import Found
from onefold.core.key import Key
from onefold.stores.lua import Script, scripts
from onefold.stores.shells import on_client

T = TypeVar("T")

CHUNK = 50
"""Keys in one call of a script: few enough that the server soon has time for others."""

PAGE = 200
"""Entries that one call of a script lists, and keys that one step of a walk looks at."""

Fields = Sequence[Any]
"""An entry as a script sends it: text for each field, False for one that is not there."""


Place = list[Any]
"""Where a page ended: [state, scope, score, ID] in an index; ["done", cursor, IDs without room] in a walk."""


class Command(NamedTuple):
    """A command, and how to say it in full to a server that does not know the script it names."""

    words: tuple[str | bytes | int, ...]
    in_full: tuple[str | bytes | int, ...] = ()


class RedisPlan:
    """The three methods of a store, as flows over `execute_many`."""

    def __init__(self, prefix: str, known: Mapping[str, Script] | None = None) -> None:
        self.ledger = f"{{{prefix}}}"
        self._pattern = re.sub(r"([*?\[\]\\^-])", r"\\\1", self.ledger) + ":entry:*"
        self._scripts = known or scripts("redis")

    async def get(self, keys: Sequence[Key]) -> Sequence[Seen]:
        asked = [[key.id.hex() for key in some] for some in _chunks(keys)]
        replies = await self._ask("get", asked)
        return [_seen(fields, now) for now, found in replies for fields in found]

    async def swap(self, changes: Sequence[Change]) -> Sequence[Reply]:
        asked = [[_packed(change) for change in some] for some in _chunks(changes)]
        try:
            replies = await self._ask("swap", asked)
        except Unanswered:
            return [UNKNOWN] * len(changes)
        answers = [(answer, now) for now, answers in replies for answer in answers]
        return [_reply(change, *answer) for change, answer in zip(changes, answers, strict=True)]

    async def scan(
        self, scope: str | None, states: Sequence[State], due: bool, after: str | None, limit: int
    ) -> tuple[Sequence[Found], str | None]:
        # By id, because what changes between two steps may be shown by both.
        found: dict[str, Found] = {}
        place = json.loads(after) if after else None
        if place is None or place[0] != "done":
            place = await self._list(scope, states, due, place, limit, found)
        if place is None and "done" in states and not due:
            place = ["done", "0", []]
        if place is not None and place[0] == "done":
            place = await self._walk(scope, place, limit, found)
        return list(found.values()), json.dumps(place) if place else None

    async def _list(
        self,
        scope: str | None,
        states: Sequence[State],
        due: bool,
        place: Place | None,
        limit: int,
        found: dict[str, Found],
    ) -> Place | None:
        """Read open entries from the indexes until a page is full; return the place where it ends."""
        wanted = [state for state in STATES if state in states and state in OPEN]
        while wanted and len(found) < limit:
            rest = wanted[wanted.index(place[0]) :] if place else wanted
            room = min(limit - len(found), PAGE)
            [(now, rows, end)] = await self._ask("scan", [(rest, scope, due, room, place and place[1:])])
            found.update((id, _found(id, fields, now)) for id, fields in rows)
            if not end:
                return None
            place = end
        return place

    async def _walk(
        self, scope: str | None, place: Place, limit: int, found: dict[str, Found]
    ) -> Place | None:
        """Walk over everything until a page is full; what has no room in it is named in the place it ends."""
        _, cursor, left = place
        while len(found) < limit:
            step = (cursor, left or None, scope, self._pattern, PAGE)
            [(now, cursor, rows)] = await self._ask("walk", [step])
            new = [row for row in rows if row[0] not in found]
            room = limit - len(found)
            found.update((id, _found(id, fields, now)) for id, fields in new[:room])
            left = [id for id, _ in new[room:]]
            if cursor == "0" and not left:
                return None
        return ["done", cursor, left]

    async def _ask(self, name: str, asked: Sequence[Any]) -> list[Any]:
        """Call a script once for each thing asked, all in one round trip."""
        script = self._scripts[name]
        rest = [(1, self.ledger, msgspec.msgpack.encode(one)) for one in asked]
        calls = [Command(("EVALSHA", script.digest, *args), ("EVAL", script.text, *args)) for args in rest]
        replies = await on_client("execute_many", calls) if calls else []
        return [msgspec.msgpack.decode(reply) for reply in replies]


def _chunks(many: Sequence[T]) -> Iterator[Sequence[T]]:
    return (many[at : at + CHUNK] for at in range(0, len(many), CHUNK))


def _packed(change: Change) -> tuple[Any, ...]:
    key, entry = change.key, change.entry
    # The script reads an entry as an array of its fields; a struct would be packed as a map.
    fields = None if entry is None else astuple(entry)
    return key.id.hex(), key.scope, change.expected, fields, change.begin, change.delay, change.keep


def _reply(change: Change, answer: str | bool | Fields, now: float) -> Seen:
    """Read what came of a change: the version it was written with, or what is stored instead."""
    if isinstance(answer, str):
        return Seen(stamped(change, int(answer), now))
    return _seen(answer, now)


def _found(id: str, fields: Fields, now: float) -> Found:
    return Key.stored(fields[16], bytes.fromhex(id), fields[13]), _seen(fields, now)


def _seen(fields: bool | Fields, now: float) -> Seen:
    if isinstance(fields, bool):
        return NOTHING
    entry = Entry(
        fields[0],
        _text(fields[1]),
        fields[2],
        int(fields[3]),
        int(fields[4]),
        fields[5],
        _time(fields[6]),
        float(fields[7]),
        float(fields[8]),
        int(fields[9]),
        _time(fields[10]),
        _time(fields[11]),
        _text(fields[12]),
        fields[13],
        fields[14],
        _text(fields[15]),
    )
    return Seen(entry, max(now - entry.written, 0.0))


def _text(field: Any) -> Any:
    return None if field is False else field


def _time(field: Any) -> float | None:
    return None if field is False else float(field)
