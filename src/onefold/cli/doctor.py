"""`onefold doctor`: whether a store can be relied upon, what could be lost, and how to change it.

It gathers facts and leaves the judging to `findings`. Its one claim is in a scope of its own, and removed.
"""

from __future__ import annotations

import os
import re
import shutil
import sqlite3
from collections.abc import Iterator
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import click

from onefold.cli import findings
from onefold.cli.codes import Code
from onefold.cli.findings import Finding, verdict
from onefold.cli.frame import Command, asked
from onefold.cli.opened import RESERVED, Opened, exists, opened
from onefold.cli.problems import Problem
from onefold.cli.status import read_account
from onefold.cli.talk import data, emit, say
from onefold.cli.text import counted
from onefold.core import claims
from onefold.core.claims import Bid, Ending, Hold
from onefold.core.errors import Misconfigured, OnefoldError
from onefold.core.flow import sleep, swap
from onefold.core.key import Key
from onefold.core.operate import look
from onefold.core.protocol import claim, end
from onefold.core.terms import Terms
from onefold.runtime import current
from onefold.stores import ALIASES
from onefold.stores.sql import migrations
from onefold.stores.sqlite import SqliteStore
from onefold.worker.liveness import is_wrong

PATIENT = Key(f"{RESERVED}doctor", "round trip")
# Forgotten as soon as it is settled, so that it can be removed; never parked, however many doctors died.
TERMS = Terms(lease=5, keep=1e-6, attempts=1_000_000)

FORGOTTEN = 0.001
"""Seconds until a settled claim may be removed: more than it is kept, also by a clock of milliseconds."""

LARGE = 64 * 2**20
"""Bytes from which on a file is checked for damage only if asked for."""

_LAST = "SELECT written FROM onefold_entries ORDER BY rowid DESC LIMIT 1000"
_OPEN = "SELECT written FROM onefold_entries INDEXED BY onefold_open WHERE state <> 'done' LIMIT 10000"


@click.command("doctor", cls=Command)
@click.argument("url", required=False, metavar="[URL]")
@click.option("--deep", is_flag=True, help="Check a large file for damage, too.")
def doctor(url: str | None, deep: bool) -> int:
    """Look whether a store can be relied upon.

    Each finding says what could be lost and how to change it. Makes a claim of its own and removes
    it. Exits with 0 if all is well, 3 if something should be attended to, 4 if the store cannot be
    used, 5 if going on is unsafe.

    \b
    Example:
        onefold doctor
    """
    options = asked()
    found: list[Finding] = []
    with opened(options, url) as place:
        for finding in examine(place, deep):
            found.append(finding)
            if not options.json:
                _print(finding, place if len(found) == 1 else None)
    code = verdict(found)
    if options.json:
        emit(_json(found, place, code))
    else:
        _close(found, code)
    return code


def _print(finding: Finding, place: Opened | None) -> None:
    if place:
        data(f"store  {place.safe_url}  (from {place.origin})", "")
    data(f"{finding.level:<6}  {finding.name:<11}  {finding.text}")
    told = [
        line
        for line in (finding.lost and f"lost  {finding.lost}", finding.do and f"do    {finding.do}")
        if line
    ]
    data(*(f"{'':<21}{line}" for line in told))


def _close(found: list[Finding], code: Code) -> None:
    wrong = sum(finding.level not in ("ok", "note") for finding in found)
    say("", f"{counted(wrong, 'finding')} to attend to (exit {int(code)})" if wrong else "All is well.")


def _json(found: list[Finding], place: Opened, code: Code) -> dict[str, Any]:
    told = [finding._asdict() for finding in found]
    return {"store": place.safe_url, "origin": place.origin, "code": int(code), "findings": told}


# ----- looking


def examine(place: Opened, deep: bool) -> Iterator[Finding]:
    """Look at everything, in the order in which trouble shows; a store that cannot be asked ends it."""
    store = place.store
    if isinstance(store, SqliteStore) and exists(store):
        yield from _around(store.path.absolute())
    try:
        place.run(look([PATIENT]))
        yield _trip(place)
        if isinstance(store, SqliteStore):
            yield from _inside(store, deep)
        else:
            yield from _by_its_kind(place)
        account = read_account(place, done_too=False)
        yield findings.parked(account.total("parked"), account.silent)
        states = [state for one in account.pipelines for state in one.states]
        if states:
            yield findings.sources(sum(map(is_wrong, states)), len(states))
    except Problem as problem:
        yield _down(problem.facts.reason, problem.facts.steps)
    except OnefoldError as error:
        yield _down(str(error), ())


