"""What workers tell the store about their sources, so that anybody can look: one document per source.

Each worker adds what it counted since it last told; so the totals outlive workers, and the list of workers
stays short. `told` decides what the document becomes; `Teller` writes it. Nothing is read back to act upon.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from onefold.core.documents import named, save
from onefold.core.key import Key
from onefold.drive import AsyncPorts, arun
from onefold.runtime import current
from onefold.worker.liveness import EVERY, not_replaced

if TYPE_CHECKING:
    from onefold.worker.reading import Reader
    from onefold.worker.tally import Tally

FORGOTTEN = 600.0
"""Seconds after which a worker that says nothing more is left out of the list."""

MOST = 50
"""How many workers are kept in the list; one that starts and dies in a loop must not fill it."""

Numbers = Mapping[str, int]


class Told(NamedTuple):
    """What a worker says about a source: its own state, and what it counted in all."""

    worker: str
    number: int
    """Counts what this worker told, so that it knows whether an unconfirmed write arrived."""
    state: Mapping[str, Any]
    counted: Numbers


def source_key(pipeline: str, source: str) -> Key:
    """Name the document about a source."""
    return named("sources", pipeline, source)


def numbers(tally: Tally, source: str) -> dict[str, int]:
    """Give what was counted of a source, flat; lateness by the upper bound of its class."""
    counted: dict[str, int] = {name: number for (name, of), number in tally.counts.items() if of == source}
    late = {f"late:{bound:g}": number for bound, number in tally.late.get(source, {}).items()}
    race = {"first": tally.race.first[source], "missed": tally.race.missed[source]}
    return {name: number for name, number in {**counted, **late, **race}.items() if number}


def added(totals: Numbers, counted: Numbers, before: Numbers) -> dict[str, int]:
    """Add to totals what was counted since some earlier count."""
    new = {name: number - before.get(name, 0) for name, number in counted.items()}
    return {name: totals.get(name, 0) + new.get(name, 0) for name in {**totals, **new}}


def told(stands: Any, says: Told, confirmed: Numbers, unconfirmed: Numbers, now: float) -> dict[str, Any]:
    """Say what a source's document becomes when a worker tells of it."""
    text = stands or {}
    workers: dict[str, Any] = text.get("workers", {})
    # If our last write was never confirmed, the number that stands beside our name tells whether it arrived.
    arrived = workers.get(says.worker, {}).get("number") == says.number - 1
    latest = sorted(workers.items(), key=lambda pair: pair[1].get("at", 0.0))[-MOST:]
    kept = {name: one for name, one in latest if now - one.get("at", 0.0) < FORGOTTEN}
    mine = {**says.state, "number": says.number, "at": now}
    return {
        **text,
        "since": text.get("since", now),
        "totals": added(text.get("totals", {}), says.counted, unconfirmed if arrived else confirmed),
        "workers": not_replaced({**kept, says.worker: mine}, now),
    }


class Teller:
    """Tells of one source of a running worker."""

    def __init__(self, reader: Reader, worker: str, every: float = EVERY) -> None:
        self._reader = reader
        self._worker = worker
        # By these, others see later whether this worker still lives, and whether it came after another.
        self._told = {"every": every, "since": current().time()}
        self._number = 0
        self._confirmed: Numbers = {}
        self._unconfirmed: Numbers = {}

    async def tell(self, ports: AsyncPorts, status: str) -> None:
        """Write what was counted; raises if the store does not confirm it, and makes up for it next time."""
        reader = self._reader
        self._number += 1
        counted = numbers(reader.tally, reader.name)
        says = Told(self._worker, self._number, {**_state(reader, status), **self._told}, counted)
        confirmed, unconfirmed, now = self._confirmed, self._unconfirmed, current().time()
        self._unconfirmed = counted
        names = {"pipeline": reader.pipeline.name, "source": reader.name}
        await arun(
            save(
                source_key(reader.pipeline.name, reader.name),
                current().token(),
                lambda stands: {**names, **told(stands, says, confirmed, unconfirmed, now)},
            ),
            ports,
        )
        self._confirmed = counted


def _state(reader: Reader, status: str) -> dict[str, Any]:
    error = reader.tally.errors.get(reader.name)
    connected = None if status == "ended" else reader.tally.connected.get(reader.name)
    return {
        "status": "failing" if error and status == "running" else status,
        "connected": connected,
        "error": error[:300] if error else None,
        "lag": None if (lag := reader.known_lag) is None else round(lag, 1),
        "finite": bool(getattr(reader.source, "finite", False)),
        "under_way": reader.under_way,
    }
