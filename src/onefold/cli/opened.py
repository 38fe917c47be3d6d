"""The store a command works on: found, opened without being created, asked, and closed.

Every error of a store becomes a `Problem` here, with the store and who named it. It takes no decision.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from shlex import quote
from typing import TypeVar

from onefold.cli.codes import Code
from onefold.cli.frame import Asked
from onefold.cli.problems import NOTHING_RAN, Facts, Problem
from onefold.core.entry import State
from onefold.core.errors import Misconfigured, OnefoldError
from onefold.core.flow import Flow, Found, sleep
from onefold.core.operate import page
from onefold.core.ports import Store
from onefold.core.redaction import safe_url
from onefold.drive import Ports, run
from onefold.stores import NotInstalled, connect
from onefold.stores.locate import FILE, VARIABLE, Located, locate, missing_default

T = TypeVar("T")

TYPED = "the command line"

RESERVED = "onefold."
"""Scopes of Onefold's own begin so; they are shown only to those who ask for them by name."""


@dataclass(frozen=True)
class Opened:
    """A store, where it is, and who said so."""

    url: str
    origin: str
    ports: Ports

    @property
    def store(self) -> Store:
        return self.ports.store

    def run(self, flow: Flow[T], effect: str = NOTHING_RAN) -> T:
        """Drive a flow; `effect` says what is known if the store fails under it."""
        try:
            return run(flow, self.ports)
        except OnefoldError as error:
            raise self.problem(error, effect) from error

    def found(self, scope: str | None, states: Sequence[State]) -> Iterator[Sequence[Found]]:
        """Read a list page by page; Onefold's own entries only if their scope is asked for."""
        after = None
        while True:
            entries, after = self.run(page(scope, states, after))
            yield [one for one in entries if scope or not one[0].scope.startswith(RESERVED)]
            if after is None:
                return

    def rest(self, seconds: float) -> None:
        """Let time pass."""
        self.run(_pause(seconds))

    @property
    def safe_url(self) -> str:
        """The URL without its secrets."""
        return safe_url(self.url)

    @property
    def options(self) -> tuple[str, ...]:
        """What a pasted command needs to find the same store, if it can be printed."""
        return pasted(Located(self.url, self.origin))

    def problem(self, error: OnefoldError, effect: str = NOTHING_RAN) -> Problem:
        """Tell of a store that could not be asked."""
        if not exists(self.store):
            what, steps = (
                "there is no ledger here",
                (f"--store URL, ${VARIABLE} or {FILE} to name another store",),
            )
        else:
            what, steps = "the store cannot be used", (" ".join(("onefold doctor", *self.options)),)
        return Problem(Code.UNREACHABLE, Facts(what, str(error), self.url, self.origin, effect, steps))


def pasted(located: Located) -> tuple[str, ...]:
    """Say what a pasted command needs to find a store that was typed, if it can be printed."""
    named = located.origin == TYPED and safe_url(located.url) == located.url
    return (f"--store {quote(located.url)}",) if named else ()


async def _pause(seconds: float) -> None:
    await sleep(seconds)


def exists(store: Store) -> bool:
    """Say whether a store's file is there; stores that are no file are there as far as can be told."""
    path = getattr(store, "path", None)
    return path is None or path.exists()


@contextmanager
def opened(asked: Asked, url: str | None = None, create: bool = False) -> Iterator[Opened]:
    """Open the store that was asked for, as it is: nothing is created, unless the command writes."""
    located = found_store(asked, url)
    try:
        store = connect(located.url, create=create)
    except Misconfigured as error:
        raise unusable(located, error) from error
    if located.url.startswith("memory:"):
        raise misnamed(located, "memory: lives inside the process that made it; nobody else can look at it")
    try:
        yield Opened(located.url, located.origin, Ports(store))
    finally:
        store.close()


def found_store(asked: Asked, url: str | None = None) -> Located:
    """Say which store is meant, and who said so."""
    given = asked.store if url is None else url
    if given is not None and not given.strip():
        raise misnamed(Located(given, TYPED), "the URL is empty; an unset variable?")
    try:
        located = locate(given)
    except OSError as error:
        raise Problem(Code.USAGE, Facts("a setting cannot be read", str(error), origin=FILE)) from error
    return Located(given, TYPED) if given else located  # as it was typed, for messages


def check_named(located: Located, command: str) -> None:
    """Refuse to create the default file for a script: in another folder it would be another ledger."""
    path = missing_default(located)
    if path is None or sys.stdin.isatty() or sys.stderr.isatty():
        return
    reason = (
        f"no store is configured, {path} does not exist, and there is no terminal: a script that starts "
        "in another folder would create another ledger and repeat every effect"
    )
    steps = (
        f"write store = {located.url!r} into {FILE}".replace("'", '"'),
        f"{VARIABLE}={quote(located.url)} onefold {command} …",
        f"onefold {command} --store {quote(located.url)} …",
    )
    what = f"onefold {command} does not choose a store for a script"
    raise Problem(Code.UNSAFE, Facts(what, reason, steps=steps))


def unusable(located: Located, error: Misconfigured) -> Problem:
    """Say why a URL cannot be used: its client library is not installed, or it names no store."""
    if not isinstance(error, NotInstalled):
        return misnamed(located, str(error))
    what = f"the client library of the store {error.store} is not installed"
    return Problem(Code.USAGE, Facts(what, str(error), located.url, located.origin, steps=(error.command,)))


def misnamed(located: Located, reason: str) -> Problem:
    """Tell of a URL that names no store which a command could work on."""
    facts = Facts("no store is named", reason, located.url, located.origin)
    return Problem(Code.USAGE, facts._replace(steps=("--store sqlite:///onefold.db",)))
