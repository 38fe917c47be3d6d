"""Effects of the caller's own: a function, sync or async, called with each record."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from onefold.core.entry import Effect
from onefold.core.errors import Misconfigured, Unfinished
from onefold.core.ports import Claim
from onefold.core.record import Record
from onefold.core.terms import Duration, Seconds, forever_or_seconds
from onefold.drive.functions import kind, name_of, unfinished
from onefold.runtime import current

Acts = Callable[..., Any | Awaitable[Any]]


class Function:
    """Calls `act(record)`, or `act(record, claim)` if it takes two; what it returns is the receipt.

    A sync function runs in a thread, for which the exit of a worker does not wait. Say what its effect is:
    nothing is assumed but *one-shot*.
    """

    def __init__(
        self,
        act: Acts,
        *,
        effect: Effect = "one-shot",
        safe: tuple[type[BaseException], ...] = (),
        window: Duration = "forever",
        probe: Callable[..., Any] | None = None,
        prepare: Callable[..., Any] | None = None,
    ) -> None:
        self.effect: Effect = effect
        self.safe = safe
        self.window: Seconds | None = forever_or_seconds(window, "window")
        self.probe = probe
        self.prepare = prepare
        if kind(act) in ("generator", "async generator"):
            raise Misconfigured(
                f"{name_of(act)} is a generator, nothing would run its body: write a function that returns"
            )
        self._act = act
        self._takes_claim = _parameters(act) > 1

    async def put(self, work: Sequence[tuple[Claim, Record]]) -> Sequence[Any | Exception]:
        return [await self._acted(claim, record) for claim, record in work]

    async def _acted(self, claim: Claim, record: Record) -> Any | Exception:
        args = (record, claim) if self._takes_claim else (record,)
        try:
            if inspect.iscoroutinefunction(self._act):
                result = await self._act(*args)
            else:
                given = await current().blocking(self._act, *args)
                result = await given if inspect.isawaitable(given) else given
            if what := unfinished(result):
                raise Unfinished(
                    claim.key, f"{name_of(self._act)} returned {what}", "do the work in the function"
                )
            return result
        except Exception as error:
            return error


def _parameters(act: Acts) -> int:
    """Count what a function takes by position; one that takes anything is called with the record alone."""
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return sum(
        one.kind in kinds and one.default is one.empty for one in inspect.signature(act).parameters.values()
    )
