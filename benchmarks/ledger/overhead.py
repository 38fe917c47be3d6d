"""Subject: what the protocol itself costs per delivery, on a store that costs next to nothing.

It is the one absolute figure here, so it is told in time of the processor: a busy machine stretches that less
than the time on the clock.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks.ledger import ours
from benchmarks.measure import Contestant, Sizes, Table, compare, rounds_of

TARGET = 20.0
"""Microseconds per delivery, key made, claimed and settled."""


def tables(sizes: Sizes, folder: Path) -> Iterator[Table]:
    batches = Contestant(f"onefold, batches of {sizes.batch:,}", "memory", ours.on_memory().batch)
    singles = Contestant("onefold, single calls", "memory", ours.on_memory().single)
    table = compare(
        "The protocol on the memory store, new keys, in time of the processor",
        [batches, singles],
        rounds_of(sizes, sizes.batch, "overhead"),
        clock=time.process_time,
    )
    table.aim_below(batches.name, TARGET)
    table.aim_below(singles.name, TARGET)
    yield table
