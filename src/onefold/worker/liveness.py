"""Which workers of a source are alive, how the source does, and how far behind it is: pure functions.

They read the document that workers write about a source (see `report`), and the present time. They ask no
store. A worker that was killed cannot say so: it counts as dead when it has missed several reports.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

EVERY = 5.0
"""Seconds between two reports of a worker, unless it says otherwise."""

MISSED = 3
"""How many intervals may pass without a report: a slow store or a long count can delay one or two."""

WRONG = ("failing", "failed", "dead")
"""What is said of a source that needs a person."""

Source = Mapping[str, Any]
Worker = Mapping[str, Any]


def age(worker: Worker, now: float) -> float:
    """Return how many seconds ago a worker reported last."""
    return max(now - float(worker.get("at", 0.0)), 0.0)


def has_ended(worker: Worker) -> bool:
    """Say whether a worker reported its own end."""
    return worker.get("status") == "ended"


def is_dead(worker: Worker, now: float) -> bool:
    """Say whether a worker stopped reporting without having ended."""
    every = max(float(worker.get("every", EVERY)), EVERY)
    return not has_ended(worker) and age(worker, now) > MISSED * every


def not_replaced(workers: Mapping[str, Any], now: float) -> dict[str, Any]:
    """Leave out workers that died or failed, once a later run has read the source successfully."""
    return {name: one for name, one in workers.items() if not _is_replaced(one, workers, now)}


def _is_replaced(worker: Worker, workers: Mapping[str, Worker], now: float) -> bool:
    if not (is_dead(worker, now) or (has_ended(worker) and worker.get("error"))):
        return False
    last = float(worker.get("at", 0.0))
    # A run that was there before says nothing: only one that started afterwards takes the place.
    return any(_succeeds(one) and float(one.get("since", 0.0)) > last for one in workers.values())


def _succeeds(worker: Worker) -> bool:
    return not worker.get("error") and (has_ended(worker) or worker.get("lag") is not None)


def living(source: Source, now: float) -> list[Worker]:
    """Return the workers that read a source now."""
    return [one for one in _workers(source) if not has_ended(one) and not is_dead(one, now)]


def dead(source: Source, now: float) -> dict[str, Worker]:
    """Return the workers that died, and that no later run replaced."""
    known = not_replaced(source.get("workers", {}), now)
    return {name: one for name, one in known.items() if is_dead(one, now)}


def _workers(source: Source) -> list[Worker]:
    return list(source.get("workers", {}).values())


def status_of(source: Source, now: float) -> str:
    """Say in a word or two how a source does."""
    alive, gone = living(source, now), len(dead(source, now))
    states = {str(one.get("status")) for one in alive}
    if "failing" in states:
        return "failing"
    if alive:
        word = f"running x{len(alive)}" if len(alive) > 1 else min(states)
        return f"{word}, {gone} dead" if gone else word
    if gone:
        return "dead"
    ended = not_replaced(source.get("workers", {}), now).values()
    return "failed" if any(one.get("error") for one in ended) else "ended"


def is_wrong(status: str) -> bool:
    """Say whether a source in this state needs a person."""
    return status.endswith(WRONG)


def behind(source: Source, now: float) -> float | None:
    """Say how many seconds a source is behind; None if nobody has read it.

    It is as far behind as the best of its workers, because they share the cursor. Where nobody reads any
    more, the time since the last report counts as well.
    """
    lags = (_behind(one, now) for one in _workers(source))
    return min((lag for lag in lags if lag is not None), default=None)


def _behind(worker: Worker, now: float) -> float | None:
    lag: float | None = worker.get("lag")
    if lag is None:
        return None
    # A source that has an end, and was read to it, cannot show anything more.
    over = has_ended(worker) and worker.get("finite")
    return lag if over or not (has_ended(worker) or is_dead(worker, now)) else lag + age(worker, now)
