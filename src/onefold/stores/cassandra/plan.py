"""What the Cassandra store asks of its client: lightweight transactions first, then the hints that follow.

Cassandra has no clock that a condition could read: the worker's own sets versions and times, and every reply
says how far such clocks may be apart. A hint is written after its entry and before the reply. Its writer may
die in between, so whoever finds somebody else's open entry writes its hint again: nobody is told of an open
entry that no list would show. Nothing is decided here.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import NamedTuple

from onefold.core.entry import NOTHING, OPEN, UNKNOWN, Change, Entry, Reply, Seen, State, expired, stamped
from onefold.core.entry import due as due_at
from onefold.core.errors import Misconfigured, OnefoldError, Unanswered, Unreachable
from onefold.core.flow import Found
from onefold.core.key import Key
from onefold.stores.cassandra import rows
from onefold.stores.cassandra.errors import Full
from onefold.stores.cassandra.rows import PARTS, Outcome, Row, Statement
from onefold.stores.shells import on_client

CHUNK = 200
"""The most hints or rows that are looked at for one page."""

DONE = PARTS
"""The place behind all hints: done entries, found by a walk over everything."""

FIRST = -(2**63)
"""The token before all others."""


class Wanted(NamedTuple):
    """What a list shows."""

    scope: str | None
    states: Sequence[State]
    due: bool
    limit: int
    now: float

    def shows(self, key: Key, entry: Entry) -> bool:
        if entry.state not in self.states or self.scope not in (None, key.scope):
            return False
        at = due_at(entry)
        return not self.due or (at is not None and at <= self.now)


class Place(NamedTuple):
    """Where a list goes on: behind a hint in a part, or behind a token in the walk."""

    part: int
    after: str = ""

    @property
    def id(self) -> bytes:
        return bytes.fromhex(self.after)

    @property
    def token(self) -> int:
        return int(self.after or FIRST)


class CassandraPlan:
    """The three methods of a store, as flows over `execute_many`."""

    def __init__(self, max_skew: float) -> None:
        self._max_skew = max_skew

    async def get(self, keys: Sequence[Key]) -> Sequence[Seen]:
        now = await on_client("now")
        outcomes: Sequence[Outcome] = await on_client("execute_many", [rows.look(key.id) for key in keys])
        seen = [self._seen(_row(outcome), key.id, now) for key, outcome in zip(keys, outcomes, strict=True)]
        # Of the open ones only parked ones: who waits for a holder looks again and again.
        parked = [one if one.entry and one.entry.state == "parked" else NOTHING for one in seen]
        hints = _hints(keys, parked)
        hinted: Sequence[Outcome] = await on_client("execute_many", hints) if hints else ()
        for outcome in hinted:
            # Who may only read is told nevertheless.
            if isinstance(outcome, OnefoldError) and not isinstance(outcome, Misconfigured):
                raise outcome
        return seen

    def _seen(self, row: Row | None, id: bytes, now: float) -> Seen:
        found = rows.found(row, id)
        return Seen(found[1], max(now - found[1].written, 0.0), self._max_skew) if found else NOTHING

    # ----- writing

    async def swap(self, changes: Sequence[Change]) -> Sequence[Reply]:
        now = await on_client("now")
        wanted = [_wanted(change, now) for change in changes]
        asked = [
            rows.write(change, entry, self._max_skew) if entry else rows.look(change.key.id)
            for change, entry in zip(changes, wanted, strict=True)
        ]
        outcomes: Sequence[Outcome] = await on_client("execute_many", asked)
        _raise_if_in_vain(outcomes)
        steps = [
            self._step(change, entry, outcome, now)
            for change, entry, outcome in zip(changes, wanted, outcomes, strict=True)
        ]
        return await self._finish([change.key for change in changes], steps, now)

    def _step(self, change: Change, wanted: Entry | None, outcome: Outcome, now: float) -> Step:
        """Say what is known after the first statement about a key, and what is still to be asked."""
        if isinstance(outcome, OnefoldError):
            return Step(UNKNOWN)
        row = _row(outcome)
        if wanted is None:
            return self._removal(change, row, now)
        if row is not None and row["[applied]"]:
            return Step(Seen(wanted, 0.0, self._max_skew), [_hint(change.key, wanted)])
        # Refused. If the write is there all the same, an earlier call made it whose answer was lost, and
        # perhaps the hint with it.
        if change.expected is not None:
            perhaps_mine = row is not None and row.get("version") == wanted.version and wanted.state in OPEN
            hint = [rows.listed(change.key, wanted.version)] if perhaps_mine else []
            return Step(UNKNOWN, [*hint, rows.look(change.key.id)])
        seen = self._seen(row, change.key.id, now)
        mine = seen.entry is not None and seen.entry.token == wanted.token
        return Step(
            seen, [_hint(change.key, seen.entry)] if mine and seen.entry else _hints([change.key], [seen])
        )

    def _removal(self, change: Change, row: Row | None, now: float) -> Step:
        """Remove on the version that was seen. What a version says never changes, so it may be read first."""
        seen = self._seen(row, change.key.id, now)
        if seen.entry is None or seen.entry.version != change.expected or not expired(seen.entry, now):
            return Step(seen)
        return Step(UNKNOWN, [Statement("remove", [change.key.id, change.expected])])

    async def _finish(self, keys: Sequence[Key], steps: Sequence[Step], now: float) -> list[Reply]:
        """Ask all that is still to be asked, at once, and give the replies."""
        told = iter(await self._asked([statement for step in steps for statement in step.then]))
        replies: list[Reply] = []
        for key, step in zip(keys, steps, strict=True):
            reply = step.reply
            for statement in step.then:
                reply = self._after(statement, next(told), reply, key.id, now)
            replies.append(reply)
        # One look and no hint: somebody else's entry stands where this change was to be.
        looked = [n for n, step in enumerate(steps) if [one.name for one in step.then] == ["look"]]
        hinted = _hints([keys[n] for n in looked], [replies[n] for n in looked])
        failed = {
            statement.args[1]
            for statement, outcome in zip(hinted, await self._asked(hinted), strict=True)
            if isinstance(outcome, OnefoldError)
        }
        return [UNKNOWN if key.id in failed else reply for key, reply in zip(keys, replies, strict=True)]

    async def _asked(self, statements: Sequence[Statement]) -> Sequence[Outcome]:
        if not statements:
            return ()
        try:
            outcomes: Sequence[Outcome] = await on_client("execute_many", statements)
        except Unreachable as error:
            # The connection is gone since: what was written stays written, so nobody may hear "not asked".
            outcomes = [error] * len(statements)
        _raise_if_refused(statements, outcomes)
        return outcomes

    def _after(self, statement: Statement, outcome: Outcome, reply: Reply, id: bytes, now: float) -> Reply:
        if statement.name == "unlist":
            return reply  # a hint that is left over is found out by the next list
        if isinstance(outcome, OnefoldError):
            return UNKNOWN
        if statement.name == "look":
            return self._seen(_row(outcome), id, now)
        if statement.name == "remove":
            row = _row(outcome)
            return NOTHING if row is not None and row["[applied]"] else UNKNOWN
        return reply

    # ----- scanning

    async def scan(
        self, scope: str | None, states: Sequence[State], due: bool, after: str | None, limit: int
    ) -> tuple[Sequence[Found], str | None]:
        wanted = Wanted(scope, states, due, limit, await on_client("now"))
        place: Place | None = Place(*json.loads(after)) if after else Place(0)
        assert place is not None
        walks = "done" in states and not due
        if place.part < DONE and any(state in OPEN for state in states):
            found, place = await self._listed(wanted, place)
            if place is None and walks:
                place = Place(DONE)
        elif walks:
            found, place = await self._walked(wanted, Place(DONE, place.after if place.part == DONE else ""))
        else:
            found, place = [], None
        return found, json.dumps(place) if place else None

    async def _listed(self, wanted: Wanted, start: Place) -> tuple[list[Found], Place | None]:
        """Read the hints from a place on, and believe of them what stands in the entries."""
        parts = range(start.part, PARTS)
        pages: Sequence[Outcome] = await on_client(
            "execute_many",
            [Statement("page", [n, start.id if n == start.part else b"", CHUNK]) for n in parts],
        )
        hints, rest = _in_order(parts, [_rows(page) for page in pages], wanted.scope)
        stored: Sequence[Outcome] = await on_client(
            "execute_many", [Statement("read", [hint["id"]]) for hint in hints]
        )
        listed: list[Found] = []
        left_over: list[Statement] = []
        for hint, outcome in zip(hints, stored, strict=True):
            row = _row(outcome)
            found = rows.found(row, hint["id"])
            if found is None or found[1].state == "done":
                left_over.append(rows.unlisted(hint["id"], found[1].version if found else hint["version"]))
            elif wanted.shows(*found):
                listed.append((found[0], self._seen(row, hint["id"], wanted.now)))
                if len(listed) == wanted.limit:
                    rest = Place(rows.part(hint["id"]), hint["id"].hex())
                    break
        if left_over:
            await on_client("execute_many", left_over)
        return listed, rest

    async def _walked(self, wanted: Wanted, start: Place) -> tuple[list[Found], Place | None]:
        """Walk over all entries; show what is done, and mend the hints to what is open."""
        [outcome] = await on_client("execute_many", [Statement("walk", [start.token, CHUNK])])
        walked = _rows(outcome)
        shown: list[Found] = []
        mended: list[Statement] = []
        rest = Place(DONE, str(walked[-1]["place"])) if len(walked) == CHUNK else None
        for row in walked:
            found = rows.found(row, row["id"])
            if found is None:
                continue
            if found[1].state != "done":
                mended.append(rows.listed(found[0], found[1].version))
            elif wanted.shows(*found):
                shown.append((found[0], self._seen(row, row["id"], wanted.now)))
                if len(shown) == wanted.limit:
                    rest = Place(DONE, str(row["place"]))
                    break
        if mended:
            await on_client("execute_many", mended)
        return shown, rest


class Step(NamedTuple):
    """What is known of one change, and what follows before its reply is given."""

    reply: Reply
    then: Sequence[Statement] = ()


def _wanted(change: Change, now: float) -> Entry | None:
    """Return the entry that a change writes, by the worker's clock; None if it removes."""
    if change.entry is None:
        return None
    return stamped(change, int(now * 1_000_000) if change.expected is None else change.expected + 1, now)


