"""A chain and its nodes: JSON-RPC over HTTP and over WebSocket, subscriptions, forks.

The chain is the truth: blocks, transactions, logs, and in its journal what was mined and what a fork took
away. A node shows it, and may be behind, know a receipt late, keep silent about what was removed, or be
spoiled by mischief. It knows nothing of trades.
"""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from hashlib import sha256
from types import TracebackType
from typing import Any, NamedTuple, Self

from websockets.asyncio.server import ServerConnection

from onefold.runtime import now
from onefold.worlds.journal import Journal
from onefold.worlds.mischief import Mischief
from onefold.worlds.site import Request, Response, Site
from onefold.worlds.stream import Event, Events, Line, Stream

CHAIN_ID = 137
FIRST = 1_000

Log = dict[str, Any]


class Transaction(NamedTuple):
    hash: str
    logs: Sequence[Log]
    failed: bool = False


class Block(NamedTuple):
    number: int
    hash: str
    parent: str
    timestamp: int
    transactions: tuple[Transaction, ...]

    def header(self) -> Log:
        return {
            "number": hex(self.number),
            "hash": self.hash,
            "parentHash": self.parent,
            "timestamp": hex(self.timestamp),
        }

    def logs(self, removed: bool = False) -> list[Log]:
        """Give the logs with their places; the index counts through the block, as everywhere."""
        found: list[Log] = []
        for place, one in enumerate(self.transactions):
            for log in () if one.failed else one.logs:
                found.append(
                    {**log, **self._place(one, place), "logIndex": hex(len(found)), "removed": removed}
                )
        return found

    def _place(self, one: Transaction, place: int) -> Log:
        return {
            "blockNumber": hex(self.number),
            "blockHash": self.hash,
            "blockTimestamp": hex(self.timestamp),
            "transactionHash": one.hash,
            "transactionIndex": hex(place),
        }

    def receipt(self, transaction: str) -> Log | None:
        for place, one in enumerate(self.transactions):
            if one.hash == transaction:
                logs = [log for log in self.logs() if log["transactionHash"] == transaction]
                return {**self._place(one, place), "status": hex(not one.failed), "logs": logs}
        return None


class Chain(Events):
    """Blocks, one after another, until a fork replaces the last of them."""

    def __init__(self, journal: Journal | None = None, clock: Callable[[], float] = now) -> None:
        super().__init__(journal)
        self._clock = clock
        self._forks = 0
        self.blocks: list[Block] = []
        self.mine()

    @property
    def head(self) -> Block:
        return self.blocks[-1]

    def mine(self, *transactions: Transaction) -> Block:
        """Add a block; whoever subscribed hears of it."""
        with self._lock:
            block = self._next(transactions)
            self._add(block)
        return block

    def fork(self, depth: int, drop: Collection[str] = ()) -> None:
        """Replace the last blocks by others, with the same transactions but for those that are dropped."""
        with self._lock:
            gone, self.blocks = self.blocks[-depth:], self.blocks[:-depth]
            self._forks += 1
            for block in reversed(gone):
                for log in reversed(block.logs(removed=True)):
                    self._announce({"log": log})
            for block in gone:
                kept = [one for one in block.transactions if one.hash not in drop]
                self._add(self._next(kept))
            self.journal.note("forked", depth=depth, dropped=sorted(drop))

    def _next(self, transactions: Sequence[Transaction]) -> Block:
        number = FIRST + len(self.blocks)
        parent = self.blocks[-1].hash if self.blocks else "0x" + "0" * 64
        name = f"{number} {parent} {self._forks} {[one.hash for one in transactions]}"
        return Block(
            number, "0x" + sha256(name.encode()).hexdigest(), parent, int(self._clock()), tuple(transactions)
        )

    def _add(self, block: Block) -> None:
        self.blocks.append(block)
        for one in block.transactions:
            self.journal.note("mined", transaction=one.hash, block=block.number)
        self._announce({"head": block.header()})
        for log in block.logs():
            self._announce({"log": log})

    def _announce(self, event: Event) -> None:
        for listener in self._listeners:
            listener(event)


