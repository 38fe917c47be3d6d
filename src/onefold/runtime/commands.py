"""Runs a program to its end, in the thread that asks. What its exit code means is the caller's to know.

A program that takes too long is killed with everything it started.
"""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import NamedTuple

from onefold.core.terms import Seconds


class NotStarted(Exception):
    """There was no such program, or it could not be started: nothing happened."""


class Ended(NamedTuple):
    """How a program ended."""

    code: int | None
    """None if it took too long and was killed."""
    out: str = ""
    err: str = ""


def run(program: Sequence[str], text: str, variables: Mapping[str, str], timeout: Seconds) -> Ended:
    """Run a program with a text on its standard input and these variables beside the inherited ones."""
    try:
        started = subprocess.Popen(
            program,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**os.environ, **variables},
            start_new_session=True,
            encoding="utf-8",
            errors="replace",
        )
    except OSError as error:
        raise NotStarted(f"{program[0]} cannot be started: {error.strerror}") from None
    try:
        out, err = started.communicate(text, timeout=timeout)
    except subprocess.TimeoutExpired:
        _kill(started)
        return Ended(None)
    return Ended(started.returncode, out, err)


def _kill(started: subprocess.Popen[str]) -> None:
    """End a program and what it started. Its pipes are not read to their end: a stray may hold them open."""
    with suppress(ProcessLookupError):
        os.killpg(started.pid, signal.SIGKILL)
    started.wait()
    for pipe in (started.stdin, started.stdout, started.stderr):
        if pipe:
            with suppress(OSError):
                pipe.close()
