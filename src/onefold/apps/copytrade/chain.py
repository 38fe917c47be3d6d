"""Leaders' trades from a chain: subscribed logs and heads, receipts for what they announce, forks.

A log only announces a transaction; its trades are read from the receipt, which closes the group. Many logs of
one transaction are one question. A stream may lose logs, so history is read again and again behind the head,
and only that moves the cursor. It reads: what a node says is checked in `answers`, what is a trade is decided
in `logs`, what is gone in `forks`.
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Sequence
from contextlib import aclosing
from functools import partial
from typing import Any, NamedTuple

from onefold.apps.copytrade.answers import CHAIN_ID, Block, confirms, parse
from onefold.apps.copytrade.forks import Forks, Inclusion
from onefold.apps.copytrade.leaders import Leaders
from onefold.apps.copytrade.logs import Contracts, Filter, filters, stamp, trades
from onefold.apps.copytrade.rpc import Complaint, NodeError, Rpc, Unbelievable, question
from onefold.core.cursor import Cursor
from onefold.core.documents import load, named, save
from onefold.core.endpoints import Picks
from onefold.core.record import Broken, Fate, Page, Record
from onefold.runtime import current, now
from onefold.sources.websocket import Disconnected, Websocket
from onefold.worker.settings import Live

log = logging.getLogger("onefold.apps.copytrade")

AT_ONCE = 8
"""How many receipts are asked for side by side."""

JUMP = 10_000
"""Blocks: what is further away from the last known head is not believed without a second question."""

AHEAD = 86_400.0
"""Seconds: a block from further in the future has no time that can be believed."""

HANDLED = 2_000
KEPT = 100
"""How many watched transactions are stored; more of them are watched in memory alone."""

SET_ASIDE = 10_000
"""How many broken logs are remembered, so that a second reading does not complain again."""


_Read = tuple[list[Record], list[Broken]]


class Reading(NamedTuple):
    """How a chain is read; waits are in seconds, the rest in blocks."""

    depth: int
    back: int
    """How far back a first start looks."""
    span: int
    patience: float
    silence: float
    sweep: float
    """How often the blocks behind the head are read again."""


class ChainTrades:
    """Trades of leaders, as they are mined."""

    repeats = True
    reach = None
    timed = False

    def __init__(
        self,
        leaders: Leaders,
        contracts: Contracts,
        streams: Picks,
        rpc: Rpc,
        live: Live,
        how: Reading,
        chain: int,
        clock: Callable[[], float] = now,
    ) -> None:
        self._leaders = leaders
        self._followed: frozenset[str] = frozenset()
        self._contracts = contracts
        self._filters: list[Filter] = []
        self._rpc = rpc
        self._live = live
        self._how = how
        self._clock = clock
        self._forks = Forks(how.depth)
        self._swept = 0
        self._handled: OrderedDict[tuple[str, str], None] = OrderedDict()
        self._set_aside: OrderedDict[Broken, None] = OrderedDict()
        self._watched_key = named("copytrade", "watched")
        self._websocket = Websocket(
            streams,
            lambda message: parse(message, chain, self._filters),
            subscribe=self._subscriptions,
            confirms=confirms,
            backfill=self._missed,
            sweep=how.sweep,
            lag=float(how.depth),
            silence=how.silence,
        )
        self.endpoints = (streams, rpc.nodes)
        self.backoff = self._websocket.backoff
        self.lag = self._websocket.lag

    def _subscriptions(self) -> list[dict[str, Any]]:
        wanted: list[tuple[Any, ...]] = [*(("logs", one) for one in self._filters), ("newHeads",)]
        asked = [question(at, "eth_subscribe", *one) for at, one in enumerate(wanted, 1)]
        return [question(CHAIN_ID, "eth_chainId"), *asked]

    @property
    def head(self) -> int:
        """The last block that was heard of; 0 before the first."""
        return self._forks.number

    async def tell(self, fates: Sequence[tuple[Record, Fate]]) -> None:
        """Hear which retractions are accounted for: what they retract is watched no longer."""
        told = [(one.retracts, one.id, fate) for one, fate in fates if one.retracts is not None]
        # A transaction holds several trades: it is watched until each of them is accounted for.
        still = {transaction for transaction, _, fate in told if fate == "open"}
        before = dict(self._forks.watched)
        for transaction, hash, _ in told:
            if transaction not in still:
                self._forks.forget(transaction, hash)
        if self._forks.watched != before:
            await self._remember(before)

    async def read(self, cursor: Cursor) -> AsyncGenerator[Page, None]:
        """Live through one connection, or until the leaders are others."""
        # What an earlier connection read may never have been handed on, as when the store was unreachable.
        # The cursor has not passed it, so it is read again, and must not count as handled.
        self._handled.clear()
        [text] = await self._live.ask(load([self._watched_key]))
        self._forks.take(text.value if text else {})
        self.follow(await self._leaders.since())
        async with aclosing(self._websocket.read(cursor)) as pages:
            async for page in pages:
                yield await self.translated(page)
                if self._followed != (await self._leaders.since()).keys():
                    log.info("the leaders are others now: subscribing again")
                    return

    def follow(self, leaders: Iterable[str]) -> None:
        """Read the trades of these leaders from now on."""
        followed = frozenset(leaders)
        if followed == self._followed:
            return
        self._followed = followed
        self._filters = filters(sorted(followed), self._contracts)
        # A transaction that was read for others may hold a trade of a new leader.
        self._handled.clear()

    async def translated(self, page: Page) -> Page:
        """Turn what was announced into trades, and what a fork took away into retractions."""
        before = dict(self._forks.watched)
        announced: dict[str, Block] = {}
        marks: list[Record] = []
        broken = [*page.broken]
        for one in page.records:
            try:
                marks += self._hear(one, announced)
            except ValueError as error:
                broken.append(Broken(one.id, f"it is not believed: {error}"))
        traded, unread = await self._receipts(announced)
        gone = await self._gone()
        if self._forks.watched != before:
            await self._remember(before)
        return Page([*traded, *gone, *marks], page.gap, page.more, self._news([*broken, *unread]))

    def _hear(self, one: Record, announced: dict[str, Block]) -> list[Record]:
        """Take note of a head or of a log; a mark of how far was read is passed on."""
        match one.body:
            case {"head": head}:
                self._check_distance(int(one.at))
                self._forks.head(int(one.at), head["hash"], head["parentHash"])
            case {"log": seen}:
                if "asked" not in one.body:  # it is of a block that somebody announced
                    self._check_distance(int(one.at))
                block = Block(int(one.at), (seen.get("blockHash") or "").lower())
                self._announce(seen["transactionHash"].lower(), block, seen.get("removed", False), announced)
            case _:
                return [one]
        return []

    def _announce(self, transaction: str, block: Block, removed: bool, announced: dict[str, Block]) -> None:
        if not removed:
            announced[transaction] = block
            return
        self._forks.remove(transaction, block.hash)
        self._handled.pop((transaction, block.hash), None)
        if transaction in announced and announced[transaction].hash == block.hash:
            del announced[transaction]

    def _check_distance(self, number: int) -> None:
        known = max(self.head, self._swept)
        if known and abs(number - known) > JUMP:
            raise ValueError(f"it is of block {number}, and the chain has come to {known}")

    def _news(self, broken: Sequence[Broken]) -> list[Broken]:
        """Leave out what was set aside before: blocks are read again with every sweep."""
        news = [one for one in dict.fromkeys(broken) if one not in self._set_aside]
        self._set_aside.update(dict.fromkeys(news))
        while len(self._set_aside) > SET_ASIDE:
            self._set_aside.popitem(last=False)
        return news

    # ----- receipts

    async def _receipts(self, announced: dict[str, Block]) -> tuple[list[Record], list[Broken]]:
        fresh = [(one, block) for one, block in announced.items() if (one, block.hash) not in self._handled]
        room = asyncio.Semaphore(AT_ONCE)

        async def one(transaction: str, block: Block) -> _Read:
            async with room:
                return await self._receipt(transaction, block)

        records: list[Record] = []
        broken: list[Broken] = []
        for (transaction, block), (traded, unread) in zip(
            fresh, await asyncio.gather(*[one(*pair) for pair in fresh]), strict=True
        ):
            records += traded
            broken += unread
            self._handled[transaction, block.hash] = None
        while len(self._handled) > HANDLED:
            self._handled.popitem(last=False)
        return records, broken

    async def _receipt(self, transaction: str, block: Block) -> _Read:
        """Ask for a receipt, with the time of its block; without it the connection is given up.

        Then the next one reads from the cursor on, which has not passed this transaction.
        """
        try:
            fits = partial(self._fits, block)
            receipt = await self._rpc.receipt(transaction, block, self._how.patience, fits)
            number = int(receipt["blockNumber"], 16)
            if abs(number - block.number) > JUMP:
                raise ValueError(f"it is of block {number}, and {block.number} was announced")
            time = stamp(receipt) or await self._rpc.timestamp(number)
            if time > self._clock() + AHEAD:
                raise ValueError(f"its block is of {time}, which is in the future")
        except (Unbelievable, ValueError) as error:
            return [], [Broken(transaction, f"its receipt cannot be read: {error}")]
        except NodeError as error:
            raise Disconnected(str(error)) from error
        return self._traded(receipt, number, time)

    def _fits(self, block: Block, receipt: dict[str, Any]) -> bool:
        """Say whether a receipt can be believed without a second node.

        A log announced it, so it has logs, did not fail, and is of a block near the announced one.
        """
        announced = bool(receipt["logs"]) and receipt["status"] == "0x1"
        near = abs(int(receipt["blockNumber"], 16) - block.number) <= JUMP
        timely = (stamp(receipt) or 0) <= self._clock() + AHEAD
        return announced and near and timely and not trades(receipt, self._followed, self._contracts, 0)[1]

    def _traded(self, receipt: dict[str, Any], number: int, time: int) -> _Read:
        found, broken = trades(receipt, self._followed, self._contracts, time)
        bodies = [one.body() for one in found]
        if found:
            self._forks.include(receipt["transactionHash"], number, receipt["blockHash"], bodies)
        # Only what history showed moves the cursor: a stream may have lost what came before this block.
        at = min(number, self._swept)
        return [
            Record("/".join(one.parts), body, at) for one, body in zip(found, bodies, strict=True)
        ], broken

    # ----- forks

    async def _gone(self) -> list[Record]:
        """Retract what a fork took away and nobody included again."""
        records: list[Record] = []
        for transaction in self._forks.due():
            known = self._forks.watched.get(transaction)
            if known is None:
                continue
            try:
                receipt = await self._rpc.final(transaction, self._forks.number)
                if receipt is None and known.gone is not None:
                    await self._search(transaction, known, known.gone)
            except NodeError as error:  # it stays due, and is looked at with the next head
                log.info("whether %s is still there is not known: %s", transaction, error)
                continue
            if self._forks.watched.get(transaction) != known:
                continue  # `tell` heard meanwhile that its retraction is accounted for
            gone = self._forks.judge(transaction, receipt)
            if gone is not None:
                log.warning("a fork took %s away", transaction)
                at = min(gone.block, self._swept)
                records += [Record(gone.hash, body, at, retracts=transaction) for body in gone.trades]
        return records

    async def _search(self, transaction: str, known: Inclusion, gone: int) -> None:
        """Raise if logs show a transaction of which a node shows no receipt: then the node is wrong.

        A fork may put it below its first block, and it is looked for until `depth` blocks after it was gone.
        """
        wanted = filters(sorted({one["leader"] for one in known.trades}), self._contracts)
        since = max(known.block - self._how.depth, 0)
        async with aclosing(self._logs(wanted, since, gone + self._how.depth - 1)) as stretches:
            async for _, read in stretches:
                shown = [one.body["log"]["transactionHash"].lower() for found, _ in read for one in found]
                if transaction in shown:
                    wrong = f"it shows logs of {transaction}, and no receipt of it"
                    await self._rpc.give_up(wrong)
                    raise NodeError(wrong)

    async def _remember(self, before: dict[str, Any]) -> None:
        """Store what is watched: a worker that dies leaves it to the next."""
        mine, ended = self._forks.text(), before.keys() - self._forks.watched.keys()

        def change(stands: Any) -> dict[str, Any]:
            merged = {**(stands or {}), **mine}
            return dict([(one, known) for one, known in merged.items() if one not in ended][-KEPT:])

        await self._live.ask(save(self._watched_key, current().token(), change))

    # ----- history

    async def _missed(self, cursor: Cursor) -> AsyncIterator[Page]:
        """Read the logs since a block; a node that finds a stretch too long is asked for half of it.

        A node may refuse the newest blocks, because it, or another one behind its address, is not there yet.
        Those are left to the next sweep.
        """
        head = await self._head()
        since = max(head - self._how.back if cursor.at is None else int(cursor.at), 0)
        at = since
        try:
            async with aclosing(self._logs(self._filters, since, head)) as stretches:
                async for until, read in stretches:
                    self._swept = max(self._swept, until)
                    yield Page([one for found, _ in read for one in found], None, until < head, _broken(read))
                    at = until + 1
        except Complaint as error:
            if at + self._how.depth <= head:
                raise
            log.info("block %d is left to the next sweep: %s", at, error)
        yield Page([_mark(at - 1)] if at > since else [])

    async def _logs(
        self, wanted: Sequence[Filter], since: int, until: int
    ) -> AsyncGenerator[tuple[int, list[_Read]], None]:
        """Read logs stretch by stretch, each with its last block; raise if a single block is refused."""
        # Whoever trades moves shares, so what moved money alone need not be asked for.
        at, span = since, self._how.span
        while at <= until:
            last = min(at + span - 1, until)
            try:
                read = [await self._rpc.logs(one, at, last) for one in wanted[:3]]
            except Complaint:
                if last == at:
                    raise
                span = (last - at + 1) // 2
                continue
            yield last, read
            at = last + 1

    async def _head(self) -> int:
        """Ask how far the chain has come; a head far away from what is known needs a block that exists."""
        head = await self._rpc.head(self.head)
        known = max(self.head, self._swept)
        if abs(head - known) > JUMP:
            await self._rpc.timestamp(max(head - self._how.depth, 0))
        return head


def _broken(read: Sequence[_Read]) -> list[Broken]:
    return [one for _, broken in read for one in broken]


def _mark(block: int) -> Record:
    return Record(f"block-{block}", {"block": block}, block)
