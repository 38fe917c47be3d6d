"""How contestants are measured: in turns, round by round, and only if they really did the work.

The machine is shared and noisy, so contestants alternate (A B, B A, …) inside one run and medians of their
rounds are compared; a figure from another run or machine proves nothing. A contestant that skips work is an
error, not a winner. It knows nothing about what is measured.
"""

from __future__ import annotations

import gc
import os
import platform
import statistics
import tempfile
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, NamedTuple

Keys = Sequence[str]
Effects = Literal["each", "none"]
"""What a round asks for: one effect for each key, or none because all of them were done before."""


class Skipped(Exception):
    """A contestant ran another number of effects than the round asked for."""


class Sizes(NamedTuple):
    """How much is measured; the defaults take two to three minutes."""

    rounds: int = 15
    batch: int = 1000
    singles: int = 200
    """Single calls per round on a disk."""
    in_memory: int = 500
    """Single calls per round in memory: few, because a peer slows down with every key it has stored."""
    slow: int = 10
    """Single calls per round of a contestant that needs milliseconds for each."""
    tasks: int = 64
    claims: int = 16
    """Claims that each of the concurrent tasks makes in a round."""
    entries: tuple[int, ...] = (10_000, 100_000, 1_000_000)


QUICK = Sizes(
    rounds=2, batch=100, singles=20, in_memory=50, slow=3, tasks=8, claims=4, entries=(1_000, 10_000)
)


@dataclass(frozen=True)
class Contestant:
    """Something that can handle keys, with the durability that was read back from it."""

    name: str
    durability: str
    play: Callable[[Keys], int]
    """Handle every key once; return how many effects ran."""
    at_most: int | None = None
    """Keys it gets per round, if it is slow; all figures are per key."""
    before: Callable[[], object] | None = None
    """Called before each round, outside of its timing: makes fresh files or queues."""
    in_process: bool = True
    """False if other processes of its own do the work, so that the CPU time of this one says nothing."""


@dataclass(frozen=True)
class Absent:
    """A contestant that cannot run here, and why."""

    name: str
    why: str


@dataclass
class Row:
    """One line of a table. `ratio` is how many times as fast as this line the table's first one is."""

    contestant: str
    durability: str = ""
    items: int = 0
    effects: int = 0
    per_second: float | None = None
    micros_each: float | None = None
    processor_micros: float | None = None
    """Time of the processor for each, in the round with the least of it: what neighbours disturb least."""
    ratio: float | None = None
    growth: float | None = None
    """How much more it costs here than where it costs least, if that is what is asked."""
    target: str = ""
    reached: bool | None = None
    note: str = ""


@dataclass
class Table:
    """What was compared with the contestant of the first row, and what was aimed at."""

    title: str
    rows: list[Row]
    effects: Effects = "each"
    notes: list[str] = field(default_factory=list)
    """Lines printed below the rows."""

    def row(self, contestant: str) -> Row:
        [found] = [row for row in self.rows if row.contestant == contestant]
        return found

    def aim(self, contestant: str, at_least: float) -> None:
        """Ask that the first contestant be at least so many times as fast as this one."""
        row = self.row(contestant)
        if row.ratio is not None:
            row.target, row.reached = f">= {at_least:g}x", row.ratio >= at_least

    def aim_at_fastest(self, contestants: Collection[str], at_least: float) -> None:
        """Ask the same against the fastest of several; nothing is asked where none of them ran."""
        ran = [row for row in self.rows if row.contestant in contestants and row.micros_each is not None]
        if ran:
            self.aim(min(ran, key=lambda row: row.micros_each or 0.0).contestant, at_least)

    def aim_below(self, contestant: str, micros: float) -> None:
        """Ask that a contestant need at most so many microseconds for each."""
        row = self.row(contestant)
        row.target, row.reached = f"<= {micros:g} us", (row.micros_each or 0.0) <= micros