class Node:
    """One node of a chain: `url` for HTTP, `stream.url` for the WebSocket."""

    def __init__(
        self,
        chain: Chain,
        mischief: Mischief | None = None,
        stream_mischief: Mischief | None = None,
        *,
        behind: int = 0,
        nulls: int = 0,
        span: int = 2_000,
        tells_removed: bool = True,
        chain_id: int = CHAIN_ID,
        late_logs: int = 0,
        loses: Collection[str] = (),
    ) -> None:
        """`behind`: how many blocks its HTTP side lags; `nulls`: how often a receipt is null at first.

        `late_logs`: how many of the newest blocks it refuses to search, as an address does behind which
        another node answers; `loses`: transactions whose logs its subscriptions never show.
        """
        self.chain = chain
        self.behind = behind
        self.nulls = nulls
        self.span = span
        self.tells_removed = tells_removed
        self.chain_id = chain_id
        self.late_logs = late_logs
        self.loses = set(loses)
        self.forgets: set[str] = set()
        """Transactions whose receipts it does not show any more, as a node does that lost its index."""
        self.asked: Counter[str] = Counter()
        self._asked_for: Counter[str] = Counter()
        self._guard = threading.Lock()
        self.site = Site({("POST", "/"): self._post}, mischief)
        self.stream = _Subscriptions(self, stream_mischief)

    @property
    def url(self) -> str:
        return self.site.url + "/"

    def at(self, host: str, port: int, stream_port: int) -> Self:
        """Listen at these ports of a host instead of free ports of 127.0.0.1. Call it before serving."""
        self.site.at(host, port)
        self.stream.at(host, stream_port)
        return self

    def __enter__(self) -> Self:
        self.site.__enter__()
        self.stream.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stream.__exit__(kind, error, trace)
        self.site.__exit__(kind, error, trace)

    async def __aenter__(self) -> Self:
        await self.site.__aenter__()
        await self.stream.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stream.__aexit__(kind, error, trace)
        await self.site.__aexit__(kind, error, trace)

    # ----- questions

    def _post(self, request: Request) -> Response:
        return Response(self.answer(request.json()))

    def answer(self, asked: dict[str, Any]) -> dict[str, Any]:
        """Answer one question of JSON-RPC."""
        method, params = str(asked.get("method")), asked.get("params") or []
        with self._guard:
            self.asked[method] += 1
        said = {"jsonrpc": "2.0", "id": asked.get("id")}
        known: dict[str, Callable[..., Any]] = {
            "eth_chainId": lambda: hex(self.chain_id),
            "eth_blockNumber": lambda: hex(self._shown()[-1].number),
            "eth_getBlockByNumber": self._block,
            "eth_getLogs": self._logs,
            "eth_getTransactionReceipt": self._receipt,
        }
        if method not in known:
            return {**said, "error": {"code": -32601, "message": f"the method {method} does not exist"}}
        try:
            return {**said, "result": known[method](*params)}
        except ValueError as error:
            return {**said, "error": {"code": -32005, "message": str(error)}}

    def _shown(self) -> list[Block]:
        blocks = list(self.chain.blocks)
        return blocks[: max(len(blocks) - self.behind, 1)]

    def _block(self, which: str, _: bool = False) -> Log | None:
        blocks = self._shown()
        if which == "latest":
            return blocks[-1].header()
        return next((one.header() for one in blocks if one.number == int(which, 16)), None)

    def _logs(self, wanted: dict[str, Any]) -> list[Log]:
        blocks = self._shown()
        since = int(wanted["fromBlock"], 16)
        until = blocks[-1].number if wanted["toBlock"] == "latest" else int(wanted["toBlock"], 16)
        if until - since + 1 > self.span:
            raise ValueError(f"block range is too large: at most {self.span} blocks")
        if until > blocks[-1].number - self.late_logs:
            raise ValueError("invalid block range params")
        logs = [log for one in blocks if since <= one.number <= until for log in one.logs()]
        return [log for log in logs if fits(log, wanted)]

    def _receipt(self, transaction: str) -> Log | None:
        with self._guard:
            self._asked_for[transaction] += 1
            if transaction in self.forgets or self._asked_for[transaction] <= self.nulls:
                return None
        found = (one.receipt(transaction) for one in reversed(self._shown()))
        return next((one for one in found if one), None)


class _Subscriptions(Stream):
    """The WebSocket side of a node: any number of subscriptions on a line."""

    def __init__(self, node: Node, mischief: Mischief | None) -> None:
        super().__init__(node.chain, mischief)
        self._node = node

    def _line(self, connection: ServerConnection) -> Line:
        return _Subscriber(connection, self.mischief, self.journal, self._node)

    async def _attend(self, line: Line) -> None:
        self._lines[line] = None
        await line.run()


class _Subscriber(Line):
    """One line, with its subscriptions."""

    def __init__(
        self, connection: ServerConnection, mischief: Mischief, journal: Journal, node: Node
    ) -> None:
        super().__init__(connection, mischief, journal, 10_000, False)
        self._node = node
        self._wanted: dict[str, Any] = {}

    def push(self, event: Event) -> None:
        """Tell of an event under every subscription that it fits."""
        for name, wanted in self._wanted.items():
            shown = self._shown(event, wanted)
            if shown is not None:
                params = {"subscription": name, "result": shown}
                super().push({"jsonrpc": "2.0", "method": "eth_subscription", "params": params})

    def _shown(self, event: Event, wanted: Any) -> Log | None:
        if wanted == "newHeads":
            return event.get("head")
        log: Log | None = event.get("log")
        if log is None or wanted is None or not fits(log, wanted):
            return None
        if log["transactionHash"] in self._node.loses:
            return None
        return None if log["removed"] and not self._node.tells_removed else log

    async def _hear(self) -> None:
        async for message in self.connection:
            with suppress(ValueError):
                await self.connection.send(json.dumps(self._answer(json.loads(message))))

    def _answer(self, asked: dict[str, Any]) -> dict[str, Any]:
        if asked.get("method") != "eth_subscribe":
            return self._node.answer(asked)
        self._journal.note("subscribed", params=asked["params"])
        name = f"0x{len(self._wanted) + 1:x}"
        kind = asked["params"][0]
        self._wanted[name] = asked["params"][1] if kind == "logs" else kind
        return {"jsonrpc": "2.0", "id": asked.get("id"), "result": name}


def fits(log: Log, wanted: dict[str, Any]) -> bool:
    """Say whether a log is asked for: positions are joined by and, a list inside of one by or."""
    addresses = wanted.get("address")
    several = [addresses] if isinstance(addresses, str) else addresses
    if several and log["address"].lower() not in {one.lower() for one in several}:
        return False
    asked = wanted.get("topics") or []
    if len(asked) > len(log["topics"]):
        return False
    return all(_allows(want, topic) for want, topic in zip(asked, log["topics"], strict=False))


def _allows(want: Any, topic: str) -> bool:
    return want is None or topic.lower() in (
        [want.lower()] if isinstance(want, str) else map(str.lower, want)
    )
