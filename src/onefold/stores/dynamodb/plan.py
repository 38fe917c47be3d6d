"""What the DynamoDB store asks of its client: one conditional write per change, all of them at once.

DynamoDB has no clock that a condition could read: the worker's own sets versions and times, and every reply
says how far such clocks may be apart. The index of open entries lags behind the table, so what it lists is
read again before it is shown. Nothing is decided here.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from onefold.core.entry import NOTHING, OPEN, UNKNOWN, Change, Entry, Reply, Seen, State, stamped
from onefold.core.errors import Misconfigured, OnefoldError, Unanswered, Unreachable
from onefold.core.flow import Found
from onefold.core.key import Key
from onefold.stores.dynamodb import items, requests
from onefold.stores.dynamodb.items import SHARDS, Item
from onefold.stores.dynamodb.requests import BATCH, DONE, Outcome, Position, Refusal
from onefold.stores.shells import on_client

TRIES = 5
"""How often a look is repeated that was answered in part only."""

PAUSE = 0.05
"""Seconds before the first repetition; doubled each time."""


class DynamoPlan:
    """The three methods of a store, as flows over `execute_many`."""

    def __init__(self, table: str, max_skew: float) -> None:
        self._table = table
        self._max_skew = max_skew

    async def get(self, keys: Sequence[Key]) -> Sequence[Seen]:
        now = await on_client("now")
        found = await self._look([key.id for key in keys])
        return [self._seen(found.get(key.id), now) for key in keys]

    # ----- writing

    async def swap(self, changes: Sequence[Change]) -> Sequence[Reply]:
        now = await on_client("now")
        wanted = [_wanted(change, now) for change in changes]
        outcomes: Sequence[Outcome] = await on_client(
            "execute_many",
            [
                requests.write(self._table, change, entry, now)
                for change, entry in zip(changes, wanted, strict=True)
            ],
        )
        _raise_if_in_vain(outcomes)
        replies = [self._reply(entry, told, now) for entry, told in zip(wanted, outcomes, strict=True)]
        unseen = [at for at, reply in enumerate(replies) if reply is None]
        if unseen:
            told = await self._second_look([changes[at].key for at in unseen])
            for at, reply in zip(unseen, told, strict=True):
                replies[at] = reply
        return [UNKNOWN if reply is None else reply for reply in replies]

    def _reply(self, wanted: Entry | None, outcome: Outcome, now: float) -> Reply | None:
        """Say what is stored after a write; None if the server did not tell."""
        if isinstance(outcome, OnefoldError):
            return UNKNOWN
        if isinstance(outcome, Refusal):
            return self._seen(outcome.item, now) if outcome.item else None
        return NOTHING if wanted is None else Seen(wanted, 0.0, self._max_skew)

    async def _second_look(self, keys: Sequence[Key]) -> Sequence[Reply]:
        """Look at what was refused without a reason: because it is absent, or by a server that tells none."""
        try:
            return await self.get(keys)
        except Unreachable:
            return [UNKNOWN] * len(keys)

    # ----- reading

    async def _look(self, ids: Sequence[bytes]) -> dict[bytes, Item]:
        """Read items as they are now; what was left unread, for lack of capacity, is asked for again."""
        found: dict[bytes, Item] = {}
        left = list(dict.fromkeys(ids))
        for turn in range(TRIES):
            if turn:
                await on_client("pause", PAUSE * 2**turn)
            outcomes: Sequence[Outcome] = await on_client(
                "execute_many",
                [requests.look(self._table, left[at : at + BATCH]) for at in range(0, len(left), BATCH)],
            )
            left = []
            for outcome in outcomes:
                reply = _answered(outcome, "Responses")
                found.update((items.id_of(item), item) for item in reply["Responses"].get(self._table, ()))
                unread = reply.get("UnprocessedKeys", {}).get(self._table, {})
                left += [items.id_of(key) for key in unread.get("Keys", ())]
            if not left:
                return found
        raise Unreachable(
            f"the dynamodb table {self._table} is throttled: {len(left)} items were not read; "
            "give it more capacity, or on-demand billing"
        )

    def _seen(self, item: Item | None, now: float) -> Seen:
        if item is None:
            return NOTHING
        entry = items.entry(item)
        return Seen(entry, max(now - entry.written, 0.0), self._max_skew)

    # ----- scanning

    async def scan(
        self, scope: str | None, states: Sequence[State], due: bool, after: str | None, limit: int
    ) -> tuple[Sequence[Found], str | None]:
        now = await on_client("now")
        places = _places(states, due)
        start = Position(*json.loads(after)) if after else None
        rows: list[Item] = []
        at = places.index(start.place) if start else 0
        rest: Position | None = None
        while at < len(places) and rest is None:
            # No more places at once than entries are wanted: each of them may fill the page alone.
            asked = [Position(place) for place in places[at : at + limit - len(rows)]]
            if start:
                asked[0], start = start, None
            outcomes = await on_client(
                "execute_many",
                [requests.page(self._table, each, scope, now if due else None, limit) for each in asked],
            )
            rest = _fill(rows, asked, outcomes, limit)
            at += len(asked)
            if len(rows) == limit and rest is None and at < len(places):
                rest = Position(places[at])
        return await self._found(rows, now), rest.text() if rest else None

    async def _found(self, rows: Sequence[Item], now: float) -> list[Found]:
        """Read again what the index listed; whole items, from a walk, are as they are now."""
        listed = [items.id_of(row) for row in rows if "version" not in row]
        stored = await self._look(listed) if listed else {}
        current = [row if "version" in row else stored.get(items.id_of(row), {}) for row in rows]
        return [
            (items.key(item), self._seen(item, now))
            for row, item in zip(rows, current, strict=True)
            if item and _same_place(row, item)
        ]


def _wanted(change: Change, now: float) -> Entry | None:
    """Return the entry that a change writes, by the worker's clock; None if it removes."""
    if change.entry is None:
        return None
    return stamped(change, int(now * 1_000_000) if change.expected is None else change.expected + 1, now)