def compare(
    title: str,
    contestants: Sequence[Contestant | Absent],
    rounds: Sequence[Keys],
    effects: Effects = "each",
    clock: Callable[[], float] = time.perf_counter,
    counts: Callable[[Sequence[float]], float] = statistics.median,
) -> Table:
    """Let contestants handle the same rounds of keys in turns, and put their medians side by side."""
    playing = [one for one in contestants if isinstance(one, Contestant)]
    played: dict[str, list[float]] = {one.name: [] for one in playing}
    rows = {one.name: Row(one.name, one.durability) for one in playing}
    for one in playing:
        _prepare(one)
        one.play(
            [f"warm-up of {title}"]
        )  # connections are opened and statements prepared outside of the timing
    for number, keys in enumerate(rounds):
        for one in playing if number % 2 == 0 else reversed(playing):
            given = keys[: one.at_most]
            played[one.name].append(_play(one, given, effects, rows[one.name], clock) / len(given))
    for name, times in played.items():
        _fill(rows[name], counts(times))
    for row in rows.values():
        row.ratio = _ratio(row, rows[playing[0].name])
    shown_rows = [rows[one.name] if isinstance(one, Contestant) else _missing(one) for one in contestants]
    return Table(title, shown_rows, effects)


def _prepare(one: Contestant) -> None:
    if one.before:
        one.before()


def _play(one: Contestant, keys: Keys, effects: Effects, row: Row, clock: Callable[[], float]) -> float:
    _prepare(one)
    gc.collect()
    working, started = time.process_time(), clock()
    ran = one.play(keys)
    seconds, worked = clock() - started, time.process_time() - working
    wanted = len(keys) if effects == "each" else 0
    if ran != wanted:
        raise Skipped(f"{one.name}: {ran} effects ran for {len(keys)} keys, and {wanted} should have")
    row.items += len(keys)
    row.effects += ran
    if one.in_process:
        row.processor_micros = min(row.processor_micros or float("inf"), worked * 1e6 / len(keys))
    return seconds


def _fill(row: Row, seconds: float) -> None:
    row.micros_each = seconds * 1e6
    row.per_second = 1 / seconds


def _ratio(row: Row, first: Row) -> float:
    assert row.micros_each is not None
    assert first.micros_each is not None
    return row.micros_each / first.micros_each


def beside(row: Row, first: Row) -> Row:
    """Set a row of another table beside the first row of this one."""
    ratio = None if row.micros_each is None else _ratio(row, first)
    return replace(row, ratio=ratio, target="", reached=None)


def _missing(one: Absent) -> Row:
    return Row(one.name, note=f"not run: {one.why}")


def rounds_of(sizes: Sizes, keys: int, name: str) -> list[Keys]:
    """Make rounds of keys that no other subject uses."""
    return [[f"{name}-{number}-{at}" for at in range(keys)] for number in range(sizes.rounds)]


# ----- the machine


def fsync_micros(folder: Path, times: int) -> float:
    """Measure what the disk takes to make one page durable, in the median."""
    taken = []
    with tempfile.NamedTemporaryFile(dir=folder) as file:
        for _ in range(times):
            file.write(os.urandom(4096))
            file.flush()
            started = time.perf_counter()
            os.fdatasync(file.fileno())
            taken.append(time.perf_counter() - started)
    return statistics.median(taken) * 1e6


def machine(folder: Path, times: int) -> dict[str, Any]:
    """Say what the figures were measured on."""
    return {
        "system": f"{platform.system()} {platform.machine()}",
        "processors": os.cpu_count(),
        "python": platform.python_version(),
        "load_before": round(os.getloadavg()[0], 2),
        "fsync_micros": round(fsync_micros(folder, times), 1),
    }


# ----- showing


def shown(table: Table) -> str:
    """Write a table for people."""
    line = _LINE.replace("[durability]", str(max([14, *(len(row.durability) for row in table.rows)])))
    heads = ("contestant", "durability", "per second", "µs each", "of cpu", "ratio", "target", "")
    rows = (_line(line, row) for row in table.rows)
    notes = (f"  {note}" for note in table.notes)
    return "\n".join([table.title, line.format(*heads).rstrip(), *rows, *notes])


_LINE = "  {:<34} {:<[durability]} {:>10} {:>9} {:>8} {:>8}  {:<9} {}"


def _line(line: str, row: Row) -> str:
    if row.micros_each is None:
        return f"  {row.contestant:<34} {row.note}"
    assert row.per_second is not None
    said = {True: "reached", False: "NOT REACHED", None: ""}[row.reached]
    ratio = "" if row.ratio is None else f"{row.ratio:.2f}x"
    text = line.format(
        row.contestant,
        row.durability,
        f"{row.per_second:,.0f}",
        f"{row.micros_each:,.1f}",
        "" if row.processor_micros is None else f"{row.processor_micros:,.1f}",
        ratio,
        row.target,
        said,
    )
    return text.rstrip() + (f"  {row.note}" if row.note else "")


def as_json(table: Table) -> dict[str, Any]:
    """Write a table for machines."""
    return asdict(table)
