"""Subject: single calls in memory, against `idemkit`, which has no SQLite.

Its backend walks over everything it has stored at each claim, so its figures fall as keys grow; the number of
keys is kept small and stated.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

from benchmarks.ledger import ours, peers
from benchmarks.measure import Contestant, Sizes, Table, compare, rounds_of
from onefold import AsyncLedger


def tables(sizes: Sizes, folder: Path) -> Iterator[Table]:
    with ExitStack() as stack:
        awaited = ours.OursAwaited(AsyncLedger("memory:"))
        stack.callback(awaited.close)
        contestants = [
            Contestant("onefold, awaited", "memory", awaited.single),
            Contestant("onefold, blocking", "memory", ours.on_memory().single),
            peers.idemkit(stack),
        ]
        few = sizes._replace(rounds=min(sizes.rounds, 4))
        rounds = rounds_of(few, sizes.in_memory, "memory")
        many = len(rounds) * sizes.in_memory
        yield compare(f"Single calls in memory, new keys, from none to {many:,}", contestants, rounds)
        yield compare(
            f"Single calls in memory, keys that were done before, among {many:,}", contestants, rounds, "none"
        )
