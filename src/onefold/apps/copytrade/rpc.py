"""Asks nodes of a chain, by JSON-RPC over HTTP, each at an address that a pool picks.

An address is kept until it fails; then the pool is told, and picks another. Every answer is checked by
`answers`: a node that answers another question, or for another chain, is left. A node that is behind, and so
answers null, is told apart only by asking for its head.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Protocol

from onefold.apps.copytrade import answers
from onefold.apps.copytrade.answers import Block
from onefold.core.endpoints import Facts, Picks
from onefold.core.errors import OnefoldError, Refused
from onefold.core.redaction import host_of
from onefold.core.wire import Unreadable
from onefold.runtime import current
from onefold.runtime.http import Ask, NoAnswer
from onefold.sources.websocket.live import Live, Watch

LARGEST = 32 << 20
PAUSES = (0.1, 2.0)
"""Seconds between two questions for a receipt that is not there yet: the first, and the longest."""

Check = Callable[[dict[str, Any]], bool]


class NodeError(OnefoldError):
    """A node did not answer, or answered with an error."""


class Complaint(NodeError):
    """The node understood the question and will not answer it, as when too many blocks are asked for."""


class Unbelievable(NodeError):
    """Two nodes showed a receipt that cannot be read, or that of another transaction."""


class Posts(Protocol):
    """Takes a question to an address, and returns the text of the answer."""

    async def post(self, url: str, body: bytes) -> bytes:
        """Raise a NodeError if there is no answer; it names the host and no more of the address."""


class Http:
    """Posts over HTTP."""

    def __init__(self, timeout: float = 10.0) -> None:
        self._timeout = timeout

    async def post(self, url: str, body: bytes) -> bytes:
        headers = {"Content-Type": "application/json"}
        ask = Ask("POST", url, headers, body, self._timeout, LARGEST, is_question=True)
        try:
            answer = await current().http(ask)
        except (Refused, NoAnswer, Unreadable) as error:
            raise NodeError(str(error)) from None
        if answer.status != 200 or not answer.whole:
            raise NodeError(f"{host_of(url)} answered {answer.status}")
        return answer.body


class Rpc:
    """Asks the nodes of one pool, of one chain."""

    def __init__(self, nodes: Picks, chain: int, posts: Posts | None = None) -> None:
        self.nodes = nodes
        self._chain = chain
        self._posts = posts or Http()
        self._url: str | None = None

    async def ask(self, method: str, *params: Any) -> Any:
        """Ask one question, once."""
        url = await self._address()
        try:
            return await asked(self._posts, url, method, *params)
        except NodeError as error:
            if not isinstance(error, Complaint):
                await self.give_up(str(error))
            raise

    async def _address(self) -> str:
        """Return the present address, or pick another; it must be a node of the chain that is wanted."""
        if self._url is not None:
            return self._url
        url = await self.nodes.pick()
        try:
            served = answers.quantity(await asked(self._posts, url, "eth_chainId"), "chain id")
        except (NodeError, ValueError) as error:
            await self.nodes.tell(url, str(error))
            raise NodeError(f"{host_of(url)} does not say which chain it serves: {error}") from None
        if served != self._chain:
            reason = f"it serves chain {served}, and {self._chain} is wanted"
            await self.nodes.tell(url, reason)
            raise NodeError(f"{host_of(url)} is not used: {reason}")
        self._url = url
        return url

    async def give_up(self, reason: str) -> None:
        """Leave the present address, and say why."""
        url, self._url = self._url, None
        if url is not None:
            await self.nodes.tell(url, reason)

    async def _read(self, read: Callable[[Any], Any], answer: Any) -> Any:
        """Read an answer; a node whose answer cannot be read is left for another."""
        try:
            return read(answer)
        except (ValueError, Unreadable) as error:
            await self.give_up(str(error))
            raise NodeError(f"the answer of a node cannot be believed: {error}") from None

    async def head(self, heard: int = 0) -> int:
        """Say how far a node has come; one that is behind what was heard of is left for another, once."""
        found = await self._height()
        if found >= heard:
            return found
        await self.give_up(f"it has come to block {found}, and {heard} was announced")
        return await self._height()

    async def _height(self) -> int:
        answer = await self.ask("eth_blockNumber")
        return int(await self._read(lambda value: answers.quantity(value, "head"), answer))

    async def receipt(self, transaction: str, block: Block, patience: float, fits: Check) -> dict[str, Any]:
        """Wait for a receipt; a node that does not show it is left for another half-way.

        If another block stands where it was announced, there is nothing to wait for: a fork took it away, or
        the node is on one. A receipt that cannot be read, or that does not fit, is asked of another node,
        once: then the receipt itself is strange, or there is no other node.
        """
        began, pause, moved, doubts = current().monotonic(), PAUSES[0], False, 0
        while True:
            found = await self.ask("eth_getTransactionReceipt", transaction)
            if found is not None:
                try:
                    receipt = answers.receipt(found, transaction)
                    if doubts or fits(receipt):
                        return receipt
                    reason = f"it shows a receipt of {transaction} that cannot be read"
                except ValueError as error:
                    reason = str(error)
                await self.give_up(reason)
                doubts += 1
                if doubts > 1:
                    raise Unbelievable(reason)
                continue
            await self._expect(block, transaction)
            waited = current().monotonic() - began
            if waited >= patience:
                raise NodeError(f"no node shows the receipt of {transaction} after {waited:.1f} s")
            if not moved and waited >= patience / 2:
                moved = True
                await self.give_up(f"it does not show the receipt of {transaction}, which was announced")
            await current().sleep(pause)
            pause = min(2 * pause, PAUSES[1])

    async def _expect(self, block: Block, transaction: str) -> None:
        shown = await self.ask("eth_getBlockByNumber", hex(block.number), False)
        if shown is None or not block.hash:
            return
        stands, _ = await self._read(lambda value: answers.block(value, block.number), shown)
        if stands.hash != block.hash:
            gone = f"{transaction} was announced in block {block.number}, in whose place stands another"
            await self.give_up(gone)
            raise NodeError(gone)

    async def final(self, transaction: str, head: int) -> dict[str, Any] | None:
        """Ask a node that has come as far as `head` for a receipt; what is deep in the chain has one."""
        if await self.head(head) < head:
            raise NodeError(f"the node is behind block {head}: what it does not show may exist")
        found = await self.ask("eth_getTransactionReceipt", transaction)
        if found is None:
            return None
        receipt: dict[str, Any] = await self._read(lambda value: answers.receipt(value, transaction), found)
        return receipt

    async def timestamp(self, number: int) -> int:
        """Ask for the time of a block."""
        found = await self.ask("eth_getBlockByNumber", hex(number), False)
        if found is None:
            raise NodeError(f"the node does not show block {number}")
        _, at = await self._read(lambda value: answers.block(value, number), found)
        return int(at)

    async def logs(self, wanted: dict[str, Any], since: int, until: int) -> answers.Logs:
        """Ask for the logs of a stretch of blocks, both ends included."""
        asked = {**wanted, "fromBlock": hex(since), "toBlock": hex(until)}
        found = await self.ask("eth_getLogs", asked)
        logs: answers.Logs = await self._read(lambda value: answers.logs(value, wanted, since, until), found)
        return logs


async def asked(posts: Posts, url: str, method: str, *params: Any) -> Any:
    """Ask one node one question; errors name its host and no more, because addresses hold keys."""
    body = json.dumps(question(1, method, *params)).encode()
    try:
        found = answers.result(await posts.post(url, body), method, 1)
    except Unreadable as error:
        raise NodeError(f"{host_of(url)}: {error}") from None
    except NodeError as error:
        raise NodeError(f"{error} to {method}") from None
    if isinstance(found, answers.Told):
        raise Complaint(f"{method} was refused: {found.error}")
    return found


def question(number: int, method: str, *params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": number, "method": method, "params": list(params)}


# ----- probes


async def probe_http(url: str) -> Facts:
    """Find out which chain a node serves, and how far it has come."""
    http = Http(5.0)
    chain = await asked(http, url, "eth_chainId")
    latest = await asked(http, url, "eth_getBlockByNumber", "latest", False)
    return facts(chain, latest)


async def probe_stream(url: str) -> Facts:
    """Find out the same over a WebSocket of its own."""
    watch = Watch(5.0, 20.0, 10.0, None, 100, LARGEST, waits=False)
    live = await Live.connect(url, {}, watch)
    methods = {1: "eth_chainId", 2: "eth_getBlockByNumber"}
    try:
        await live.send(json.dumps(question(1, methods[1])))
        await live.send(json.dumps(question(2, methods[2], "latest", False)))
        told: dict[int, Any] = {}
        while len(told) < 2:
            # Nodes answer in any order.
            for message in await live.take(2):
                told |= _one_of(message, methods)
    finally:
        await live.close()
    return facts(told[1], told[2])


def _one_of(message: str | bytes, methods: dict[int, str]) -> dict[int, Any]:
    reasons: list[str] = []
    for number, method in methods.items():
        try:
            return {number: answers.result(message, method, number)}
        except Unreadable as error:
            reasons.append(str(error))
    raise NodeError("; ".join(reasons))


def facts(chain: Any, latest: Any) -> Facts:
    """Read what a node said of itself."""
    try:
        head, at = answers.block(latest)
        return Facts(answers.quantity(chain, "chain id"), head.number, max(current().time() - at, 0.0))
    except ValueError as error:
        raise NodeError(f"what a node says of itself cannot be read: {error}") from None
