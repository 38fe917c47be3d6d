"""Subject: many single claims at once on SQLite at FULL, against one commit each by hand.

By hand there are two: as many threads with a connection each, which wait for each other's commits as workers
do that know nothing of each other; and one connection that takes the keys one after another, which is the
fastest order for SQLite. Onefold's leave together while a commit is under way.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path

from benchmarks.ledger import ours
from benchmarks.ledger.by_hand import ByHand, Crowd
from benchmarks.measure import Contestant, Sizes, Table, compare, rounds_of
from onefold import AsyncLedger

TARGETS = {"threads": 5.0, "tasks": 10.0}


def tables(sizes: Sizes, folder: Path) -> Iterator[Table]:
    few = sizes._replace(rounds=min(sizes.rounds, 7))  # a crowd takes its time
    with ExitStack() as stack:
        blocking, level = ours.on_sqlite(folder / "threads.db", "full", stack)
        awaited = ours.OursAwaited(AsyncLedger(ours.url(folder / "tasks.db", "full")))
        stack.callback(awaited.close)
        crowd = Crowd(folder / "crowd.db", "full", sizes.tasks)
        stack.callback(crowd.close)
        hand = ByHand(folder / "hand.db", "full")
        stack.callback(hand.close)
        by_hand = [
            Contestant(f"by hand, {sizes.tasks} connections", crowd.durability, crowd.claims),
            Contestant("by hand, one after another", hand.durability, hand.claims_one_by_one),
        ]
        for name, play in (("threads", blocking.claims_in_threads), ("tasks", awaited.claims_in_tasks)):
            many = Contestant(f"onefold, {sizes.tasks} {name}", level, partial(play, tasks=sizes.tasks))
            table = compare(
                f"{sizes.tasks} {name} at once on SQLite, a single claim and a commit each time",
                [many, *by_hand],
                rounds_of(few, sizes.tasks * sizes.claims, name),
            )
            table.aim(by_hand[0].name, TARGETS[name])
            yield table
