"""What `status` tells of pipelines, from what their workers wrote: who runs, how far behind, what is missing.

Pure functions over documents, but for `read_pipelines`, which asks the store for them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from onefold.cli.opened import Opened
from onefold.cli.sources import REPORTED
from onefold.cli.text import counted, table
from onefold.core.documents import listed
from onefold.core.story import span
from onefold.runtime import current
from onefold.worker import operating
from onefold.worker.liveness import behind, is_wrong, status_of

HEAD = ("pipeline", "sources", "behind", "seen", "done", "twice", "gaps")


class PipelineLine(NamedTuple):
    """One pipeline, over all its sources and workers."""

    name: str
    states: tuple[str, ...]
    lag: float | None
    totals: dict[str, int]
    gaps: int

    @property
    def failing(self) -> int:
        return sum(map(is_wrong, self.states))


def read_pipelines(store: Opened) -> list[PipelineLine]:
    """Read what workers wrote about their pipelines."""
    sources = [one.value for _, one in store.run(listed("sources"))]
    return pipelines(sources, store.run(operating.gaps()), current().time())


def pipelines(
    sources: Sequence[dict[str, Any]], gaps: Sequence[dict[str, Any]], now: float
) -> list[PipelineLine]:
    """Put together what is known of each pipeline."""
    names = sorted({str(one.get("pipeline")) for one in (*sources, *gaps)})
    return [_pipeline(name, sources, gaps, now) for name in names]


def _pipeline(
    name: str, sources: Sequence[dict[str, Any]], gaps: Sequence[dict[str, Any]], now: float
) -> PipelineLine:
    own = [one for one in sources if one.get("pipeline") == name]
    lags = [behind(one, now) for one in own]
    totals: dict[str, int] = {}
    for one in own:
        for count, number in one.get("totals", {}).items():
            totals[count] = totals.get(count, 0) + number
    return PipelineLine(
        name,
        tuple(status_of(one, now) for one in own),
        max((lag for lag in lags if lag is not None), default=None),
        totals,
        sum(gap.get("pipeline") == name for gap in gaps),
    )


def rows(lines: Sequence[PipelineLine]) -> list[tuple[str, ...]]:
    """Give pipelines as rows under `HEAD`."""
    return [
        (
            one.name,
            ", ".join(one.states),
            "-" if one.lag is None else span(one.lag),
            *(f"{one.totals.get(name, 0):,}" for name in ("seen", "done", "duplicate")),
            str(one.gaps),
        )
        for one in lines
    ]


def drawn(lines: Sequence[PipelineLine]) -> list[str]:
    """Draw pipelines as a table, under a line that says who counted."""
    return [REPORTED, *table(HEAD, rows(lines), right=range(2, 7))]


def as_json(lines: Sequence[PipelineLine]) -> dict[str, Any]:
    """Give pipelines for programs."""
    return {
        one.name: {
            "sources": list(one.states),
            "lag": one.lag,
            "gaps": one.gaps,
            "counts": {name: number for name, number in one.totals.items() if not name.startswith("late:")},
            "counted_by": "workers",
        }
        for one in lines
    }


def notes(lines: Sequence[PipelineLine]) -> list[str]:
    """Say what a person should know of pipelines."""
    gaps, failing = sum(one.gaps for one in lines), sum(one.failing for one in lines)
    told = []
    if gaps:
        told.append(f"{counted(gaps, 'stretch', 'stretches')} could not be read; see `onefold cursors`.")
    if failing:
        told.append(f"{counted(failing, 'source')} failing or dead; see `onefold sources`.")
    return told
