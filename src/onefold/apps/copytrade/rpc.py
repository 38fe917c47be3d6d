"""Asks nodes of a chain, by JSON-RPC over HTTP, each at an address that a pool picks.

An address is kept until it fails; then the pool is told, and picks another. What an answer means is the
asker's to know; a node that is behind, and so answers null, is told apart only by asking for its head.
"""

from __future__ import annotations

import asyncio
import json
import time
from typing import Any, NamedTuple

from onefold.core.endpoints import Facts, Picks
from onefold.core.errors import OnefoldError, Refused
from onefold.sinks.web import NoAnswer, Web, shown
from onefold.sources.websocket.live import Live, Watch

LARGEST = 32 << 20
PAUSES = (0.1, 2.0)
"""Seconds between two questions for a receipt that is not there yet: the first, and the longest."""


class Block(NamedTuple):
    """A block, by its height as nodes write it and by its name."""

    number: str
    hash: str


class NodeError(OnefoldError):
    """A node did not answer, or answered with an error."""


class Rpc:
    """Asks the nodes of one pool."""

    def __init__(self, nodes: Picks, timeout: float = 10.0) -> None:
        self._nodes = nodes
        self._web = Web(timeout, LARGEST)
        self._url: str | None = None

    async def ask(self, method: str, *params: Any) -> Any:
        """Ask one question, once."""
        url = self._url or await self._nodes.pick()
        self._url = url
        try:
            return await asked(self._web, url, method, *params)
        except NodeError as error:
            if not isinstance(error, Complaint):
                await self.give_up(str(error))
            raise

    async def give_up(self, reason: str) -> None:
        """Leave the present address, and say why."""
        url, self._url = self._url, None
        if url is not None:
            await self._nodes.tell(url, reason)

    async def head(self, heard: int = 0) -> int:
        """Say how far a node has come; one that is behind what was heard of is left for another, once."""
        found = int(await self.ask("eth_blockNumber"), 16)
        if found >= heard:
            return found
        await self.give_up(f"it has come to block {found}, and {heard} was announced")
        return int(await self.ask("eth_blockNumber"), 16)

    async def receipt(self, transaction: str, block: Block, patience: float) -> dict[str, Any]:
        """Wait for a receipt; a node that does not show it is left for another half-way.

        If another block stands where it was announced, there is nothing to wait for: a fork took it away, or
        the node is on one.
        """
        began, pause, moved = time.monotonic(), PAUSES[0], False
        while True:
            found = await self.ask("eth_getTransactionReceipt", transaction)
            if isinstance(found, dict):
                return found
            await self._expect(block, transaction)
            waited = time.monotonic() - began
            if waited >= patience:
                raise NodeError(f"no node shows the receipt of {transaction} after {waited:.1f} s")
            if not moved and waited >= patience / 2:
                moved = True
                await self.give_up(f"it does not show the receipt of {transaction}, which was announced")
            await asyncio.sleep(pause)
            pause = min(2 * pause, PAUSES[1])

    async def _expect(self, block: Block, transaction: str) -> None:
        stands = await self.ask("eth_getBlockByNumber", block.number, False)
        if isinstance(stands, dict) and stands["hash"] != block.hash:
            gone = (
                f"{transaction} was announced in block {int(block.number, 16)}, in whose place stands another"
            )
            await self.give_up(gone)
            raise NodeError(gone)

    async def final(self, transaction: str, head: int) -> dict[str, Any] | None:
        """Ask a node that has come as far as `head` for a receipt, whose absence can be believed."""
        if await self.head(head) < head:
            raise NodeError(f"the node is behind block {head}: what it does not show may exist")
        found = await self.ask("eth_getTransactionReceipt", transaction)
        return found if isinstance(found, dict) else None

    async def timestamp(self, block: str) -> int:
        """Ask for the time of a block."""
        found = await self.ask("eth_getBlockByNumber", block, False)
        if not isinstance(found, dict):
            raise NodeError(f"the node does not show block {block}")
        return int(found["timestamp"], 16)

    async def aclose(self) -> None:
        await self._web.aclose()


class Complaint(NodeError):
    """The node understood the question and will not answer it, as when too many blocks are asked for."""


async def asked(web: Web, url: str, method: str, *params: Any) -> Any:
    """Ask one node one question; errors name its host and no more, because addresses hold keys."""
    body = json.dumps(question(1, method, *params)).encode()
    try:
        answer = await web.send("POST", url, {"Content-Type": "application/json"}, body)
    except (Refused, NoAnswer) as error:
        raise NodeError(str(error)) from None
    if answer.status != 200 or not answer.whole:
        raise NodeError(f"{shown(url)} answered {answer.status} to {method}")
    try:
        told = json.loads(answer.body)
    except ValueError:
        raise NodeError(f"{shown(url)} answered {method} with what is no JSON") from None
    return result(told, method)


def question(number: int, method: str, *params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": number, "method": method, "params": list(params)}


def result(told: Any, method: str) -> Any:
    """Take the result out of an answer."""
    if not isinstance(told, dict) or ("result" not in told and "error" not in told):
        raise NodeError(f"the answer to {method} is none of JSON-RPC")
    if "error" in told:
        raise Complaint(f"{method} was refused: {str(told['error'])[:200]}")
    return told["result"]


# ----- probes


async def probe_http(url: str) -> Facts:
    """Find out which chain a node serves, and how far it has come."""
    web = Web(5.0, LARGEST)
    try:
        chain = await asked(web, url, "eth_chainId")
        latest = await asked(web, url, "eth_getBlockByNumber", "latest", False)
    finally:
        await web.aclose()
    return facts(chain, latest)


async def probe_stream(url: str) -> Facts:
    """Find out the same over a WebSocket of its own."""
    watch = Watch(5.0, 20.0, 10.0, None, 100, LARGEST, waits=False)
    live = await Live.connect(url, {}, watch)
    try:
        await live.send(json.dumps(question(1, "eth_chainId")))
        await live.send(json.dumps(question(2, "eth_getBlockByNumber", "latest", False)))
        told: dict[int, Any] = {}
        while len(told) < 2:
            for message in await live.take(2):
                answer = json.loads(message)
                told[answer["id"]] = result(answer, "eth_chainId")
    finally:
        await live.close()
    return facts(told[1], told[2])


def facts(chain: str, latest: dict[str, Any]) -> Facts:
    age = max(time.time() - int(latest["timestamp"], 16), 0.0)
    return Facts(int(chain, 16), int(latest["number"], 16), age)
