"""What a node of a chain says, checked: is it well formed, and is it about what was asked?

A log, a head, a block or a receipt that is malformed, or that answers another question, is refused with a
sentence, on its own: what stands beside it is still read. Nothing here asks anybody, and what is a trade is
decided in `logs`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from onefold.apps.copytrade.logs import Filter, matches
from onefold.core.record import Broken, Record
from onefold.core.wire import Unreadable, flaw, quoted
from onefold.core.wire import parse as parse_json
from onefold.sources.websocket import Disconnected

CHAIN_ID = 0
"""The number of the question that asks a stream for its chain; subscriptions are numbered from 1 on."""

LARGEST = 2**53
"""No number of a block, an index or a time is larger."""

HASH = re.compile(r"0x[0-9a-fA-F]{64}")
ADDRESS = re.compile(r"0x[0-9a-fA-F]{40}")
QUANTITY = re.compile(r"0x[0-9a-fA-F]{1,64}")


class Block(NamedTuple):
    """A block by its height, and by its name where that is known."""

    number: int
    hash: str


# ----- words


def quantity(value: Any, name: str) -> int:
    """Read a number as nodes write it."""
    if not isinstance(value, str) or not QUANTITY.fullmatch(value):
        raise ValueError(f"its {name} is {value!r:.60}, no number like 0x1f")
    number = int(value, 16)
    if number >= LARGEST:
        raise ValueError(f"its {name} is {value:.60}, which is too large")
    return number


def digest(value: Any, name: str) -> str:
    """Read the hash of a block or of a transaction, in lower case."""
    if not isinstance(value, str) or not HASH.fullmatch(value):
        raise ValueError(f"its {name} is {value!r:.60}, no hash")
    return value.lower()


def _object(value: Any, what: str) -> Mapping[str, Any]:
    wrong = flaw(value)
    if wrong:
        raise ValueError(f"{what} cannot be read: {wrong}")
    if not isinstance(value, dict):
        raise ValueError(f"{what} is no object, but {type(value).__name__}")
    return value


# ----- answers


def result(text: str | bytes, method: str, number: int) -> Any:
    """Take the result out of an answer to the question with this number, or say why it is none.

    An error that the node tells is returned as `Told`: it understood the question.
    """
    try:
        told = parse_json(text if isinstance(text, str) else text.decode())
    except UnicodeDecodeError:
        raise Unreadable(f"the answer to {method} is no text") from None
    if not isinstance(told, dict) or ("result" not in told and told.get("error") is None):
        raise Unreadable(f"the answer to {method} is none of JSON-RPC: {quoted(told):.200}")
    if told.get("error") is not None:
        return Told(quoted(told["error"])[:200])
    if told.get("id") is True or told.get("id") != number:
        raise Unreadable(
            f"the answer to {method} is one to another question: {told.get('id')!r:.40}, not {number}"
        )
    return told["result"]


class Told(NamedTuple):
    """An error that a node answered with."""

    error: str


def block(value: Any, number: int | None = None) -> tuple[Block, int]:
    """Read a block that was asked for by its height, or the latest; return it and its time."""
    shown = _object(value, "the block")
    found = quantity(shown.get("number"), "number")
    if number is not None and found != number:
        raise ValueError(f"block {number} was asked for, and {found} was shown")
    return Block(found, digest(shown.get("hash"), "hash")), quantity(shown.get("timestamp"), "timestamp")


def receipt(value: Any, transaction: str) -> dict[str, Any]:
    """Read a receipt; its logs are read one by one later, so that one of them spoils no other receipt."""
    if not isinstance(value, dict):
        raise ValueError(f"the receipt of {transaction} is no object, but {type(value).__name__}")
    found = digest(value.get("transactionHash"), "transactionHash")
    if found != transaction:
        raise ValueError(f"the receipt of {transaction} was asked for, and that of {found} was shown")
    status = quantity(value.get("status"), "status")
    if status not in (0, 1):
        raise ValueError(f"the receipt of {transaction} has the status {status}, neither 0 nor 1")
    number = quantity(value.get("blockNumber"), "blockNumber")
    logs = value.get("logs")
    if not isinstance(logs, list):
        raise ValueError(f"the receipt of {transaction} has no list of logs")
    return {
        "transactionHash": found,
        "status": hex(status),
        "blockNumber": hex(number),
        "blockHash": digest(value.get("blockHash"), "blockHash"),
        "logs": logs,
    }


Logs = tuple[list[Record], list[Broken]]


def logs(shown: Any, wanted: Filter, since: int, until: int) -> Logs:
    """Read the logs that were asked for, each on its own; what is not about the question is set aside."""
    if not isinstance(shown, list):
        raise Unreadable(f"the answer to eth_getLogs is no list, but {type(shown).__name__}")
    records: list[Record] = []
    broken: list[Broken] = []
    for one in shown:
        try:
            record = logged(one, [wanted])
            if not since <= record.at <= until:
                raise ValueError(f"it is of block {record.at}, and {since} to {until} were asked for")
        except ValueError as error:
            broken.append(Broken(quoted(one), f"it is no log that was asked for: {error}"))
            continue
        records.append(record._replace(body={**record.body, "asked": True}))
    return records, broken


def logged(value: Any, wanted: Sequence[Filter] | None = None) -> Record:
    """Read one log; it must fit one of the filters, if some are given."""
    log = _object(value, "the log")
    if not isinstance(log.get("address"), str) or not ADDRESS.fullmatch(log["address"]):
        raise ValueError(f"its address is {log.get('address')!r:.60}")
    topics = log.get("topics")
    if not isinstance(topics, list) or len(topics) > 4:
        raise ValueError(f"its topics are {topics!r:.60}")
    for one in topics:
        digest(one, "topic")
    transaction = digest(log.get("transactionHash"), "transactionHash")
    if log.get("blockHash") is not None:
        digest(log["blockHash"], "blockHash")
    if not isinstance(log.get("removed", False), bool):
        raise ValueError(f"its mark removed is {log['removed']!r:.60}")
    if wanted is not None and not any(matches(log, one) for one in wanted):
        raise ValueError("its address or its topics are others than those that were asked for")
    index = quantity(log.get("logIndex"), "logIndex")
    number = quantity(log.get("blockNumber"), "blockNumber")
    return Record(f"{transaction}/{index:#x}", {"log": log}, number)


# ----- messages of a stream


def parse(
    message: str | bytes, chain: int | None = None, wanted: Sequence[Filter] | None = None
) -> Record | None:
    """Read a message of a node: a log, a head, or nothing of interest."""
    text = message if isinstance(message, str) else message.decode()
    told = parse_json(text)
    if not isinstance(told, dict):
        raise ValueError(f"it is no message of JSON-RPC, but {type(told).__name__}")
    if "method" not in told and told.get("error") is not None:
        raise Disconnected(f"a subscription was refused: {quoted(told['error'])[:200]}")
    if told.get("method") != "eth_subscription":
        _check_chain(told, chain)
        return None
    params = _object(told.get("params"), "the message")
    shown = _object(params.get("result"), "what it shows")
    return logged(shown, wanted) if "topics" in shown else _head(shown)


def _check_chain(told: Mapping[str, Any], chain: int | None) -> None:
    if chain is None or "result" not in told or told.get("id") is False or told.get("id") != CHAIN_ID:
        return
    served = quantity(told["result"], "chain id")
    if served != chain:
        raise Disconnected(f"the stream serves chain {served}, and {chain} is wanted")


def _head(shown: Mapping[str, Any]) -> Record:
    name, parent = digest(shown.get("hash"), "hash"), digest(shown.get("parentHash"), "parentHash")
    return Record(
        f"head-{name}",
        {"head": {"hash": name, "parentHash": parent}},
        quantity(shown.get("number"), "number"),
    )


def confirms(message: str | bytes) -> bool:
    """Say whether a message answers one of the questions that open a stream."""
    told = parse_json(message if isinstance(message, str) else message.decode())
    return isinstance(told, dict) and "method" not in told and isinstance(told.get("result"), str)
