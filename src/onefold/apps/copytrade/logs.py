"""What the chain says: which logs to ask for, and the trades of leaders in a receipt.

A trade is read from the exchange's own event where the leader is the maker of the order, never from what
moved: fees, refunds and mints move too. Contracts that are not named are ignored. Only this file knows ABI.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from decimal import Decimal
from importlib.util import find_spec
from typing import Any

import msgspec
from eth_hash.auto import keccak

from onefold.apps.copytrade.trades import Side, Trade, summed

# It is imported with the first log, because that is slow. Notice a missing package before a worker runs.
if find_spec("eth_abi") is None:
    raise ModuleNotFoundError("No module named 'eth_abi'", name="eth_abi")

Log = Mapping[str, Any]
Filter = dict[str, Any]


def topic(signature: str) -> str:
    """Name an event as its logs do."""
    return "0x" + keccak(signature.encode()).hex()


TRANSFER = topic("Transfer(address,address,uint256)")
SINGLE = topic("TransferSingle(address,address,address,uint256,uint256)")
BATCH = topic("TransferBatch(address,address,address,uint256[],uint256[])")
FILLED_V1 = topic("OrderFilled(bytes32,address,address,uint256,uint256,uint256,uint256,uint256)")
FILLED_V2 = topic(
    "OrderFilled(bytes32,address,address,uint8,uint256,uint256,uint256,uint256,bytes32,bytes32)"
)

_V1 = ["uint256"] * 5
_V2 = ["uint8", "uint256", "uint256", "uint256", "uint256", "bytes32", "bytes32"]
_MILLION = Decimal(1_000_000)


class Contracts(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Addresses on Polygon, several per role; what is not named here is not believed."""

    exchanges: tuple[str, ...] = (
        "0x4bFb41d5B3570DeFd03C39a9A4D8dE6Bd8B8982E",
        "0xC5d563A36AE78145C45a50134d48A1215220f80a",
        "0xE111180000d2663C0091e4f400237545B87B996B",
        "0xe2222d279d744050d28e00520010520000310F59",
    )
    """Of the first era and of the second, each with its twin for negative risk."""
    money: tuple[str, ...] = (
        "0x2791Bca1f2de4661ED88A30C99A7a9449Aa84174",
        "0xC011a7E12a19f7B1f670d46F03B03f3342E82DFB",
    )
    """USDC.e, and pUSD, in which trades are paid since 28 April 2026."""
    tokens: tuple[str, ...] = ("0x4D97DCd97eC945f40cF65F87097ACe5EA0476045",)


def filters(leaders: Sequence[str], contracts: Contracts) -> list[Filter]:
    """Say which logs to ask for: one set for all leaders, orders first, transfers as the fallback."""
    padded = ["0x" + one.lower().removeprefix("0x").rjust(64, "0") for one in leaders]
    shares, money = [SINGLE, BATCH], [TRANSFER]
    return [
        {"address": [*contracts.exchanges], "topics": [[FILLED_V1, FILLED_V2], None, padded]},
        {"address": [*contracts.tokens], "topics": [shares, None, padded]},
        {"address": [*contracts.tokens], "topics": [shares, None, None, padded]},
        {"address": [*contracts.money], "topics": [money, padded]},
        {"address": [*contracts.money], "topics": [money, None, padded]},
    ]


def trades(
    receipt: Mapping[str, Any], leaders: Collection[str], contracts: Contracts, timestamp: int
) -> list[Trade]:
    """Read the trades of leaders from a receipt, summed; a ValueError says what cannot be read."""
    if int(receipt["status"], 16) != 1:
        return []
    known = {one.lower() for one in contracts.exchanges}
    try:
        found = [
            one._replace(block=int(receipt["blockNumber"], 16))
            for log in receipt["logs"]
            if log["address"].lower() in known and (one := order(log, leaders, timestamp)) is not None
        ]
    except (AttributeError, TypeError) as error:  # null, where a text or a list belongs
        raise ValueError(f"a log of it cannot be read: {error}") from None
    return summed(found)


def order(log: Log, leaders: Collection[str], timestamp: int) -> Trade | None:
    """Read a leader's own order from OrderFilled; None for any other log.

    The wallet's own order names it as maker, also when it was the taker of the match. The other party's event
    must not be turned around: in a mint both buy, in a merge both sell.
    """
    topics = log["topics"]
    if len(topics) != 4 or topics[0] not in (FILLED_V1, FILLED_V2):
        return None
    maker = "0x" + topics[2][-40:].lower()
    if maker not in leaders:
        return None
    read = _second_era(log) if topics[0] == FILLED_V2 else _first_era(log)
    if read is None:
        return None
    asset, buys, gave, got = read
    size, usdc = (got, gave) if buys else (gave, got)
    if not size or not usdc:
        return None
    if usdc > size:
        raise ValueError(f"an order of {log['transactionHash']} has a price of {usdc / size:.4f}, above 1")
    side: Side = "BUY" if buys else "SELL"
    transaction = log["transactionHash"].lower()
    return Trade(maker, transaction, str(asset), side, size / _MILLION, usdc / _MILLION, timestamp)


def _second_era(log: Log) -> tuple[int, bool, int, int]:
    side, asset, gave, got, *_ = _words(_V2, log)
    if side not in (0, 1):
        raise ValueError(f"an order of {log['transactionHash']} has the side {side}, neither 0 nor 1")
    return asset, side == 0, gave, got


def _first_era(log: Log) -> tuple[int, bool, int, int] | None:
    given, taken, gave, got, _ = _words(_V1, log)
    if given and taken:
        return None  # shares against shares: it has no price
    return (taken, True, gave, got) if not given else (given, False, gave, got)


def _words(types: Sequence[str], log: Log) -> tuple[Any, ...]:
    # Imported late: it takes longer than all the rest of a start.
    from eth_abi.abi import decode
    from eth_abi.exceptions import DecodingError

    try:
        return tuple(decode(types, bytes.fromhex(log["data"].removeprefix("0x"))))
    except (DecodingError, ValueError, AttributeError) as error:  # data may be null
        raise ValueError(f"a log of {log['transactionHash']} cannot be read: {error}") from None


def stamp(receipt: Mapping[str, Any]) -> int | None:
    """Find the time of a receipt's block in its logs, where the node writes it there."""
    stamps = [log["blockTimestamp"] for log in receipt["logs"] or () if log.get("blockTimestamp")]
    return int(stamps[0], 16) if stamps else None