def _hint(key: Key, entry: Entry) -> Statement:
    """Ask for what must be said of an entry among the hints."""
    return rows.unlisted(key.id, entry.version) if entry.state == "done" else rows.listed(key, entry.version)


def _hints(keys: Sequence[Key], replies: Sequence[Reply]) -> list[Statement]:
    """Ask for the hint to each open entry that somebody is told of; usually it is there already."""
    told = [(key, one.entry) for key, one in zip(keys, replies, strict=True) if isinstance(one, Seen)]
    return [rows.listed(key, entry.version) for key, entry in told if entry and entry.state in OPEN]


def _in_order(
    parts: Sequence[int], pages: Sequence[Sequence[Row]], scope: str | None
) -> tuple[list[Row], Place | None]:
    """Put hints in order, up to where they were read without a gap; say where to go on."""
    hints: list[Row] = []
    for n, page in zip(parts, pages, strict=True):
        hints += [hint for hint in page if scope in (None, hint["scope"])]
        if len(hints) > CHUNK:
            last = hints[CHUNK - 1]["id"]
            return hints[:CHUNK], Place(rows.part(last), last.hex())
        if len(page) == CHUNK:
            return hints, Place(n, page[-1]["id"].hex())
    return hints, None


def _raise_if_in_vain(outcomes: Sequence[Outcome]) -> None:
    """Raise what no repetition mends, and what kept every change from being made."""
    errors = [outcome for outcome in outcomes if isinstance(outcome, OnefoldError)]
    for error in errors:
        if isinstance(error, Misconfigured):
            raise error
    if errors and len(errors) == len(outcomes) and not any(isinstance(error, Unanswered) for error in errors):
        raise errors[0]


def _raise_if_refused(asked: Sequence[Statement], outcomes: Sequence[Outcome]) -> None:
    """Raise what keeps hints from being written: that it is unknown would be true, but no help."""
    for statement, outcome in zip(asked, outcomes, strict=True):
        if statement.name == "list" and isinstance(outcome, Misconfigured | Full):
            raise outcome


def _rows(outcome: Outcome) -> list[Row]:
    if isinstance(outcome, OnefoldError):
        raise outcome
    return outcome


def _row(outcome: Outcome) -> Row | None:
    found = _rows(outcome)
    return found[0] if found else None
