"""Mistakes that copytrade could make, each planted alone, to see that its histories find them.

Several are mistakes that it did make, found by these histories. This module imports nothing of `onefold` at
its top: planting imports that anew.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing
from typing import Any

from proof.sim.bug import Bug, Swap

APP = "onefold.apps.copytrade"

Original = Callable[..., Any]


def _at_its_own_block(original: Original, self: Any, receipt: Any, number: int, time: int) -> Any:
    records, broken = original(self, receipt, number, time)
    return [one._replace(at=number) for one in records], broken


def _without_asset(original: Original, record: Any) -> Any:
    parts = original(record)
    return parts and parts[:2]


async def _made_anew(original: Original, self: Any, order: Any) -> Any:
    from onefold.runtime.http import NoAnswer

    try:
        return await original(self, order)
    except NoAnswer:
        return await original(self, {**order, "client_id": f"{order['client_id']}-again"})


async def _of_the_beginning(original: Original, self: Any) -> Any:
    return self._since or await original(self)


async def _of_seconds_ago(original: Original, self: Any) -> Any:
    return await self.since()


def _not_taken_over(original: Original, self: Any, text: Any) -> None:
    pass


def _gone_at_once(original: Original, self: Any) -> list[str]:
    gone = [one for one, known in self.watched.items() if known.gone is not None]
    return [*gone, *(one for one in original(self) if one not in gone)]


def _never_gone(original: Original, self: Any, transaction: str, receipt: Any) -> None:
    original(self, transaction, receipt)
    self.watched.pop(transaction, None)


async def _believed(original: Original, self: Any, transaction: str, known: Any, gone: int) -> None:
    pass


async def _without_trades(
    original: Original, self: Any, transaction: str, block: Any, patience: float, fits: Any
) -> Any:
    if await self.ask("eth_getTransactionReceipt", transaction) is not None:
        return await original(self, transaction, block, patience, fits)
    place = {"blockNumber": hex(block.number), "blockHash": block.hash}
    return {"transactionHash": transaction, "status": "0x1", **place, "logs": []}


class _Kept(OrderedDict[Any, None]):
    def clear(self) -> None:
        pass


async def _handled_for_ever(original: Original, self: Any, cursor: Any) -> AsyncGenerator[Any, None]:
    self._handled = _Kept(self._handled)
    async with aclosing(original(self, cursor)) as pages:
        async for page in pages:
            yield page


async def _nothing_missed(original: Original, self: Any, since: Any) -> AsyncIterator[Any]:
    return
    yield


async def _counted_in_memory(original: Original, self: Any, one: Any, request: Any) -> str | None:
    if request["leaves"]:
        return None
    orders = self.__dict__.setdefault("_orders", {}).setdefault(one.leader, set())
    orders.add(request["order"]["client_id"])
    return None if len(orders) <= request["limits"][0] else "the limit is reached"


def _all_that_is_held(original: Original, held: Any, order: str) -> Any:
    return original({**held, "selling": {}} if held else held, order)


async def _not_again(original: Original, self: Any, one: Any, request: Any) -> bool:
    return True


def _forgotten_at_once(original: Original, self: Any, transaction: str, receipt: Any) -> Any:
    gone = original(self, transaction, receipt)
    if gone is not None:
        del self.watched[transaction]
    return gone


def _swapped(name: str, sentence: str, module: str, qualname: str, replacement: Original) -> Bug:
    return Bug(name, sentence, (Swap(f"{APP}.{module}", qualname, replacement),), "copytrade")


BUGS: tuple[Bug, ...] = (
    _swapped(
        "copytrade-cursor-follows-the-stream",
        "A trade of the stream moves the cursor to its block, though the stream may have lost one before it.",
        "chain", "ChainTrades._traded", _at_its_own_block,
    ),
    _swapped(
        "copytrade-key-without-asset",
        "A trade is named by leader and transaction, so a second asset or side of a transaction is lost.",
        "trades", "key", _without_asset,
    ),
    _swapped(
        "copytrade-order-made-anew",
        "An order whose answer is lost is sent again under another id.",
        "orders", "Remote.place", _made_anew,
    ),
    _swapped(
        "copytrade-leaders-read-once",
        "Who is copied is read when a worker starts, and never again.",
        "leaders", "Leaders.since", _of_the_beginning,
    ),
    _swapped(
        "copytrade-skipped-by-an-old-list",
        "A trade is skipped for good by a list of leaders that is a few seconds old.",
        "leaders", "Leaders.fresh", _of_seconds_ago,
    ),
    _swapped(
        "copytrade-watched-in-memory-alone",
        "A worker that starts does not go on watching what an earlier worker watched.",
        "forks", "Forks.take", _not_taken_over,
    ),
    Bug(
        "copytrade-retracted-at-once",
        "What a fork took away is retracted without waiting whether it is included again.",
        (
            Swap(f"{APP}.forks", "Forks.due", _gone_at_once),
            Swap(f"{APP}.chain", "ChainTrades._search", _believed),  # it asks for blocks that are yet to come
        ),
        "copytrade",
    ),
    _swapped(
        "copytrade-never-retracted",
        "What a fork took away for good is not retracted.",
        "forks", "Forks.judge", _never_gone,
    ),
    _swapped(
        "copytrade-missing-receipt-believed",
        "A node that shows no receipt is believed, though it shows logs of the transaction.",
        "chain", "ChainTrades._search", _believed,
    ),
    _swapped(
        "copytrade-receipt-not-waited-for",
        "A transaction whose receipt is not there yet is taken to hold no trade.",
        "rpc", "Rpc.receipt", _without_trades,
    ),
    _swapped(
        "copytrade-handled-for-ever",
        "A transaction counts as handled though the connection ended before its trades were handed on.",
        "chain", "ChainTrades.read", _handled_for_ever,
    ),
    Bug(
        "copytrade-nothing-read-after-a-cut",
        "What was mined while the line was down is not read.",
        (Swap("onefold.sources.websocket", "Websocket._missed", _nothing_missed),),
        "copytrade",
    ),
    _swapped(
        "copytrade-limit-per-process",
        "The orders of a day are counted in the memory of each worker.",
        "copies", "Copies._count", _counted_in_memory,
    ),
    _swapped(
        "copytrade-sold-twice",
        "A sale does not leave out what another sale that is under way has set aside.",
        "book", "available", _all_that_is_held,
    ),
    _swapped(
        "copytrade-retried-sale-not-set-aside",
        "A rejected sale that a person retries sells what another one has sold meanwhile.",
        "copies", "Copies._set_aside", _not_again,
    ),
    _swapped(
        "copytrade-retraction-forgotten-too-early",
        "A transaction that is gone is watched no longer before its retraction is accounted for.",
        "forks", "Forks.judge", _forgotten_at_once,
    ),
)  # fmt: skip
