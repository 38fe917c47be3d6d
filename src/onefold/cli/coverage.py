"""`onefold coverage`: which stretches of every series are in, as a picture and as gaps.

It reads the tiles that workers wrote; what a tile's state means is decided in `core.coverage`.
"""

from __future__ import annotations

import sys
from collections import Counter
from datetime import UTC, datetime
from typing import Any, NamedTuple

import click

from onefold.cli.codes import Code
from onefold.cli.facts import iso
from onefold.cli.frame import Command, asked
from onefold.cli.opened import Opened, opened
from onefold.cli.problems import Facts, Problem
from onefold.cli.talk import data, emit, say
from onefold.cli.text import counted, cut
from onefold.core.coverage import Span, Tile, tiles
from onefold.core.story import moment, span
from onefold.core.tiles import IN, Run, covered, runs
from onefold.runtime import current
from onefold.worker.coverage import Noted, known

WIDTH = 60
"""Cells of a picture."""

MOST = 5_000
"""Tiles that are read of a series unless a start is named."""

GAPS_SHOWN = 5
REASON_SHOWN = 120
NAMES_SHOWN = 20

STATES = ("complete", "empty", "provisional", "partial", "missing")
PICTURE = dict(zip(STATES, "█·▓▒░", strict=True))
PLAIN = dict(zip(STATES, "#.~+-", strict=True))
# A cell that stands for several tiles shows the one that most needs a look.
WORST_FIRST = ("missing", "partial", "provisional", "complete", "empty")


class Covered(NamedTuple):
    """One series as of now: what is wanted, and what is known of its tiles."""

    noted: Noted
    wanted: Span
    cut: bool
    found: list[Tile]


@click.command("coverage", cls=Command)
@click.argument("series", required=False, metavar="[SERIES]")
@click.option("--since", metavar="TIME", help="From this time on, with a zone, like 2026-01-31T00:00:00Z.")
def coverage(series: str | None, since: str | None) -> int:
    """Show which stretches of every series are in, and which are missing.

    Each sign of the picture stands for one or more tiles, and shows the one that most needs a look: what
    is missing or partial before what is complete. Rows that the source showed and that were refused are
    counted, with reasons; their tiles stay partial. Without --since at most the latest 5,000 tiles of a
    series are read. With --json one object per series. A SERIES that no worker filled exits with 1.

    \b
    Example:
        onefold coverage
    """
    options = asked()
    start = None if since is None else _time(since)
    with opened(options) as store:
        every = store.run(known())
        noted = [one for one in every if series in (None, one.series.name, _full(one))]
        if series is not None and not noted:
            raise _unknown(series, every)
        found = [_covered(store, one, start, current().time()) for one in noted]
    if options.json:
        emit(*(as_json(one) for one in found))
    elif found:
        _print(found)
    else:
        say("No series is known here: workers that fill one write it down.")
    return Code.FINE


def _full(noted: Noted) -> str:
    return f"{noted.series.scope}/{noted.series.name}"


def _unknown(series: str, every: list[Noted]) -> Problem:
    known = ", ".join(sorted(map(_full, every))[:NAMES_SHOWN])
    reason = (
        f"these are known: {known}" if known else "workers that fill a series write it down; none did yet"
    )
    return Problem(
        Code.FAILED, Facts(f"there is no series {series!r:.80}", reason, steps=("onefold coverage",))
    )


def _time(written: str) -> int:
    try:
        at = datetime.fromisoformat(written)
    except ValueError:
        at = None
    if at is None or at.tzinfo is None:
        raise click.UsageError(
            f"--since is {written!r:.80}: write a time with a zone, like 2026-01-31T00:00:00Z"
        )
    return int(at.timestamp())


def _covered(store: Opened, noted: Noted, since: int | None, now: float) -> Covered:
    wanted, cut = stretch(noted, since, now)
    return Covered(noted, wanted, cut, store.run(covered(noted.series, wanted)))


def stretch(noted: Noted, since: int | None, now: float) -> tuple[Span, bool]:
    """Say which stretch to read: all that is wanted, or its latest part where that is too much."""
    whole, step = noted.wanted(now), noted.series.step
    first = max(whole.since, since) if since is not None else whole.since
    latest = whole.until - MOST * step
    cut = since is None and first < latest
    first = latest if cut else first
    return Span(min(first, whole.until - 1), whole.until), cut


# ----- telling


def states(one: Covered) -> list[str]:
    """Name the state of every wanted tile, in order; those that nobody looked at are missing."""
    by_start = {tile.span.since: tile.state for tile in one.found}
    return [by_start.get(span.since, "missing") for span in tiles(one.wanted, one.noted.series.step)]


