"""Which trades a fork of the chain took away, decided from heads, removals and receipts.

Every trade is watched until it is `depth` blocks deep. One that a fork took away, by a `removed` log or by a
head whose parent is another, is retracted only if it was not included again for `depth` blocks. It asks
nobody: it says which receipts to look at, and is told what they were.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

Body = Mapping[str, Any]
Told = Mapping[str, Any] | None


class Inclusion(NamedTuple):
    """Where a transaction stands, the trades in it, and at which head it was seen to be gone."""

    block: int
    hash: str
    trades: Sequence[Body]
    gone: int | None = None


class Forks:
    """What is known of the last blocks, and of the transactions that are not deep enough yet."""

    def __init__(self, depth: int) -> None:
        self.depth = depth
        self.number = 0
        self.watched: dict[str, Inclusion] = {}
        self._hashes: dict[int, str] = {}

    def include(self, transaction: str, block: int, hash: str, trades: Sequence[Body]) -> None:
        """Watch a transaction, or take note that it stands elsewhere now."""
        if block + self.depth > self.number:
            self.watched[transaction] = Inclusion(block, hash, trades)

    def remove(self, transaction: str, hash: str) -> None:
        """Hear of a removed log."""
        known = self.watched.get(transaction)
        if known is not None and known.hash == hash and known.gone is None:
            self.watched[transaction] = known._replace(gone=max(self.number, known.block))

    def head(self, number: int, hash: str, parent: str) -> None:
        """Hear of a new head; what it contradicts is gone."""
        self._hashes = {at: one for at, one in self._hashes.items() if number - 4 * self.depth < at < number}
        self._hashes |= {number - 1: parent, number: hash}
        self.number = number
        for transaction, known in self.watched.items():
            stands = self._hashes.get(known.block, known.hash if known.block < number else "")
            if known.gone is None and stands != known.hash:
                self.watched[transaction] = known._replace(gone=number)

    def due(self) -> list[str]:
        """Say which transactions are to be looked at: deep enough, or gone for long enough."""
        return [
            one
            for one, known in self.watched.items()
            if self.number >= (known.block if known.gone is None else known.gone) + self.depth
        ]

    def judge(self, transaction: str, receipt: Told) -> Inclusion | None:
        """Hear the receipt of one that was due; what is returned has to be retracted.

        It is watched, and due, until somebody says by `forget` that its retraction is accounted for: whoever
        dies before that leaves it to the next worker.
        """
        known = self.watched[transaction]
        if receipt is None and known.gone is None:
            self.watched[transaction] = known._replace(gone=self.number)
            return None
        if receipt is None:
            return known
        del self.watched[transaction]
        self.include(transaction, int(receipt["blockNumber"], 16), receipt["blockHash"], known.trades)
        return None

    def forget(self, transaction: str, hash: str) -> None:
        """Watch a transaction no longer that was retracted, unless it stands in another block by now."""
        known = self.watched.get(transaction)
        if known is not None and known.hash == hash:
            del self.watched[transaction]

    # ----- as a text

    def text(self) -> dict[str, Any]:
        """Write what is watched, so that a worker that starts again goes on watching."""
        return {one: list(known) for one, known in self.watched.items()}

    def take(self, text: Mapping[str, Any]) -> None:
        """Go on with what another worker, or an earlier life, has watched."""
        for one, known in text.items():
            self.watched.setdefault(one, Inclusion(*known))
