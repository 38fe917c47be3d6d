"""Subject: single calls one after another on SQLite, against the statements by hand and against the peers.

At FULL the disk decides; at NORMAL, which `exactly-once` asks for by itself, the code does. A second file per
level is filled in batches, to say what a batch is worth against the fastest peer's single calls.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

from benchmarks.ledger import ours, peers
from benchmarks.ledger.by_hand import ByHand
from benchmarks.measure import Absent, Contestant, Sizes, Table, beside, compare, rounds_of

PEERS = (peers.EXACTLY_ONCE, peers.DBOS)


NEW = {"full": 1.0, "normal": 0.85}
DONE = 1.25
BATCHES = {"full": 20.0, "normal": 4.0}
"""How many times as fast as the fastest peer, at least: new keys, keys done before, our batches."""


def tables(sizes: Sizes, folder: Path) -> Iterator[Table]:
    for level in ("full", "normal"):
        with ExitStack() as stack:
            yield from _at(level, sizes, folder, stack)


def _at(level: str, sizes: Sizes, folder: Path, stack: ExitStack) -> Iterator[Table]:
    contestants = _contestants(level, sizes, folder, stack)
    rounds = rounds_of(sizes, sizes.singles, "single")
    new = compare(f"Single calls on SQLite at {level.upper()}, new keys", contestants, rounds)
    new.aim_at_fastest(PEERS, NEW[level])
    yield new
    again = compare(
        f"Single calls on SQLite at {level.upper()}, keys that were done before", contestants, rounds, "none"
    )
    again.aim_at_fastest(PEERS, DONE)
    yield again
    yield _batches_against(new, level, sizes, folder, stack)


def _contestants(level: str, sizes: Sizes, folder: Path, stack: ExitStack) -> Sequence[Contestant | Absent]:
    mine, read = ours.on_sqlite(folder / f"onefold-{level}.db", level, stack)
    hand = ByHand(folder / f"hand-{level}.db", level)
    stack.callback(hand.close)
    found: list[Contestant | Absent] = [
        Contestant("onefold", read, mine.single),
        Contestant("by hand", hand.durability, hand.single),
        peers.exactly_once(folder / f"exactly-once-{level}.db", level, stack),
    ]
    if level == "full":  # DBOS offers no other
        found.append(peers.dbos(folder / "dbos.db", sizes.slow, stack))
    return found


def _batches_against(singles: Table, level: str, sizes: Sizes, folder: Path, stack: ExitStack) -> Table:
    """Set our batches beside the single calls that were measured a moment ago."""
    mine = ours.batches(f"onefold, batches of {sizes.batch:,}", folder / f"batches-{level}.db", level, stack)
    table = compare(
        f"Our batches against the peers' single calls on SQLite at {level.upper()}, new keys",
        [mine],
        rounds_of(sizes, sizes.batch, "batch"),
    )
    table.rows += [beside(row, table.rows[0]) for row in singles.rows if row.contestant in PEERS]
    table.aim_at_fastest(PEERS, BATCHES[level])
    return table
