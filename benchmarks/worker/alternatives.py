"""Subject: Onefold's worker against what a team would use instead of it.

All of them take the same records from a list to an effect that only counts, in turns, in one run. They do not
guarantee the same: a line below the table says for each what it guarantees and what it does not. Servers and
worker processes are started before the clock; an alternative that cannot run here gets a row that says why.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import NamedTuple

from benchmarks.measure import Absent, Contestant, Sizes, Table, compare, rounds_of
from benchmarks.stores.servers import NotThere
from benchmarks.worker import naive, ours
from benchmarks.worker.proof import Site, Unavailable
from benchmarks.worker.stages import PAGE, RECORDS

TARGET = 3.0
"""How many times as fast as the naive loop with a commit per record the worker is to be."""

ROUNDS = 5
"""At most: some alternatives need seconds for a round."""

ONE_SHOT, IDEMPOTENT = "Onefold's worker, one-shot", "Onefold's worker, idempotent"
PER_RECORD, PER_PAGE = "naive loop, commit per record", "naive loop, commit per page"


def tables(sizes: Sizes, folder: Path) -> Iterator[Table]:
    """Measure everything that can run here, in one table."""
    with ExitStack() as stack:
        site = Site(folder, sizes, stack)
        few = sizes._replace(rounds=min(sizes.rounds, ROUNDS))
        table = compare(
            f"From source to settled effect: the worker and its alternatives, pages of {PAGE}",
            [_opened(one, site) for one in ALTERNATIVES],
            rounds_of(few, sizes.batch * RECORDS, "alternatives"),
        )
    _judge(table)
    table.notes = [*map(_told, ALTERNATIVES), TIMING]
    yield table


def _judge(table: Table) -> None:
    """Compare each alternative with both kinds of effect: `ratio` with one-shot, the note with idempotent."""
    table.aim(PER_RECORD, TARGET)
    idempotent = table.row(IDEMPOTENT).micros_each or 0.0
    for row in table.rows:
        if row.micros_each is not None and row.contestant not in (ONE_SHOT, IDEMPOTENT):
            row.note = f"{row.micros_each / idempotent:.2f}x against idempotent"


class Alternative(NamedTuple):
    """Something that could do a worker's job, and one line about what it guarantees."""

    name: str
    promise: str
    open: Callable[[str, Site], Contestant]
    package: str = ""
    """The distribution that it needs and whose version is shown; empty for code of this repository."""


def _opened(one: Alternative, site: Site) -> Contestant | Absent:
    try:
        return one.open(one.name, site)
    except (ImportError, NotThere, Unavailable) as error:
        return Absent(one.name, str(error))


def _told(one: Alternative) -> str:
    return f"{one.name}{_version(one.package)}: {one.promise}"


def _version(package: str) -> str:
    try:
        return f" ({package} {version(package)})" if package else ""
    except PackageNotFoundError:
        return f" ({package} is not installed)"


def _from(module: str) -> Callable[[str, Site], Contestant]:
    """Load a module of this package when it is needed, because it imports what may be missing."""

    def opened(name: str, site: Site) -> Contestant:
        contestant: Callable[[str, Site], Contestant] = import_module(f"{__package__}.{module}").contestant
        return contestant(name, site)

    return opened


TIMING = (
    "Timing: a round of Onefold and of the naive loops includes opening the file, start and end; the others "
    "are started before it. Publishing to a broker is included. 'of cpu' counts this process only: servers "
    "are not in it, and it is empty where worker processes act."
)
LOCKED = (
    "at most once for the day that the lock lives; a worker that dies between lock and effect loses the "
    "record, because the redelivered task finds the lock taken; an effect that raises"
)

ALTERNATIVES = (
    Alternative(
        ONE_SHOT,
        "at most once, nothing silently lost; an effect that a crash leaves in doubt is parked, not repeated",
        partial(ours.contestant, effect="one-shot"),
    ),
    Alternative(
        IDEMPOTENT,
        "at least once; a crash repeats effects that were not settled; failed effects are retried or parked",
        partial(ours.contestant, effect="idempotent"),
    ),
    Alternative(
        PER_RECORD,
        "at least once; a crash repeats one effect; no retry, no parking, no lock against a second process",
        partial(naive.contestant, commits_each=True),
    ),
    Alternative(
        PER_PAGE,
        f"at least once; a crash repeats up to {PAGE} effects; otherwise as with a commit per record",
        partial(naive.contestant, commits_each=False),
    ),
    Alternative(
        "dlt, merge into SQLite",
        "one row for each primary key in its destination, in one load per run; it calls no code of yours, "
        "so it guarantees nothing about any other effect",
        _from("with_dlt"),
        "dlt",
    ),
    Alternative(
        "FastStream on NATS JetStream",
        "at least once; a message is redelivered until it is acknowledged; a repeated publish is ignored for "
        "two minutes; acknowledgements are not synced, so that a killed server may repeat effects",
        _from("with_faststream"),
        "faststream",
    ),
    Alternative(
        "Celery on Redis, with a lock",
        f"{LOCKED} is not tried again",
        _from("with_celery"),
        "celery",
    ),
    Alternative(
        "Dramatiq on Redis, with a lock",
        f"{LOCKED} is tried again, even if it had acted",
        _from("with_dramatiq"),
        "dramatiq",
    ),
    Alternative(
        "DBOS, a workflow per record",
        "a workflow id completes once and is resumed after a crash; its step runs at least once, so that a "
        "crash in a step repeats the effect",
        _from("with_dbos"),
        "dbos",
    ),
)
"""The first is what the others are compared with."""
