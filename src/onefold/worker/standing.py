"""How records stand in the ledger, for sources that show it: attempts, when next, what went wrong.

It only looks. A source that keeps its own list of what waits (`note`) is told again at every showing, because
retries are acted upon from entries, by any worker, and nobody else would tell it how they ended.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple

from onefold.core.entry import Entry
from onefold.core.key import Key
from onefold.core.operate import look
from onefold.core.record import Fate, Record, Standing
from onefold.drive import AsyncPorts, arun
from onefold.worker.fanout import ORDER
from onefold.worker.work import is_kept, read

KeysOf = Callable[[Key, Record], Awaitable[Sequence[Key]]]


class _Found(NamedTuple):
    key: Key
    entry: Entry | None


async def standings(
    ports: AsyncPorts, shown: Sequence[tuple[Key, Record]], keys_of: KeysOf
) -> list[Standing]:
    """Say how records stand; one with several effects stands as the least of them does."""
    owned = [await keys_of(key, record) for key, record in shown]
    distinct = list({key.id: key for keys in owned for key in keys}.values())
    seen = await arun(look(distinct), ports) if distinct else []
    entries = {key.id: one.entry for key, one in zip(distinct, seen, strict=True)}
    return [
        _worst(record, [_Found(key, entries[key.id]) for key in keys])
        for (_, record), keys in zip(shown, owned, strict=True)
    ]


def _worst(record: Record, found: Sequence[_Found]) -> Standing:
    all_of_them = [_standing(record, one) for one in found]
    return min(all_of_them, key=lambda one: ORDER.index(one.fate), default=Standing(record, "done"))


def _standing(record: Record, found: _Found) -> Standing:
    entry = found.entry
    if entry is None:
        return Standing(record, "open")
    task = read(found.key, entry) if entry.state != "done" else None
    return Standing(
        record, fate_of(entry), entry.attempt, entry.not_before, task.error if task else "", entry.why
    )


def fate_of(entry: Entry) -> Fate:
    """Say what became of a record, from its entry."""
    match entry.state:
        case "done":
            return "done"
        case "parked":
            return "parked"
        case _:
            return "kept" if is_kept(entry) else "open"
