"""Subject: what a claim costs as the ledger grows, against the same statements on a file of the same size.

The index of ids grows for both; what is asked is that Onefold adds nothing that grows. Entries are made
inside SQLite, in random order like real digests, and the file is copied, so that both start from equal pages.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from benchmarks.ledger import ours
from benchmarks.ledger.batches import TARGET as SMALL
from benchmarks.ledger.by_hand import SCOPE, ByHand
from benchmarks.measure import Contestant, Row, Sizes, Table, compare, rounds_of

TARGETS = {100_000: 0.7, 1_000_000: 0.8}
"""How many times as fast as by hand, at least, from so many entries on; below that as on a small file."""

NOISE = 1.15
"""Growth may exceed the hand-written one by this factor: two medians of a shared machine differ that much."""

_GROW = f"""
WITH RECURSIVE n(at) AS (VALUES (1) UNION ALL SELECT at + 1 FROM n WHERE at < ?)
INSERT INTO onefold_entries
SELECT randomblob(32), '{SCOPE}', 'done', NULL, lower(hex(randomblob(16))), 1, 1, 'one-shot',
       1.0, 60.0, 1.0, 1, NULL, NULL, NULL, 'grown-' || at, '', 'null', NULL
FROM n
"""


def tables(sizes: Sizes, folder: Path) -> Iterator[Table]:
    grown, measured = folder / "grown.db", []
    before = 0
    for entries in sizes.entries:
        grow(grown, entries - before)
        before = entries
        table = _at(entries, sizes, folder, grown)
        measured.append(table)
        yield table
    yield growth(sizes.entries, measured)


def grow(path: Path, more: int) -> None:
    """Add done entries to a file, without waiting for the disk."""
    hand = ByHand(path, "off")
    hand.connection.execute("PRAGMA cache_size = -1000000")
    hand.connection.execute(_GROW, (more,))
    hand.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    hand.close()


def _at(entries: int, sizes: Sizes, folder: Path, grown: Path) -> Table:
    with ExitStack() as stack:
        copies = [
            Path(shutil.copyfile(grown, folder / f"{name}-{entries}.db")) for name in ("onefold", "hand")
        ]
        for copy in copies:
            stack.callback(copy.unlink)
        hand = ByHand(copies[1], "full")
        stack.callback(hand.close)
        contestants = [
            ours.batches("onefold", copies[0], "full", stack),
            Contestant("by hand", hand.durability, hand.batch),
        ]
        rounds = rounds_of(sizes, sizes.batch, f"grown-{entries}")
        title = f"Batches of {sizes.batch:,} on SQLite among {entries:,} entries, new keys: claim + settle"
        table = compare(title, contestants, rounds)
        table.aim("by hand", max([SMALL, *(least for size, least in TARGETS.items() if entries >= size)]))
        return table


def growth(entries: tuple[int, ...], measured: list[Table]) -> Table:
    """Say how much more a claim costs in the largest ledger than in the smallest."""
    rows = [_grown(measured[0].row(name), measured[-1].row(name)) for name in ("onefold", "by hand")]
    mine, hand = (row.growth or 0.0 for row in rows)
    rows[0].target, rows[0].reached = f"<= {hand * NOISE:.2f}x", mine <= hand * NOISE
    return Table(f"Growth of the cost of a claim from {entries[0]:,} to {entries[-1]:,} entries", rows)


def _grown(small: Row, large: Row) -> Row:
    assert small.micros_each is not None
    assert large.micros_each is not None
    growth = large.micros_each / small.micros_each
    more = large.micros_each - small.micros_each
    note = f"{growth:.2f}x as much as in the smallest, {more:+.1f} µs"
    return replace(large, ratio=None, growth=growth, target="", reached=None, note=note)
