"""`onefold sources`: what every source showed, who was first, how late the others were, and how they do."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import click

from onefold.cli.codes import Code
from onefold.cli.facts import error_json, iso
from onefold.cli.frame import Command, asked
from onefold.cli.opened import opened
from onefold.cli.talk import data, emit, say
from onefold.cli.text import cut, table
from onefold.core.documents import listed
from onefold.core.story import moment, span
from onefold.runtime import current
from onefold.worker.liveness import age, behind, dead, is_dead, is_wrong, living, not_replaced, status_of

HEAD = ("pipeline", "source", "status", "seen", "won", "twice", "first", "late", "missed", "connected since")
POOL_HEAD = ("pool", "endpoint", "priority", "health", "last failure")
REPORTED = "Counts as reported by workers; what a killed worker had not reported yet is missing:"

ERROR_SHOWN = 200


@click.command("sources", cls=Command)
@click.option("--pipeline", metavar="NAME", help="Only this pipeline.")
def sources(pipeline: str | None) -> int:
    """Count what every source showed, over all workers and runs.

    `seen` are records, `won` claims, `twice` what had been done before. Where sources race, `first` is
    how often each was, `late` how far behind the first it was for half and for 95 % of the rest, and
    `missed` what it never showed. With --json one object per line. The endpoints of every pool follow,
    with their health.

    Workers report all this every few seconds. A worker that stops reporting without having ended is shown
    as dead, until a later run has read the source; what it had not reported yet is not counted. Exits with
    3 if a source is failing, its last run failed, or a worker of it is dead.

    \b
    Example:
        onefold sources
    """
    options = asked()
    with opened(options) as store:
        found = [one.value for _, one in store.run(listed("sources"))]
        # A pool serves whoever names it, and belongs to no pipeline.
        pools = [] if pipeline else [one.value for _, one in store.run(listed("endpoints"))]
    found = [one for one in found if pipeline in (None, one.get("pipeline"))]
    now = current().time()
    if options.json:
        emit(*(_json(one, now) for one in found), *(_pool_json(one) for one in pools))
    elif not found:
        say("No worker told of a source yet: they do so every few seconds while they run.")
    else:
        data(REPORTED, *table(HEAD, [_row(one, now) for one in found], right=range(3, 9)))
        say(*(line for one in found for line in (*_errors(one, now), *_deaths(one, now))))
    if pools and not options.json:
        data("", *table(POOL_HEAD, [row for one in pools for row in _pool_rows(one)], right=(2,)))
    return Code.PERSON if any(is_wrong(status_of(one, now)) for one in found) else Code.FINE


def _row(one: dict[str, Any], now: float) -> tuple[str, ...]:
    totals: dict[str, int] = one.get("totals", {})
    connected = _connected(one, now)
    return (
        str(one.get("pipeline")),
        str(one.get("source")),
        status_of(one, now),
        *(f"{totals.get(name, 0):,}" for name in ("seen", "won", "duplicate", "first")),
        _late(totals),
        f"{totals.get('missed', 0):,}",
        "-" if connected is None else moment(connected),
    )


def _connected(one: dict[str, Any], now: float) -> float | None:
    return min((each["connected"] for each in living(one, now) if each.get("connected")), default=None)


def lateness(totals: dict[str, int]) -> dict[float, int]:
    """Give the classes of lateness by their upper bounds, in order."""
    found = {float(name[5:]): number for name, number in totals.items() if name.startswith("late:")}
    return dict(sorted(found.items()))


def within(classes: dict[float, int], share: float) -> float | None:
    """Say within how many seconds this share of late sightings came; None if there were none."""
    wanted, total = share * sum(classes.values()), 0
    for bound, number in classes.items():
        total += number
        if total >= wanted:
            return bound
    return None


def _late(totals: dict[str, int]) -> str:
    classes = lateness(totals)
    half, most = within(classes, 0.5), within(classes, 0.95)
    return "-" if half is None or most is None else f"{half:g} s, {most:g} s"


def _errors(one: dict[str, Any], now: float) -> Iterable[str]:
    for name, worker in not_replaced(one.get("workers", {}), now).items():
        if worker.get("error"):
            ago = span(now - worker.get("at", now))
            said = cut(str(worker["error"]), ERROR_SHOWN)
            yield f"{one.get('pipeline')}/{one.get('source')}: {name}, {ago} ago: {said}"


def _deaths(one: dict[str, Any], now: float) -> Iterable[str]:
    for name, worker in dead(one, now).items():
        said = f"{name} is dead: it reported last {span(age(worker, now))} ago, and did not end"
        yield f"{one.get('pipeline')}/{one.get('source')}: {said}; start it again with `onefold run`"


def _json(one: dict[str, Any], now: float) -> dict[str, Any]:
    totals: dict[str, int] = one.get("totals", {})
    # JSON has no infinity.
    late = [
        {"within": None if bound == float("inf") else bound, "number": number}
        for bound, number in lateness(totals).items()
    ]
    plain = {name: number for name, number in totals.items() if not name.startswith("late:")}
    workers = not_replaced(one.get("workers", {}), now)
    return {
        "pipeline": one.get("pipeline"),
        "source": one.get("source"),
        "status": status_of(one, now),
        "since": iso(one.get("since")),
        "connected": iso(_connected(one, now)),
        "behind": behind(one, now),
        "counts": plain,
        "counted_by": "workers",
        "late": late,
        "workers": {name: _worker_json(worker, now) for name, worker in workers.items()},
    }


def _worker_json(worker: dict[str, Any], now: float) -> dict[str, Any]:
    told = {name: worker.get(name) for name in ("status", "lag", "under_way")}
    told["error"] = error_json(worker.get("error"))
    told |= {"status": "dead"} if is_dead(worker, now) else {}
    return {**told, "at": iso(worker.get("at")), "connected": iso(worker.get("connected"))}


# ----- pools


def _pool_rows(pool: dict[str, Any]) -> Iterable[tuple[str, ...]]:
    for one in pool.get("endpoints", ()):
        failed = one.get("failed")
        yield (
            str(pool.get("pool")),
            str(one.get("shown")),
            str(one.get("priority")),
            str(one.get("health")) if one.get("enabled") else "disabled",
            "-" if failed is None else f"{moment(failed)}: {cut(str(one.get('reason')), ERROR_SHOWN)}",
        )


def _pool_json(pool: dict[str, Any]) -> dict[str, Any]:
    told = ("shown", "priority", "enabled", "health", "failures", "reason")
    rows = [
        {**{name: one.get(name) for name in told}, "failed": iso(one.get("failed"))}
        for one in pool.get("endpoints", ())
    ]
    return {"pool": pool.get("pool"), "endpoints": rows}
