"""A source that follows a script: records, pages, pauses and errors, in the order in which a test wrote them.

It stands for a service, so time passes in its script even while no worker reads. It must not decide anything
about keys or fates: it shows, and remembers what it was told.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Sequence

from onefold.core.cursor import Cursor, start
from onefold.core.record import Fate, Page, Record
from onefold.core.terms import Duration, Seconds, seconds
from onefold.runtime import current

__all__ = ["Scripted", "Step"]

Step = Record | Page | float | Exception
"""One step of a script: something to show, seconds to pause, or an error to raise."""

SILENCE: Seconds = 3600.0
"""How long a script that is over waits at a time. The length does not matter: nothing comes any more."""


class Scripted:
    """Shows what a script says, step by step.

    A `Record` or a `Page` is shown, a number pauses for so many seconds, and an exception is raised. Every
    step happens once: a read that follows an error, or that another worker begins, goes on with the next
    step. With `repeats` such a read first shows again what was shown before, from the cursor minus `lag` on,
    as a feed does. Without it a record that a worker took and did not store is lost, as on a stream without
    history.

    When the script is over, the source stays silent; a `finite` one ends, and with it a worker that has no
    other source. `timed` says that the order values of its records are seconds since 1970.
    """

    reach = None

    def __init__(
        self,
        script: Iterable[Step],
        *,
        repeats: bool = True,
        finite: bool = False,
        timed: bool = False,
        lag: Duration | None = None,
    ) -> None:
        self.repeats = repeats
        self.finite = finite
        self.timed = timed
        self.lag: Seconds = 0.0 if lag is None else seconds(lag, "lag")
        self.told: list[tuple[Record, Fate]] = []
        """Every record with its fate, in the order in which workers told them."""
        self._script = [_checked(step) for step in script]
        self._next = 0
        self._shown: list[Record] = []
        self._resumes: float | None = None
        """When the pause that has begun is over; it goes on while no worker reads."""

    @property
    def is_over(self) -> bool:
        """Whether every step of the script has happened."""
        return self._next == len(self._script)

    async def read(self, cursor: Cursor) -> AsyncIterator[Page]:
        """Go on with the script, after what the cursor has not passed yet."""
        if self.repeats and (missed := self._missed(cursor)):
            yield Page(missed, more=not self._pauses)
        while not self.is_over:
            at, step = self._next, self._script[self._next]
            if isinstance(step, float):
                await self._pause(step)
                if self._next == at:  # or another worker went on meanwhile
                    self._next, self._resumes = at + 1, None
                continue
            self._next += 1
            if isinstance(step, Exception):
                raise step
            page = step if isinstance(step, Page) else Page([step], more=not self._pauses)
            self._shown += page.records
            yield page
        yield Page(())
        while not self.finite:
            await current().sleep(SILENCE)

    async def tell(self, fates: Sequence[tuple[Record, Fate]]) -> None:
        """Remember what became of records."""
        self.told += fates

    @property
    def _pauses(self) -> bool:
        """Whether nothing is shown at the moment, so that a reader has caught up."""
        return self.is_over or isinstance(self._script[self._next], float)

    def _missed(self, cursor: Cursor) -> list[Record]:
        since = start(cursor, self.lag)
        return [record for record in self._shown if since is None or record.at >= since]

    async def _pause(self, length: Seconds) -> None:
        if self._resumes is None:
            self._resumes = current().monotonic() + length
        await current().sleep(max(self._resumes - current().monotonic(), 0.0))


def _checked(step: object) -> Step:
    match step:
        case bool():
            pass
        case Record() | Page() | Exception():
            return step
        case int() | float() if step >= 0:
            return float(step)
    raise TypeError(
        f"a script has records, pages, pauses in seconds and exceptions; this is none of them: {step!r}"
    )
