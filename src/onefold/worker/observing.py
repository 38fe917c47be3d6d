"""Watches a running worker: tells the store what was counted, raises alarms, counts what waits.

It runs beside the pipelines and disturbs none of them: a store that does not answer is asked again later.
What is an alarm is decided in `alarms`; health, readiness and metrics are read from what stands here.
"""

from __future__ import annotations

import logging
from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

import anyio

from onefold.core.entry import OPEN
from onefold.core.errors import OnefoldError
from onefold.core.flow import scan
from onefold.core.terms import seconds
from onefold.core.tiles import covered
from onefold.drive import AsyncPorts, arun
from onefold.runtime import current
from onefold.worker.alarms import Alarms, Limits, Measured, sentence
from onefold.worker.coverage import Noted, known, open_tiles
from onefold.worker.liveness import EVERY
from onefold.worker.operating import gaps
from onefold.worker.pipeline import Pipeline
from onefold.worker.reading import Reader
from onefold.worker.report import Teller
from onefold.worker.tally import Tally

if TYPE_CHECKING:
    from onefold.worker.running import Worker

log = logging.getLogger("onefold.worker")

COUNT_EVERY = 30.0
"""Seconds between two counts of what waits in the store, which cost time in proportion to it."""

COVER_EVERY = 300.0
"""Seconds between two looks at the tiles of series, which cost time in proportion to them."""

TILES = 5_000
"""How many of a series' latest tiles are looked at."""

PAGE = 500
MOST = 20
"""Pages of open entries that are counted at most; beyond that the number is a lower bound."""


class Waiting(NamedTuple):
    """What waits in the store for one pipeline."""

    states: Counter[str]
    parked: Counter[str]
    """Parked entries by why."""


class Observation:
    """What is known of a worker from outside."""

    def __init__(self, worker: Worker, every: float = EVERY) -> None:
        self.worker = worker
        self.waiting: dict[str, Waiting] = {}
        self.gaps: Counter[str] = Counter()
        self.open_tiles: dict[tuple[str, str], int] = {}
        self._every = every
        self._alarms: dict[Reader, Alarms] = {}
        self._tellers: dict[Reader, Teller] = {}
        self._counted_at = float("-inf")
        self._covered_at = float("-inf")

    async def attend(self, ports: AsyncPorts) -> None:
        """Watch until cancelled, then say that it is over."""
        try:
            while True:
                await self.look(ports)
                await current().sleep(self._every)
        finally:
            with anyio.move_on_after(3, shield=True):
                await self._tell(ports, "ended")

    async def look(self, ports: AsyncPorts) -> None:
        """Look at everything once."""
        for tally in self.worker.tallies.values():
            tally.race.close(current().monotonic())
        for reader in self.worker.readers:
            self._judge(reader)
        await self._tell(ports, "stopping" if self.worker.stopping else "running")
        if current().monotonic() - self._counted_at >= COUNT_EVERY:
            await self._count(ports)
            self._counted_at = current().monotonic()
        if current().monotonic() - self._covered_at >= COVER_EVERY:
            await self._cover(ports)
            self._covered_at = current().monotonic()

    # ----- alarms

    @property
    def alarms(self) -> list[tuple[Reader, Alarms]]:
        """The alarms of every source."""
        return list(self._alarms.items())

    def _judge(self, reader: Reader) -> None:
        alarms = self._alarms.setdefault(reader, Alarms(limits(reader.pipeline)))
        for change in alarms.look(current().monotonic(), measured(reader.tally, reader.name, reader.lag)):
            log.error(
                sentence(reader.pipeline.name, reader.name, change),
                extra={"pipeline": reader.pipeline.name, "source": reader.name, "alarm": change.kind},
            )

    # ----- the store

    async def _tell(self, ports: AsyncPorts, status: str) -> None:
        for reader in self.worker.readers:
            teller = self._tellers.setdefault(reader, Teller(reader, self.worker.name, self._every))
            try:
                await teller.tell(ports, status)
            except OnefoldError as error:
                log.debug("the counts of %s were not written: %s", reader.name, error)

    async def _count(self, ports: AsyncPorts) -> None:
        try:
            for pipeline in self.worker.pipelines:
                self.waiting[pipeline.name] = await arun(_waiting(pipeline.name), ports)
            self.gaps = Counter(gap.get("pipeline", "") for gap in await arun(gaps(), ports))
        except OnefoldError as error:
            log.debug("what waits could not be counted: %s", error)

    async def _cover(self, ports: AsyncPorts) -> None:
        names = {pipeline.name for pipeline in self.worker.pipelines}
        try:
            for noted in await arun(known(), ports):
                if noted.series.scope in names:
                    self.open_tiles[noted.series.scope, noted.series.name] = await _open(noted, ports)
        except OnefoldError as error:
            log.debug("coverage could not be counted: %s", error)


async def _open(noted: Noted, ports: AsyncPorts) -> int:
    """Count the tiles of a series that are not in, among its latest."""
    now, step = current().time(), noted.series.step
    latest = noted._replace(since=max(noted.since, int(now) // step * step - TILES * step))
    return open_tiles(latest, await arun(covered(noted.series, latest.wanted(now)), ports), now)


def limits(pipeline: Pipeline) -> Limits:
    """Read where the alarms of a pipeline lie."""
    lag = pipeline.lag_alarm
    return Limits(
        pipeline.duplicate_alarm, None if lag is None else seconds(lag, f"lag_alarm of {pipeline.name}")
    )


def measured(tally: Tally, source: str, lag: float) -> Measured:
    """Take what an alarm needs from a tally."""
    new = tally.total("seen", source) - tally.total("reread", source)
    # What another source of ours won is counted as raced, and is no repetition.
    return Measured(new, tally.total("duplicate", source), lag)


async def _waiting(scope: str) -> Waiting:
    states: Counter[str] = Counter()
    parked: Counter[str] = Counter()
    after: str | None = None
    for _ in range(MOST):
        found, after = await scan(scope, OPEN, False, after, PAGE)
        for _, seen in found:
            if seen.entry is not None:
                states[seen.entry.state] += 1
                if seen.entry.state == "parked":
                    parked[seen.entry.why or "by-hand"] += 1
        if after is None:
            break
    return Waiting(states, parked)
