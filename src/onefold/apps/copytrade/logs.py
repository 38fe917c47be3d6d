"""What the chain says: which logs to ask for, and the trades of leaders in a receipt.

A trade is read from the exchange's own event where the leader is the maker of the order, never from what
moved: fees, refunds and mints move too. Contracts that are not named are ignored. Only this file knows ABI.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from decimal import Decimal
from importlib.util import find_spec
from typing import Any

import msgspec
from eth_hash.auto import keccak

from onefold.apps.copytrade.trades import Side, Trade, summed
from onefold.core.record import Broken
from onefold.core.wire import flaw, quoted

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
_ADDRESS = re.compile(r"0x[0-9a-fA-F]{40}")
_STAMP = re.compile(r"0x[0-9a-fA-F]{1,10}")
_MILLION = Decimal(1_000_000)
_MOST = 10**24
"""Millionths of shares or dollars; no order moves more, and decimals of this length are exact."""


class Contracts(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Addresses on Polygon, several per role; what is not named here is not believed."""

    exchanges: tuple[str, ...] = (
        "0x4bFb41d5B3570DeFd03C39a9A4D8dE6Bd8B8982E",
        "0xC5d563A36AE78145C45a50134d48A1215220f80a",
        "0xE111180000d2663C0091e4f400237545B87B996B",
        "0xe2222d279d744050d28e00520010520000310F59",
        "0xe3333700cA9d93003F00f0F71f8515005F6c00Aa",
    )
    """Of the first era and of the second, each with its twin for negative risk, and of the third."""
    money: tuple[str, ...] = (
        "0x2791Bca1f2de4661ED88A30C99A7a9449Aa84174",
        "0xC011a7E12a19f7B1f670d46F03B03f3342E82DFB",
    )
    """USDC.e, and pUSD, in which trades are paid since 28 April 2026."""
    tokens: tuple[str, ...] = (
        "0x4D97DCd97eC945f40cF65F87097ACe5EA0476045",
        "0x006F54F7f9A22e0000CC2AB60031000000ae9fEF",
    )
    """The conditional tokens, and the position manager of the third exchange."""


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


def matches(log: Log, wanted: Filter) -> bool:
    """Say whether a log fits a filter: places of topics are joined by and, a list inside of one by or."""
    if log["address"].lower() not in {one.lower() for one in wanted["address"]}:
        return False
    asked, topics = wanted["topics"], [one.lower() for one in log["topics"]]
    return len(asked) <= len(topics) and all(
        want is None or topic in want for want, topic in zip(asked, topics, strict=False)
    )


class _Foreign(ValueError):
    """A log of an exchange that does not even say whose order it tells of."""


def trades(
    receipt: Mapping[str, Any], leaders: Collection[str], contracts: Contracts, timestamp: int
) -> tuple[list[Trade], list[Broken]]:
    """Read the trades of leaders from a receipt, summed, and the logs in it that cannot be read.

    A size is a sum over the whole receipt, so a leader with an order that cannot be read has no trade in it,
    and nobody has one if it is not known whose order that is. The list of activity still shows them.
    """
    if int(receipt["status"], 16) != 1:
        return [], []
    known = {one.lower() for one in contracts.exchanges}
    found: list[Trade] = []
    broken: list[Broken] = []
    unsure: set[str] = set()
    counted: dict[str, Log] = {}
    for log in receipt["logs"]:
        try:
            if not _is_told_by(log, known):
                continue
            maker = owner(log)
            if maker not in leaders or not _is_new(log, counted):
                continue
            _check_place(log, receipt)
            one = order(log, leaders, timestamp)
        except ValueError as error:
            broken.append(Broken(quoted(log), f"of {receipt['transactionHash']}: {error}"))
            unsure |= set(leaders) if isinstance(error, _Foreign) else {str(maker)}
            continue
        if one is not None:
            found.append(one._replace(block=int(receipt["blockNumber"], 16)))
    return summed(one for one in found if one.leader not in unsure), broken


def _is_told_by(log: Any, exchanges: Collection[str]) -> bool:
    """Say whether a log is of a known exchange; other contracts may write what they like."""
    address = log.get("address") if isinstance(log, Mapping) else None
    if not isinstance(address, str) or not _ADDRESS.fullmatch(address):
        raise _Foreign("a log in it does not say which contract wrote it")
    if address.lower() not in exchanges:
        return False
    wrong = flaw(log)
    if wrong:
        raise _Foreign(f"a log of an exchange cannot be read: {wrong}")
    return True


def _is_new(log: Log, counted: dict[str, Log]) -> bool:
    """Note the place of a log; a node that shows one log twice must not double the size."""
    place = log.get("logIndex")
    if not isinstance(place, str):
        raise ValueError("an order in it does not say its place")
    known = counted.get(place.lower())
    if known is not None and known != log:
        raise ValueError(f"two orders in it have the place {place:.40}")
    counted[place.lower()] = log
    return known is None


def _check_place(log: Log, receipt: Mapping[str, Any]) -> None:
    for name in ("transactionHash", "blockHash"):
        if str(log.get(name, "")).lower() != receipt[name].lower():
            raise ValueError(f"an order in it is of another {name}: {log.get(name)!r:.80}")


def owner(log: Log) -> str | None:
    """Say whose order a log of an exchange tells of; None if it tells of none."""
    topics = log.get("topics")
    if not isinstance(topics, list) or not all(
        isinstance(one, str) and len(one) == 66 and one.startswith("0x") for one in topics
    ):
        raise _Foreign("a log of an exchange has no topics that can be read")
    if len(topics) != 4 or topics[0].lower() not in (FILLED_V1, FILLED_V2):
        return None
    return f"0x{topics[2][-40:].lower()}"


def order(log: Log, leaders: Collection[str], timestamp: int) -> Trade | None:
    """Read a leader's own order from OrderFilled; None for any other log.

    The wallet's own order names it as maker, also when it was the taker of the match. The other party's event
    must not be turned around: in a mint both buy, in a merge both sell.
    """
    maker = owner(log)
    if maker is None or maker not in leaders:
        return None
    read = _second_era(log) if log["topics"][0].lower() == FILLED_V2 else _first_era(log)
    if read is None:
        return None
    asset, buys, gave, got = read
    size, usdc = (got, gave) if buys else (gave, got)
    if not size or not usdc:
        return None
    if usdc > size:
        raise ValueError(f"an order of {log['transactionHash']} has a price of {usdc / size:.4f}, above 1")
    if max(size, usdc) > _MOST:
        raise ValueError(f"an order of {log['transactionHash']} moves {max(size, usdc):.3g}, which cannot be")
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

    data = log.get("data")
    if not isinstance(data, str):
        raise ValueError(f"a log of {log['transactionHash']} has the data {data!r:.40}, no text")
    try:
        return tuple(decode(types, bytes.fromhex(data.removeprefix("0x"))))
    except (DecodingError, ValueError) as error:
        raise ValueError(f"a log of {log['transactionHash']} cannot be read: {error}") from None


def stamp(receipt: Mapping[str, Any]) -> int | None:
    """Find the time of a receipt's block in its logs, where the node writes it there and always the same."""
    stamps = [log.get("blockTimestamp") for log in receipt["logs"] if isinstance(log, Mapping)]
    one = stamps[0] if stamps else None
    if not isinstance(one, str) or not _STAMP.fullmatch(one) or any(other != one for other in stamps):
        return None
    return int(one, 16)
