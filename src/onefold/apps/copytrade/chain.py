"""Leaders' trades from a chain: subscribed logs and heads, receipts for what they announce, forks.

A log only announces a transaction; its trades are read from the receipt, which closes the group. Many logs of
one transaction are one question. It reads: what is a trade is decided in `logs`, what is gone in `forks`.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections import OrderedDict
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing
from secrets import token_hex
from typing import Any, NamedTuple

from onefold.apps.copytrade.forks import Forks
from onefold.apps.copytrade.logs import Contracts, Filter, filters, stamp, trades
from onefold.apps.copytrade.rpc import Block, Complaint, NodeError, Rpc, question
from onefold.core.cursor import Cursor
from onefold.core.documents import load, named, save
from onefold.core.endpoints import Picks
from onefold.core.record import Broken, Fate, Page, Record
from onefold.sources.websocket import Disconnected, Websocket
from onefold.worker.settings import Live

log = logging.getLogger("onefold.apps.copytrade")

MARK_EVERY = 30
"""After so many heads the cursor moves on, though nobody traded."""

AT_ONCE = 8
"""How many receipts are asked for side by side."""

HANDLED = 2_000
KEPT = 100
"""How many watched transactions are stored; more of them are watched in memory alone."""


class Reading(NamedTuple):
    """How a chain is read; waits are in seconds, the rest in blocks."""

    depth: int
    back: int
    """How far back a first start looks."""
    span: int
    patience: float
    silence: float


class ChainTrades:
    """Trades of leaders, as they are mined."""

    repeats = True
    reach = None
    timed = False

    def __init__(
        self,
        leaders: Sequence[str],
        contracts: Contracts,
        streams: Picks,
        nodes: Picks,
        live: Live,
        how: Reading,
    ) -> None:
        self._leaders = frozenset(leaders)
        self._contracts = contracts
        self._filters = filters(leaders, contracts)
        self._rpc = Rpc(nodes)
        self._live = live
        self._how = how
        self._forks = Forks(how.depth)
        self._handled: OrderedDict[tuple[str, str], None] = OrderedDict()
        self._watched_key = named("copytrade", "watched")
        self._heads = 0
        self._websocket = Websocket(
            streams,
            parse,
            subscribe=[question(at, "eth_subscribe", *one) for at, one in enumerate(self._wanted(), 1)],
            confirms=lambda message: isinstance(json.loads(message).get("result"), str),
            backfill=self._missed,
            # A node that is asked for history may be behind the one that streams.
            again=max(10.0, how.patience),
            lag=float(how.depth),
            silence=how.silence,
        )
        self.endpoints = (streams, nodes)
        self.backoff = self._websocket.backoff
        self.lag = self._websocket.lag

    def _wanted(self) -> list[tuple[Any, ...]]:
        return [*(("logs", one) for one in self._filters), ("newHeads",)]

    @property
    def head(self) -> int:
        """The last block that was heard of; 0 before the first."""
        return self._forks.number

    async def tell(self, fates: Sequence[tuple[Record, Fate]]) -> None:
        """A chain hears nothing."""

    async def aclose(self) -> None:
        """Let go of connections."""
        await self._rpc.aclose()

    async def read(self, cursor: Cursor) -> AsyncGenerator[Page, None]:
        """Live through one connection."""
        [text] = await self._live.ask(load([self._watched_key]))
        self._forks.take(text.value if text else {})
        async with aclosing(self._websocket.read(cursor)) as pages:
            async for page in pages:
                yield await self._translated(page)

    async def _translated(self, page: Page) -> Page:
        before = dict(self._forks.watched)
        announced: dict[str, Block] = {}
        found = [mark for one in page.records if (mark := self._hear(one, announced))]
        traded, broken = await self._receipts(announced)
        gone = await self._gone()
        if self._forks.watched != before:
            await self._remember(before)
        return Page([*traded, *gone, *found], page.gap, page.more, (*page.broken, *broken))

    def _hear(self, one: Record, announced: dict[str, Block]) -> Record | None:
        """Take note of a head or of a log; a head now and then tells how far was read."""
        match one.body:
            case {"head": head}:
                self._forks.head(one.at, head["hash"], head["parentHash"])  # type: ignore[arg-type]
                self._heads += 1
                return _mark(int(one.at)) if self._heads % MARK_EVERY == 0 else None
            case {"log": {"removed": True} as gone}:
                transaction, block = gone["transactionHash"].lower(), gone["blockHash"]
                self._forks.remove(transaction, block)
                self._handled.pop((transaction, block), None)
                if transaction in announced and announced[transaction].hash == block:
                    del announced[transaction]
            case {"log": seen}:
                announced[seen["transactionHash"].lower()] = Block(seen["blockNumber"], seen["blockHash"])
            case _:
                return one
        return None

    # ----- receipts

    async def _receipts(self, announced: dict[str, Block]) -> tuple[list[Record], list[Broken]]:
        fresh = [(one, block) for one, block in announced.items() if (one, block.hash) not in self._handled]
        room = asyncio.Semaphore(AT_ONCE)

        async def one(transaction: str, block: Block) -> dict[str, Any]:
            async with room:
                return await self._receipt(transaction, block)

        receipts = await asyncio.gather(*[one(*pair) for pair in fresh])
        records: list[Record] = []
        broken: list[Broken] = []
        for (transaction, block), receipt in zip(fresh, receipts, strict=True):
            try:
                records += self._traded(receipt)
            except (ValueError, KeyError, TypeError) as error:
                broken.append(Broken(transaction, f"its receipt cannot be read: {error}"))
            self._handled[transaction, block.hash] = None
        while len(self._handled) > HANDLED:
            self._handled.popitem(last=False)
        return records, broken

    async def _receipt(self, transaction: str, block: Block) -> dict[str, Any]:
        """Ask for a receipt, with the time of its block; without it the connection is given up.

        Then the next one reads from the cursor on, which has not passed this transaction.
        """
        try:
            receipt = await self._rpc.receipt(transaction, block, self._how.patience)
            time = stamp(receipt) or await self._rpc.timestamp(receipt["blockNumber"])
        except NodeError as error:
            raise Disconnected(str(error)) from error
        return {**receipt, "timestamp": time}

    def _traded(self, receipt: dict[str, Any]) -> list[Record]:
        found = trades(receipt, self._leaders, self._contracts, receipt["timestamp"])
        bodies = [one.body() for one in found]
        block = int(receipt["blockNumber"], 16)
        if found:
            self._forks.include(receipt["transactionHash"].lower(), block, receipt["blockHash"], bodies)
        return [Record("/".join(one.parts), body, block) for one, body in zip(found, bodies, strict=True)]

    # ----- forks

    async def _gone(self) -> list[Record]:
        """Retract what a fork took away and nobody included again."""
        records: list[Record] = []
        for transaction in self._forks.due():
            try:
                receipt = await self._rpc.final(transaction, self._forks.number)
            except NodeError as error:  # it stays due, and is looked at with the next head
                log.info("whether %s is still there is not known: %s", transaction, error)
                continue
            gone = self._forks.judge(transaction, receipt)
            if gone is not None:
                log.warning("a fork took %s away", transaction)
                records += [Record(gone.hash, body, gone.block, retracts=transaction) for body in gone.trades]
        return records

    async def _remember(self, before: dict[str, Any]) -> None:
        """Store what is watched: a worker that dies leaves it to the next."""
        mine, ended = self._forks.text(), before.keys() - self._forks.watched.keys()

        def change(stands: Any) -> dict[str, Any]:
            merged = {**(stands or {}), **mine}
            return dict([(one, known) for one, known in merged.items() if one not in ended][-KEPT:])

        await self._live.ask(save(self._watched_key, token_hex(16), change))

    # ----- history

    async def _missed(self, cursor: Cursor) -> AsyncIterator[Page]:
        """Read the logs since a block; a node that finds a stretch too long is asked for half of it."""
        # Whoever trades moves shares, so what moved money alone need not be asked for.
        asked = self._filters[:3]
        head = await self._rpc.head(self.head)
        since = head - self._how.back if cursor.at is None else int(cursor.at)
        at, span = max(since, 0), self._how.span
        while at <= head:
            until = min(at + span - 1, head)
            try:
                found = [one for wanted in asked for one in await self._logs(wanted, at, until)]
            except Complaint:
                if span == 1:
                    raise
                span = max(span // 2, 1)
                continue
            yield Page(found, more=until < head)
            at = until + 1
        yield Page([_mark(head)])

    async def _logs(self, wanted: Filter, since: int, until: int) -> list[Record]:
        asked = {**wanted, "fromBlock": hex(since), "toBlock": hex(until)}
        return [_logged(one) for one in await self._rpc.ask("eth_getLogs", asked)]


def parse(message: str | bytes) -> Record | None:
    """Read a message of a node: a log, a head, or nothing of interest."""
    told = json.loads(message)
    if "error" in told:
        raise Disconnected(f"a subscription was refused: {str(told['error'])[:200]}")
    if told.get("method") != "eth_subscription":
        return None
    shown = told["params"]["result"]
    if "topics" in shown:
        return _logged(shown)
    return Record(f"head-{shown['hash']}", {"head": shown}, int(shown["number"], 16))


def _logged(shown: dict[str, Any]) -> Record:
    return Record(
        f"{shown['transactionHash']}/{shown['logIndex']}", {"log": shown}, int(shown["blockNumber"], 16)
    )


def _mark(block: int) -> Record:
    return Record(f"block-{block}", {"block": block}, block)
