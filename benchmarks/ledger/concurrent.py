"""Subject: many single claims at once on SQLite at FULL, against one commit each by hand.

By hand they go one after another through one connection, which is the fastest order for SQLite: it has one
writer at a time. Onefold's leave together while a commit is under way.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path

from benchmarks.ledger import ours
from benchmarks.ledger.by_hand import ByHand
from benchmarks.measure import Contestant, Sizes, Table, compare, rounds_of
from onefold import AsyncLedger

TARGET = 10.0


def tables(sizes: Sizes, folder: Path) -> Iterator[Table]:
    with ExitStack() as stack:
        blocking, level = ours.on_sqlite(folder / "threads.db", "full", stack)
        awaited = ours.OursAwaited(AsyncLedger(ours.url(folder / "tasks.db", "full")))
        stack.callback(awaited.close)
        hand = ByHand(folder / "hand.db", "full")
        stack.callback(hand.close)
        one_by_one = Contestant("by hand, one commit each", hand.durability, hand.claims_one_by_one)
        for name, play in (("threads", blocking.claims_in_threads), ("tasks", awaited.claims_in_tasks)):
            many = Contestant(f"onefold, {sizes.tasks} {name}", level, partial(play, tasks=sizes.tasks))
            table = compare(
                f"{sizes.tasks} {name} at once on SQLite, a single claim each time",
                [many, one_by_one],
                rounds_of(sizes, sizes.tasks * sizes.claims, name),
            )
            table.aim(one_by_one.name, TARGET)
            yield table
