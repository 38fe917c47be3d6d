"""What went wrong, in one shape: what, where the value came from, why, whether anything ran, what to try.

Errors of the library and of the command line end here; nothing else prints them. No tracebacks: those
are for `--debug`.
"""

from __future__ import annotations

import json
import traceback
from typing import NamedTuple

import click

from onefold.cli.codes import Code
from onefold.cli.text import pairs, shown
from onefold.core.errors import Misconfigured, OnefoldError, Unreachable
from onefold.core.redaction import scrubbed

NOTHING_RAN = "no effect ran, and nothing was written"
_RAN = {"no": NOTHING_RAN, "unknown": "not known whether it took place", "yes": "it took place"}


class Facts(NamedTuple):
    """The lines of an error."""

    what: str
    reason: str = ""
    store: str = ""
    origin: str = ""
    effect: str = NOTHING_RAN
    steps: tuple[str, ...] = ()


class Problem(click.ClickException):
    """An error for the person at the terminal, with its exit code."""

    def __init__(self, code: Code, facts: Facts) -> None:
        super().__init__(facts.what)
        self.code = code
        self.facts = facts

    def lines(self) -> list[str]:
        """Write the error for people."""
        what, reason, store, origin, effect, steps = self.facts
        told = [
            ("store", f"{store}  (from {origin})" if store and origin else store or origin),
            ("reason", reason),
            ("effect", effect),
            *(("try" if not at else "or", step) for at, step in enumerate(steps)),
        ]
        return [shown(scrubbed(line, store)) for line in (f"error: {what}", *pairs(told))]

    def as_json(self) -> str:
        """Write the error for programs."""
        told = {**self.facts._asdict(), "code": int(self.code)}
        return json.dumps({"error": {name: self._safe(value) for name, value in told.items()}})

    def trace(self, error: BaseException) -> str:
        """Write where it went wrong, for those who asked for it."""
        lines = "".join(traceback.format_exception(error)).splitlines()
        return "\n".join(shown(scrubbed(line, self.facts.store)) for line in lines)

    def _safe(self, value: object) -> object:
        if isinstance(value, tuple):
            return [self._safe(one) for one in value]
        return scrubbed(value, self.facts.store) if isinstance(value, str) else value


def from_usage(error: click.ClickException, command: str) -> Problem:
    """Tell what is wrong with a command line."""
    return Problem(Code.USAGE, Facts(error.format_message(), steps=(f"{command} --help",)))


def from_library(error: OnefoldError) -> Problem:
    """Tell what the library said before a store was asked."""
    return Problem(_code(error), Facts(str(error), effect=_RAN[error.ran]))


def _code(error: OnefoldError) -> Code:
    if isinstance(error, Misconfigured):
        return Code.USAGE
    return Code.UNREACHABLE if isinstance(error, Unreachable) else Code.FAILED


def from_surprise(error: BaseException) -> Problem:
    """Tell of an error that nobody foresaw."""
    reason = f"{type(error).__name__}: {error}"
    steps = ("the same command with --debug, and report what it prints",)
    return Problem(
        Code.FAILED, Facts("this should not have happened", reason, effect=_RAN["unknown"], steps=steps)
    )
