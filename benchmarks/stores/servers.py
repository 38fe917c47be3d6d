"""A server for as long as it is measured: the one that the environment names, or one started beside.

Only the one that is measured runs. Servers are started by the launcher of the tests, in the tests'
environment, which `./dev bench stores` names; here only their addresses are known.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

PYTHON = "ONEFOLD_SERVERS_PYTHON"
"""The variable that names the Python which can start servers."""


class NotThere(Exception):
    """There is no server to measure; the text says why."""


@contextmanager
def lent(store: str, starts: str = "") -> Iterator[str]:
    """Give the URL of a store's server, and end the server afterwards if it was started for this.

    `starts` names the command that can start it, for the error message; the default is `./dev bench stores`.
    """
    variable = f"{store.upper()}_URL"
    if given := os.environ.get(variable):
        yield given
    elif python := os.environ.get(PYTHON):
        yield from _started(python, store, variable)
    else:
        starts = starts or f"./dev bench stores --only {store}"
        raise NotThere(f"{variable} is not set, and nobody starts servers: {starts}")


def _started(python: str, store: str, variable: str) -> Iterator[str]:
    # The server lives until its companion reads the end of our pipe: also if this process is killed.
    companion = ["sh", "-c", f'echo "${variable}"; exec cat']
    with subprocess.Popen(
        [python, "-m", "tests.launchers", store, "--", *companion],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as launcher:
        assert launcher.stdout is not None
        assert launcher.stderr is not None
        if url := launcher.stdout.readline().strip():
            yield url
        else:
            raise NotThere(_first_line(launcher.stderr.read()))


def _first_line(text: str) -> str:
    return (text.strip().splitlines() or ["it was not started, and nobody said why"])[0]