def _raise_if_in_vain(outcomes: Sequence[Outcome]) -> None:
    """Raise what no repetition mends, and what kept every change from being made."""
    errors = [outcome for outcome in outcomes if isinstance(outcome, OnefoldError)]
    for error in errors:
        if isinstance(error, Misconfigured):
            raise error
    if errors and len(errors) == len(outcomes) and not any(isinstance(error, Unanswered) for error in errors):
        raise errors[0]


def _answered(outcome: Outcome, part: str) -> dict[str, Any]:
    """Return a reply to a reading that has what was asked for; what is missing must not pass for absent."""
    if isinstance(outcome, OnefoldError):
        raise outcome
    if not isinstance(outcome, dict) or part not in outcome:
        raise Unanswered(f"dynamodb was asked and gave an answer that cannot be read: it lacks {part}")
    return outcome


def _places(states: Sequence[State], due: bool) -> list[str]:
    """Name where entries in these states are found: parts of the index, and last the walk for done ones."""
    listed = [items.place(state, n) for state in OPEN if state in states for n in range(SHARDS)]
    return [*listed, DONE] if "done" in states and not due else listed


def _fill(
    rows: list[Item], asked: Sequence[Position], outcomes: Sequence[Outcome], limit: int
) -> Position | None:
    """Add what was listed, up to the limit; return where to go on if a place is not yet at its end."""
    for at, outcome in zip(asked, outcomes, strict=True):
        reply = _answered(outcome, "Items")
        listed, room = reply["Items"], limit - len(rows)
        rows += listed[:room]
        if len(listed) > room:
            return Position.after(at.place, listed[room - 1]) if room else at
        if "LastEvaluatedKey" in reply:
            return Position.after(at.place, reply["LastEvaluatedKey"])
    return None


def _same_place(row: Item, item: Item) -> bool:
    """Say whether an item still stands where the index lists it; if not, it will be listed elsewhere."""
    if row is item:
        return True
    return row["open"] == item.get("open") and float(row["due"]["N"]) == float(item["due"]["N"])
