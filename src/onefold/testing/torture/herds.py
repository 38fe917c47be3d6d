"""Let thousands claim one key at the same moment, over many connections: there must be one winner.

Reported, not judged by time: how long the herd took says something of the store and of the machine.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from typing import NamedTuple

from onefold import AsyncLedger, Key, Terms
from onefold.core.errors import OnefoldError
from onefold.testing.torture.places import place

KEY = Key("torture", "herd")
TERMS = Terms(lease=600)


class Herd(NamedTuple):
    """What a herd was told."""

    claimants: int
    connections: int
    told: Counter[str]
    slowest: float
    """Seconds that 99 of 100 claimants waited at most."""
    seconds: float

    @property
    def holds(self) -> bool:
        return self.told["won"] == 1 and self.told["busy"] == self.claimants - 1

    def __str__(self) -> str:
        told = ", ".join(f"{word} {self.told[word]}" for word in ("won", "busy", "unanswered"))
        return (
            f"{self.claimants} claimants over {self.connections} connections in {self.seconds:.1f} s: "
            f"{told}; 99 of 100 waited at most {self.slowest * 1000:.0f} ms"
        )


def herd(scheme: str, url: str, claimants: int, connections: int) -> Herd:
    """Let the herd loose."""
    place(scheme).warm()
    with place(scheme).lend(url):
        return asyncio.run(_run(url, claimants, connections))


async def _run(url: str, claimants: int, connections: int) -> Herd:
    ledgers = [AsyncLedger(url) for _ in range(connections)]
    for ledger in ledgers:
        await ledger.look(KEY)  # connected before the start
    started = time.perf_counter()
    told = await asyncio.gather(*(_claim(ledgers[n % connections]) for n in range(claimants)))
    seconds = time.perf_counter() - started
    for ledger in ledgers:
        await ledger.close()
    waits = sorted(wait for _, wait in told)
    return Herd(
        claimants, connections, Counter(word for word, _ in told), waits[len(waits) * 99 // 100], seconds
    )


async def _claim(ledger: AsyncLedger) -> tuple[str, float]:
    started = time.perf_counter()
    try:
        claim = await ledger.claim(KEY, terms=TERMS)
        word: str = claim.state
    except OnefoldError:
        word = "unanswered"
    return word, time.perf_counter() - started
