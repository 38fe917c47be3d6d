"""Onefold as a contestant on a server, by its public doors; durability is read through its own client."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any

from benchmarks.ledger.by_hand import SCOPE
from benchmarks.measure import Keys
from benchmarks.stores.player import Loop, Player, Tally, in_threads, one_by_one
from onefold import AsyncLedger, Key, Ledger
from onefold.stores import connect

Read = Callable[[Any], str]
"""Read durability back through the client of a store."""


def blocking(url: str, tasks: int, durability: Read, stack: ExitStack) -> Player:
    """A ledger, its calls in one thread or in many."""
    store = connect(url)
    ledger = Ledger(store)
    stack.callback(ledger.close)
    pool = stack.enter_context(ThreadPoolExecutor(tasks))
    tally = Tally()

    def call(key: str) -> None:
        ledger.call(Key(SCOPE, key), tally.effect)

    def batch(keys: Keys) -> None:
        claims = ledger.claim_many([Key(SCOPE, key) for key in keys])
        won = [claim for claim in claims if claim.won]
        for _ in won:
            tally.effect()
        ledger.settle_many([(claim, None) for claim in won])

    return Player(
        "onefold",
        durability(store.client),  # type: ignore[attr-defined]
        tally.counted(one_by_one(call)),
        tally.counted(in_threads([call] * tasks, pool)),
        tally.counted(batch),
    )


def awaited(url: str, tasks: int, durability: str, stack: ExitStack) -> Player:
    """A ledger, its calls awaited in one task or in many. It asks what the blocking one asks."""
    loop = Loop()
    stack.callback(loop.close)
    ledger = AsyncLedger(url)
    stack.callback(lambda: loop.run(ledger.close()))
    tally = Tally()

    async def call(key: str) -> None:
        await ledger.call(Key(SCOPE, key), tally.awaited)

    return Player(
        "onefold, awaited",
        durability,
        tally.counted(loop.one_by_one(call)),
        tally.counted(loop.in_tasks(call, tasks)),
    )
