"""Subject: batches on SQLite, claimed and settled together, against the same statements by hand."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

from benchmarks.ledger import ours
from benchmarks.ledger.by_hand import ByHand
from benchmarks.measure import Contestant, Sizes, Table, compare, rounds_of

TARGET = 0.6


def tables(sizes: Sizes, folder: Path) -> Iterator[Table]:
    with ExitStack() as stack:
        hand = ByHand(folder / "hand.db", "full")
        stack.callback(hand.close)
        contestants = [
            ours.batches("onefold", folder / "onefold.db", "full", stack),
            Contestant("by hand", hand.durability, hand.batch),
        ]
        rounds = rounds_of(sizes, sizes.batch, "batch")
        new = compare(f"Batches of {sizes.batch:,} on SQLite, new keys: claim + settle", contestants, rounds)
        new.aim("by hand", TARGET)
        yield new
        yield compare(
            f"Batches of {sizes.batch:,} on SQLite, keys that were done before", contestants, rounds, "none"
        )
