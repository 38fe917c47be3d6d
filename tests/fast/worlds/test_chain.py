"""The node of a chain; `tests/processes/worlds` has the same tests with real sockets."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from websockets.asyncio.client import ClientConnection, connect

from onefold.worlds.chain import FIRST, Chain, Node, Transaction
from tests.fast.worlds.calling import Mode, fetch, served
from tests.waiting import PATIENCE

LOG = {"address": "0xAA", "topics": ["0x01"], "data": "0x"}


def question(method: str, *params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}


async def asked(line: ClientConnection, method: str, *params: Any) -> Any:
    await line.send(json.dumps(question(method, *params)))
    return json.loads(await line.recv())["result"]


async def heard(line: ClientConnection) -> tuple[str, dict[str, Any]]:
    said = json.loads(await line.recv())["params"]
    return said["subscription"], said["result"]


def test_a_node_answers_questions_and_tells_subscribers_of_blocks_logs_and_forks(mode: Mode):
    async def main() -> None:
        chain = Chain(clock=lambda: 77.5)
        async with served(Node(chain), mode) as node, connect(node.stream.url) as line:
            said = await fetch(node.url, "/", question("eth_blockNumber"))
            assert said == {"jsonrpc": "2.0", "id": 1, "result": hex(FIRST)}
            heads = await asked(line, "eth_subscribe", "newHeads")
            logs = await asked(line, "eth_subscribe", "logs", {"address": "0xaa"})
            assert heads != logs
            block = chain.mine(Transaction("0x1", [LOG]), Transaction("0x2", [LOG], failed=True))
            assert await heard(line) == (heads, block.header())
            assert await heard(line) == (logs, block.logs()[0])
            assert block.timestamp == 77
            chain.fork(1, drop=["0x1"])
            assert await heard(line) == (logs, block.logs(removed=True)[0])
            assert await heard(line) == (heads, chain.head.header())
            assert await asked(line, "eth_getTransactionReceipt", "0x1") is None
            assert (await asked(line, "eth_getTransactionReceipt", "0x2"))["status"] == "0x0"
        assert node.asked["eth_blockNumber"] == 1
        assert [one["kind"] for one in chain.journal.lines()].count("subscribed") == 2

    asyncio.run(asyncio.wait_for(main(), PATIENCE))
