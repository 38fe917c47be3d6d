"""Subject: what the protocol itself costs per delivery, on a store that costs next to nothing.

It is the one absolute figure here, and neighbours on the machine can only add to it; so it is told in time of
the processor, and the least of the rounds counts. Each round has a store of its own, because what stays in
memory is walked over by the garbage collector, which is no cost of the protocol's.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks.ledger import ours
from benchmarks.measure import Contestant, Keys, Sizes, Table, compare, rounds_of
from onefold import AsyncLedger

BATCH, SINGLE, AWAITED = 10.0, 20.0, 30.0
"""Microseconds per delivery at most: key made, claimed and settled."""


def tables(sizes: Sizes, folder: Path) -> Iterator[Table]:
    batches = Contestant(
        f"onefold, batches of {sizes.batch:,}", "memory", lambda keys: ours.on_memory().batch(keys)
    )
    singles = Contestant("onefold, single calls", "memory", lambda keys: ours.on_memory().single(keys))
    awaited = Contestant("onefold, single calls, async", "memory", _awaited)
    table = compare(
        "The protocol on the memory store, new keys, in time of the processor, least of the rounds",
        [batches, singles, awaited],
        rounds_of(sizes, sizes.batch, "overhead"),
        clock=time.process_time,
        counts=min,
    )
    table.aim_below(batches.name, BATCH)
    table.aim_below(singles.name, SINGLE)
    table.aim_below(awaited.name, AWAITED)
    yield table


def _awaited(keys: Keys) -> int:
    mine = ours.OursAwaited(AsyncLedger("memory:"))
    try:
        return mine.single(keys)
    finally:
        mine.close()