def _down(reason: str, steps: tuple[str, ...], name: str = "reach") -> Finding:
    lost = "nothing, but no claim can be made: workers stop until it is back"
    advice = next((step for step in steps if not step.startswith("onefold doctor")), "see the reason")
    return Finding(name, "down", reason, lost, advice)


def _around(path: Path) -> Iterator[Finding]:
    """Look at where the file lies, without opening it."""
    writable = os.access(path, os.W_OK) and os.access(path.parent, os.W_OK | os.X_OK)
    yield findings.folder(str(path.parent), writable)
    yield findings.file_system(file_system(path.resolve(), _mounts()))
    yield findings.space(shutil.disk_usage(path.parent).free)


def _trip(place: Opened) -> Finding:
    """Try a claim; a store that can be read but not written is looked at all the same."""
    started = current().monotonic()
    try:
        state = place.run(round_trip(current().token()))
    except Problem as problem:
        return _down(problem.facts.reason, problem.facts.steps, "round trip")
    return findings.trip(state, current().monotonic() - started)


async def round_trip(token: str) -> str:
    """Claim, settle and remove a key of the doctor's own; return how far that went."""
    [won] = await claim([Bid(PATIENT, token, TERMS, "idempotent")])
    if won.state == "done" and won.entry is not None:
        # Another doctor died before it removed its claim.
        await swap([claims.purge(PATIENT, won.entry)])
        [won] = await claim([Bid(PATIENT, token, TERMS, "idempotent")])
    if won.state != "won" or won.entry is None:
        return won.state
    [ended] = await end([(Hold(PATIENT, token, won.entry, won.since), Ending("returned", "null"), TERMS)])
    if ended.entry is not None:
        await sleep(FORGOTTEN)
        await swap([claims.purge(PATIENT, ended.entry)])
    return ended.state


def _by_its_kind(place: Opened) -> Iterator[Finding]:
    """Look at a server through the store's own client, as the module of findings about its kind does."""
    scheme = place.url.partition(":")[0]
    name = f"onefold.cli.{ALIASES.get(scheme, scheme)}_findings"
    if find_spec(name):
        client = getattr(place.store, "client", None)
        yield from import_module(name).look(client)


def _inside(store: SqliteStore, deep: bool) -> Iterator[Finding]:
    """Look at the file through its own connection."""

    def value(sql: str) -> Any:
        return store.query(sql)[0][0]

    version = int(value("SELECT value FROM onefold_meta WHERE name = 'schema'"))
    yield findings.schema(version, len(migrations("sqlite")))
    yield findings.journal(value("PRAGMA journal_mode"))
    yield findings.synchronous(value("PRAGMA synchronous"))
    yield findings.libraries(value("SELECT sqlite_version()"), sqlite3.sqlite_version)
    yield _integrity(store, deep)
    newest = value(f"SELECT max(written) FROM (SELECT * FROM ({_LAST}) UNION ALL SELECT * FROM ({_OPEN}))")
    yield findings.clock(newest, current().time())


def _integrity(store: SqliteStore, deep: bool) -> Finding:
    size = store.path.stat().st_size
    if size > LARGE and not deep:
        return findings.not_checked(size)
    try:
        answers = [str(row[0]) for row in store.query("PRAGMA quick_check(5)")]
    except Misconfigured as error:
        answers = [str(error)]
    return findings.integrity(answers)


def file_system(path: Path, mounts: str) -> str:
    """Name the kind of file system that a path lies on, by a table of mounts; empty if it does not say."""
    best, kind = Path(), ""
    for line in mounts.splitlines():
        _, where, what, *_ = line.split(" ")
        point = Path(re.sub(r"\\([0-7]{3})", lambda code: chr(int(code[1], 8)), where))
        if path.is_relative_to(point) and len(point.parts) >= len(best.parts):
            best, kind = point, what
    return kind


def _mounts() -> str:
    try:
        return Path("/proc/self/mounts").read_text(errors="surrogateescape")
    except OSError:
        return ""
