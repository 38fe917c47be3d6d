"""The logs that trades leave on a chain: orders filled by exchanges of three eras, and what moves with them.

Written by hand, word by word, from the published events, so that a reader of logs is tested against another
hand than its own. It makes logs without a place: the chain gives them block, transaction and index.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

Log = dict[str, Any]
Side = Literal["BUY", "SELL"]
Era = Literal["V1", "V2", "V3"]

TRANSFER = "0xddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef"
SINGLE = "0xc3d58168c5ae7397731d063d5bbf3d657854427343f4c083240f7aacaa2d0f62"
BATCH = "0x4a39dc06d4c0dbc64b70af90fd698a233a518aa5d07e595d983b8c0526c8f7fb"
FILLED = {
    "V1": "0xd0a08e8c493f9c94f29311604c9de1b4e8c8d4c06bd0c789af57f2d65bfec0f6",
    "V2": "0xd543adfd945773f1a62f74f0ee55a5e3b9b1a28262980ba90b1a89f2ea84d8ee",
    "V3": "0xd543adfd945773f1a62f74f0ee55a5e3b9b1a28262980ba90b1a89f2ea84d8ee",
}
REDEEMED = "0x2682012a4a4f1973119f1c9b90745d1bd91fa2bab387344f044cb3586864d18d"

USDC_E = "0x2791bca1f2de4661ed88a30c99a7a9449aa84174"
PUSD = "0xc011a7e12a19f7b1f670d46f03b03f3342e82dfb"
CTF = "0x4d97dcd97ec945f40cf65f87097ace5ea0476045"
POSITIONS = "0x006f54f7f9a22e0000cc2ab60031000000ae9fef"
EXCHANGES = {
    "V1": "0x4bfb41d5b3570defd03c39a9a4d8de6bd8b8982e",
    "V2": "0xe111180000d2663c0091e4f400237545b87b996b",
    "V3": "0xe3333700ca9d93003f00f0f71f8515005f6c00aa",
}
ADAPTER = "0x" + "ada" * 13 + "a"
FEES = "0x" + "fee" * 13 + "f"
SOMEBODY = "0x" + "ab" * 20
ZERO = "0x" + "0" * 40
MILLION = 1_000_000


class Fill(NamedTuple):
    """One order of a wallet, filled: shares and dollars in millionths."""

    wallet: str
    asset: str
    side: Side
    size: int
    usdc: int
    fee: int = 0
    era: Era = "V2"


def word(value: int | str) -> str:
    """Write a number or an address as one word of 32 bytes, without 0x."""
    number = int(value, 16) if isinstance(value, str) else value
    return f"{number:064x}"


def log(address: str, topics: Sequence[str], *words: int | str) -> Log:
    return {
        "address": address,
        "topics": [topic if len(topic) == 66 else "0x" + word(topic) for topic in topics],
        "data": "0x" + "".join(map(word, words)),
    }


def filled(fill: Fill, order: int, taker: str | None = None) -> Log:
    """Write OrderFilled as the exchange of the fill's era does; the wallet's own order names it as maker."""
    exchange, asset = EXCHANGES[fill.era], int(fill.asset)
    gave, got = (fill.usdc, fill.size) if fill.side == "BUY" else (fill.size, fill.usdc)
    topics = [FILLED[fill.era], "0x" + word(order), fill.wallet, taker or exchange]
    if fill.era != "V1":
        return log(exchange, topics, int(fill.side == "SELL"), asset, gave, got, fill.fee, 0, 0)
    given, taken = (0, asset) if fill.side == "BUY" else (asset, 0)
    return log(exchange, topics, given, taken, gave, got, fill.fee)


def moved(fill: Fill) -> list[Log]:
    """Write the transfers that go with a fill: money one way, shares the other, and the fee."""
    exchange, money = EXCHANGES[fill.era], USDC_E if fill.era == "V1" else PUSD
    tokens = POSITIONS if fill.era == "V3" else CTF
    shares_fee = fill.fee if fill.era == "V1" and fill.side == "BUY" else 0
    buys = fill.side == "BUY"
    paid, payee = (fill.wallet, exchange) if buys else (exchange, fill.wallet)
    logs = [
        log(money, [TRANSFER, paid, payee], fill.usdc),
        log(tokens, [SINGLE, exchange, payee, paid], int(fill.asset), fill.size - shares_fee),
    ]
    if fill.fee and not shares_fee:
        logs.append(log(money, [TRANSFER, fill.wallet, FEES], fill.fee))
    return logs


def match(fills: Sequence[Fill], order: int = 1) -> list[Log]:
    """Write a match: the given orders, and the one of somebody else that they meet."""
    logs: list[Log] = []
    for number, fill in enumerate(fills):
        other: Side = "SELL" if fill.side == "BUY" else "BUY"
        theirs = fill._replace(wallet=SOMEBODY, side=other, fee=0)
        logs += [*moved(fill), filled(fill, order * 100 + number), filled(theirs, order * 100 + 50 + number)]
    return logs


def minted(fill: Fill, complement: str, order: int = 1) -> list[Log]:
    """Write a match in which both buy, or both sell: of the two outcomes of one market."""
    rest = fill.size - fill.usdc
    theirs = fill._replace(wallet=SOMEBODY, asset=complement, usdc=rest, fee=0)
    return [*moved(fill), *moved(theirs), filled(theirs, order * 100 + 50, fill.wallet), filled(fill, order)]


def redeemed(wallet: str, asset: str, size: int) -> list[Log]:
    """Write a redemption: shares go, money comes, and nothing was traded."""
    return [
        log(CTF, [SINGLE, wallet, wallet, ZERO], int(asset), size),
        log(USDC_E, [TRANSFER, CTF, wallet], size),
        log(CTF, [REDEEMED, wallet, USDC_E, "0x" + word(0)], 0, 64, size, 0),
    ]


def split(wallet: str, assets: Sequence[str], size: int) -> list[Log]:
    """Write a split: money goes, a batch of both outcomes comes."""
    return [
        log(USDC_E, [TRANSFER, wallet, CTF], size),
        log(CTF, [BATCH, wallet, ZERO, wallet], *_batch(assets, size)),
    ]


def merged(wallet: str, assets: Sequence[str], size: int) -> list[Log]:
    """Write a merge: a batch of both outcomes goes, money comes."""
    return [
        log(CTF, [BATCH, wallet, wallet, ZERO], *_batch(assets, size)),
        log(USDC_E, [TRANSFER, CTF, wallet], size),
    ]


def converted(wallet: str, given: str, taken: Sequence[str], size: int) -> list[Log]:
    """Write a conversion: shares against one outcome go, shares in all the others come, by an adapter."""
    return [
        log(CTF, [SINGLE, ADAPTER, wallet, ADAPTER], int(given), size),
        log(CTF, [BATCH, ADAPTER, ADAPTER, wallet], *_batch(taken, size)),
    ]


def _batch(assets: Sequence[str], size: int) -> list[int]:
    ids = [int(one) for one in assets]
    return [64, 64 + 32 * (len(ids) + 1), len(ids), *ids, len(ids), *[size] * len(ids)]


def foreign(fill: Fill, address: str) -> list[Log]:
    """Write a match of an exchange that nobody knows."""
    return [*moved(fill), {**filled(fill, 7), "address": address}]