def picture(found: list[str], signs: dict[str, str], width: int = WIDTH) -> str:
    """Draw tiles in at most so many signs; each shows the worst of its tiles."""
    cells = min(width, len(found))
    parts = (found[at * len(found) // cells : (at + 1) * len(found) // cells] for at in range(cells))
    return "".join(signs[min(part, key=WORST_FIRST.index)] for part in parts)


def gaps(one: Covered) -> list[Run]:
    """Give the stretches that are not in, merged, and clipped to what is wanted."""
    found = [run for run in runs(one.noted.series.step, one.wanted, one.found) if run.state not in IN]
    return [run._replace(span=clipped(run.span, one.wanted)) for run in found]


def clipped(span: Span, wanted: Span) -> Span:
    """Return the part of a span that is wanted."""
    return Span(max(span.since, wanted.since), min(span.until, wanted.until))


def rows_in(one: Covered) -> int:
    """Count the rows that are in, of those that are wanted.

    The first and the last tile reach beyond what is wanted, and a tile knows only how many rows it holds in
    all. So such a tile counts for no more rows than its wanted part can hold.
    """
    return sum(_rows(tile, clipped(tile.span, one.wanted), one.noted) for tile in one.found)


def _rows(tile: Tile, part: Span, noted: Noted) -> int:
    return tile.rows if part == tile.span else min(tile.rows, noted.expected(part))


def as_json(one: Covered) -> dict[str, Any]:
    """Give a series for programs."""
    series, numbers = one.noted.series, Counter(states(one))
    return {
        "pipeline": series.scope,
        "series": series.name,
        "step": series.step,
        "since": iso(one.wanted.since),
        "until": iso(one.wanted.until),
        "cut": one.cut,
        "tiles": {state: numbers[state] for state in STATES},
        "rows": rows_in(one),
        "expected": one.noted.expected(one.wanted),
        "gaps": [
            {"since": iso(gap.span.since), "until": iso(gap.span.until), "state": gap.state or "missing"}
            for gap in gaps(one)
        ],
        "refused": [
            {
                "since": iso(tile.span.since),
                "until": iso(tile.span.until),
                "rows": tile.refused,
                "reasons": list(tile.reasons),
            }
            for tile in one.found
            if tile.refused
        ],
    }


def _print(found: list[Covered]) -> None:
    plain = (sys.stdout.encoding or "").lower().replace("-", "") != "utf8"
    signs = PLAIN if plain else PICTURE
    for one in found:
        data(*_lines(one, signs))
    data("  ".join(f"{signs[state]} {state}" for state in STATES))


def _lines(one: Covered, signs: dict[str, str]) -> list[str]:
    series, every = one.noted.series, states(one)
    share = shown_share(sum(state in IN for state in every), len(every))
    head = f"{series.scope}/{series.name}  {_day(one.wanted.since)} to {_day(one.wanted.until)}, "
    head += f"tiles of {span(series.step)}"
    missing = gaps(one)
    lines = [
        head + (", the latest only" if one.cut else ""),
        f"  {picture(every, signs)}  {share}% in, {_of_expected(one)} rows",
    ]
    for gap in missing[:GAPS_SHOWN]:
        number = counted(gap.tiles, "tile")
        lines.append(
            f"  {moment(gap.span.since)} to {moment(gap.span.until)}  {gap.state or 'missing'}, {number}"
        )
    if len(missing) > GAPS_SHOWN:
        lines.append(f"  and {len(missing) - GAPS_SHOWN:,} more stretches; --json tells them all")
    return [*lines, *_refused(one), ""]


def _refused(one: Covered) -> list[str]:
    """Say which rows the source showed were refused, and why."""
    tiles = [tile for tile in one.found if tile.refused]
    lines = []
    for tile in tiles[:GAPS_SHOWN]:
        lines.append(f"  {moment(tile.span.since)}  {counted(tile.refused, 'row')} refused")
        lines += [f"    {cut(reason, REASON_SHOWN)}" for reason in tile.reasons]
    if len(tiles) > GAPS_SHOWN:
        lines.append(f"  and {len(tiles) - GAPS_SHOWN:,} more tiles with refused rows; --json tells them all")
    if tiles:
        lines.append(f"  each refused row: onefold list --parked --scope {one.noted.series.scope}.broken")
    return lines


def shown_share(number: int, total: int) -> str:
    """Write a share in percent: one tile of thousands that is not in is never rounded up to 100 %."""
    return "100.0" if number == total else f"{min(100 * number / total, 99.9):.1f}"


def _of_expected(one: Covered) -> str:
    return f"{rows_in(one):,} of {one.noted.expected(one.wanted):,}"


def _day(at: int) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%MZ")
