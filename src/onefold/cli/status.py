"""`onefold status`: how many entries are open, per scope, and what needs a person.

It counts open entries only, which costs time in proportion to them, however many are done.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, NoReturn

import click

from onefold.cli import pipelines
from onefold.cli.codes import Code
from onefold.cli.facts import iso, key_json, silent
from onefold.cli.frame import Asked, Command, asked
from onefold.cli.keys import spelled_out
from onefold.cli.opened import Opened, opened
from onefold.cli.talk import data, emit, say
from onefold.cli.text import counted, table
from onefold.core.entry import OPEN, STATES, Entry
from onefold.core.flow import Found
from onefold.core.key import Key
from onefold.core.story import moment

HEAD = ("scope", "free", "held", "silent", "parked", "done", "why parked")


@dataclass
class Tally:
    """How many entries of a scope are in each state; silent ones are held past their lease."""

    states: Counter[str] = field(default_factory=Counter)
    whys: Counter[str] = field(default_factory=Counter)
    silent: int = 0


@dataclass
class Account:
    """What a ledger holds: a tally per scope, its pipelines, and the entry that has been parked longest."""

    done_counted: bool = False
    scopes: dict[str, Tally] = field(default_factory=dict)
    pipelines: list[pipelines.PipelineLine] = field(default_factory=list)
    oldest: tuple[Key, Entry] | None = None

    def add(self, found: Iterable[Found]) -> None:
        """Count entries."""
        for key, seen in found:
            if seen.entry is None:
                continue
            tally = self.scopes.setdefault(key.scope, Tally())
            tally.states[seen.entry.state] += 1
            tally.silent += silent(seen)
            if seen.entry.state == "parked":
                tally.whys[seen.entry.why or "by-hand"] += 1
                if self.oldest is None or seen.entry.written < self.oldest[1].written:
                    self.oldest = (key, seen.entry)

    def total(self, state: str) -> int:
        return sum(tally.states[state] for tally in self.scopes.values())

    @property
    def silent(self) -> int:
        return sum(tally.silent for tally in self.scopes.values())


def read_account(store: Opened, done_too: bool, scope: str | None = None) -> Account:
    """Count what a store holds, and read what workers wrote of their pipelines."""
    account = Account(done_too, pipelines=pipelines.read_pipelines(store))
    for entries in store.found(scope, STATES if done_too else OPEN):
        account.add(entries)
    return account


# ----- telling


def as_json(account: Account, store: Opened) -> dict[str, Any]:
    """Give the account for programs."""
    oldest = account.oldest and {
        **key_json(spelled_out(*account.oldest)),
        "since": iso(account.oldest[1].written),
    }
    return {
        "store": store.safe_url,
        "origin": store.origin,
        "free": account.total("free"),
        "held": account.total("held"),
        "silent": account.silent,
        "parked": account.total("parked"),
        "done": account.total("done") if account.done_counted else None,
        "oldest_parked": oldest,
        "scopes": {scope: _tally_json(tally, account) for scope, tally in sorted(account.scopes.items())},
        "pipelines": pipelines.as_json(account.pipelines),
    }


def _tally_json(tally: Tally, account: Account) -> dict[str, Any]:
    return {
        "free": tally.states["free"],
        "held": tally.states["held"],
        "silent": tally.silent,
        "parked": tally.states["parked"],
        "why": dict(sorted(tally.whys.items())),
        "done": tally.states["done"] if account.done_counted else None,
    }


def rows(account: Account) -> list[tuple[str, ...]]:
    """Give the account as rows under `HEAD`."""
    return [
        (
            scope,
            str(tally.states["free"]),
            str(tally.states["held"]),
            str(tally.silent),
            str(tally.states["parked"]),
            str(tally.states["done"]) if account.done_counted else "-",
            ", ".join(f"{why} {number}" for why, number in sorted(tally.whys.items())),
        )
        for scope, tally in sorted(account.scopes.items())
    ]


def headline(account: Account) -> str:
    """Say the account in one line."""
    parked = account.total("parked")
    told = f"{account.total('free'):,} free, {account.total('held'):,} held, {parked:,} parked"
    if account.done_counted:
        told += f", {account.total('done'):,} done"
    return told


def notes(account: Account) -> list[str]:
    """Say what a person should know of it, one sentence each."""
    told = []
    if account.oldest:
        key, entry = account.oldest
        told.append(
            f"The oldest parked is {key}, since {moment(entry.written)}; see `onefold list --parked`."
        )
    if account.silent:
        told.append(
            f"{counted(account.silent, 'entry', 'entries')} held past the lease: the holder fell silent, "
            "and whoever claims next takes over or parks."
        )
    told += pipelines.notes(account.pipelines)
    if not account.done_counted:
        told.append("Done entries are not counted; --all walks over them.")
    return told


def _where(store: Opened) -> str:
    return f"store  {store.safe_url}  (from {store.origin})"


def _code(account: Account) -> Code:
    wrong = account.total("parked") or any(one.failing or one.gaps for one in account.pipelines)
    return Code.PERSON if wrong else Code.FINE


# ----- the command


@click.command("status", cls=Command)
@click.option("--all", "done_too", is_flag=True, help="Count done entries too, by a walk over everything.")
@click.option("--watch", is_flag=True, help="Go on, and show what changes, until interrupted.")
@click.option(
    "--every", metavar="SECONDS", type=click.FloatRange(0.01, 3600), default=2.0, help="Between two looks; 2."
)
def status(done_too: bool, watch: bool, every: float) -> int:
    """Count what is open, and say what needs a person.

    Open entries per scope, and how pipelines do: whether their sources are read, how far behind they
    are, and what could not be read. A silent entry is held past its lease. The counts of pipelines are
    those that workers reported; --all counts the ledger itself. Exits with 3 if something is parked, if
    a source is failing or its workers are dead, or if a stretch could not be read.

    \b
    Example:
        onefold status
    """
    options = asked()
    with opened(options) as store:
        if watch:
            _watch(store, options, done_too, every)
        account = read_account(store, done_too)
        if options.json:
            emit(as_json(account, store))
        else:
            _print(account, store)
        return _code(account)


def _print(account: Account, store: Opened) -> None:
    data(_where(store), headline(account))
    if account.scopes:
        data("", *table(HEAD, rows(account), right=range(1, 6)))
    if account.pipelines:
        data("", *pipelines.drawn(account.pipelines))
    if told := notes(account):
        say("", *told)


def _watch(store: Opened, options: Asked, done_too: bool, every: float) -> NoReturn:
    """Show what changes until somebody interrupts: drawn on a terminal, as lines elsewhere."""
    from onefold.cli.watching import screen

    with screen(options.json) as show:
        while True:
            show(read_account(store, done_too), store)
            store.rest(every)
