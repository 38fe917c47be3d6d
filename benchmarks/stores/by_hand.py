"""The same work without Onefold, on any server: how a careful programmer's two statements are put to use.

The statements are in a file for each store. They write the tables that Onefold makes, with digests and tokens
made too, so that as much is stored and indexed. Nothing is renewed, taken over or asked a second time.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from secrets import token_hex
from typing import NamedTuple, Protocol

from benchmarks.ledger.by_hand import digest
from benchmarks.measure import Keys
from benchmarks.stores.player import Player, Tally, in_threads, one_by_one

LEASE = 60.0
RECEIPT = "null"


class Item(NamedTuple):
    """One key that is to be claimed."""

    id: bytes
    label: str
    token: str
    now: float

    @property
    def version(self) -> int:
        return int(self.now * 1_000_000)


class Hand(Protocol):
    """A client, and what is said through it. Whoever loses has read what is stored instead."""

    @property
    def durability(self) -> str:
        """Read back when a write is acknowledged."""

    def claim_one(self, item: Item) -> bool:
        """Write a claim where nothing is stored; say whether it was written."""

    def settle_one(self, item: Item) -> bool:
        """Write the receipt where the claim is still this one; say whether it was."""

    def claim(self, items: Sequence[Item]) -> Collection[bytes]:
        """Do the same for many; return the ids that were won."""

    def settle(self, items: Sequence[Item]) -> int:
        """Do the same for many; return how many were settled."""

    def close(self) -> None: ...


class Lost(Exception):
    """A claim was settled by nobody, though nobody contended."""


def player(opened: Callable[[], Hand], tasks: int, own_connections: bool, stack: ExitStack) -> Player:
    """Make a contestant of a hand, or of one for each thread where a client is no more than a connection."""
    hands = [opened() for _ in range(tasks if own_connections else 1)]
    for hand in hands:
        stack.callback(hand.close)
    pool = stack.enter_context(ThreadPoolExecutor(tasks))
    tally = Tally()
    calls = [_call(hand, tally) for hand in hands] * (1 if own_connections else tasks)
    return Player(
        "by hand",
        hands[0].durability,
        tally.counted(one_by_one(calls[0])),
        tally.counted(in_threads(calls, pool)),
        tally.counted(_batch(hands[0], tally)),
    )


def _call(hand: Hand, tally: Tally) -> Callable[[str], None]:
    def call(key: str) -> None:
        [item] = items([key])
        if hand.claim_one(item):
            tally.effect()
            if not hand.settle_one(item):
                raise Lost(key)

    return call


def _batch(hand: Hand, tally: Tally) -> Callable[[Keys], None]:
    def batch(keys: Keys) -> None:
        wanted = items(keys)
        won = hand.claim(wanted)
        mine = [item for item in wanted if item.id in won]
        for _ in mine:
            tally.effect()
        if mine and hand.settle(mine) != len(mine):
            raise Lost(f"one of {len(mine)}")

    return batch


def items(keys: Keys) -> list[Item]:
    """Make what is written for keys, in the order of their ids, so that batches do not wait in a ring."""
    now, drawn = time.time(), token_hex(16 * len(keys))
    made = [Item(digest(key), key, drawn[at * 32 : at * 32 + 32], now) for at, key in enumerate(keys)]
    return sorted(made)
