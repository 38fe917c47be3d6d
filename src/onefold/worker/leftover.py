"""What a pipeline leaves in the store when its worker ends by itself: parked work, and work that waits.

It only reads. An entry that waits is acted upon by the next run; a parked one needs a person.
"""

from __future__ import annotations

from typing import NamedTuple

from onefold.core.entry import OPEN, due
from onefold.core.flow import scan

PAGE = 500


class Leftover(NamedTuple):
    """The open entries of one pipeline."""

    parked: int = 0
    waiting: int = 0
    """Free or held: another attempt is due at some time."""
    due: float | None = None
    """When the first of those that wait may be acted upon, by the store's clock."""


def scopes(pipeline: str) -> tuple[str, ...]:
    """Name the scopes in which work of a pipeline stays: effects, fan-outs, and what could not be read."""
    return (pipeline, f"{pipeline}.each", f"{pipeline}.broken")


async def leftover(pipeline: str) -> Leftover:
    """Count what a pipeline left open."""
    parked, times = 0, list[float]()
    for scope in scopes(pipeline):
        after: str | None = None
        while True:
            page, after = await scan(scope, OPEN, False, after, PAGE)
            entries = [seen.entry for _, seen in page if seen.entry]
            parked += sum(entry.state == "parked" for entry in entries)
            times += [at for entry in entries if entry.state != "parked" and (at := due(entry)) is not None]
            if after is None:
                break
    return Leftover(parked, len(times), min(times, default=None))
