"""Acts by a command: the record's body on its standard input, its answer by the exit code.

0 is done. 75 (EX_TEMPFAIL) says that nothing happened, and that a later attempt may help; the other codes of
sysexits.h, 64 to 78, that nothing happened and never will. Any other end leaves a one-shot command in doubt.
A command that takes too long is killed with everything it started.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from typing import Any

from onefold.core.entry import Effect
from onefold.core.errors import Refused, Rejected
from onefold.core.ports import Claim
from onefold.core.record import Record
from onefold.core.terms import Duration, seconds
from onefold.runtime import current
from onefold.runtime.commands import NotStarted

NOT_NOW = 75
NEVER = range(64, 79)
SHOWN = 2000
"""How much of what a command prints is kept as its receipt, in characters."""


class Failed(Exception):
    """A command ended in a way that does not say whether it did its work."""


class Command:
    """Runs a program for each record."""

    def __init__(
        self, program: Sequence[str], *, effect: Effect = "one-shot", timeout: Duration = "60s"
    ) -> None:
        self.effect: Effect = effect
        self._program = list(program)
        if self._program and "/" in self._program[0]:
            self._program[0] = os.path.abspath(self._program[0])  # the process may change its folder later
        self._timeout = seconds(timeout, "timeout")

    async def put(self, work: Sequence[tuple[Claim, Record]]) -> Sequence[Any | Exception]:
        return [await self._run(claim, record) for claim, record in work]

    async def _run(self, claim: Claim, record: Record) -> Any | Exception:
        variables = {"ONEFOLD_KEY": claim.key.id.hex(), "ONEFOLD_FENCE": str(claim.fence)}
        try:
            ended = await current().command(self._program, json.dumps(record.body), variables, self._timeout)
        except NotStarted as error:
            return Refused(str(error))
        if ended.code is None:
            return Failed(f"{self._program[0]} took longer than {self._timeout:.0f} s and was killed")
        return judged(self._program[0], ended.code, ended.out, ended.err)


def judged(program: str, code: int, said: str, complained: str) -> Any | Exception:
    """Say what the end of a command means."""
    words = (complained or said).strip()[-200:]
    if code == 0:
        return {"exit": 0, "said": said[:SHOWN]}
    if code == NOT_NOW:
        return Refused(f"{program} asks to be tried later ({code}): {words}")
    if code in NEVER:
        return Rejected(f"{program} refuses this for good ({code}): {words}")
    return Failed(f"{program} ended with {code}: {words}")
