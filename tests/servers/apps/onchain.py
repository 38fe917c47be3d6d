"""Leaders who trade on a real node: contracts of our own, put there and called by the ABI of their compiler.

Nothing here writes a log: the node does, when the contracts tell of a match. What was done is noted in the
same journal as on the stand-in of a chain, so copies are counted against the same truth.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from eth_abi.abi import encode
from eth_hash.auto import keccak

from onefold.apps.copytrade.logs import Contracts
from onefold.worlds.leaders import Deed
from onefold.worlds.matches import MILLION, Fill
from tests.fast.apps.copying import Stage
from tests.launchers.anvil import ask

COMPILED: dict[str, dict[str, Any]] = json.loads(
    (Path(__file__).with_name("contracts") / "contracts.json").read_text()
)
FEES = "0x" + "fee" * 13 + "f"
PLENTY = 10**9 * MILLION
MARKETS = 2
OPERATOR, SOMEBODY, *LEADERS = range(4)
"""Which of the node's own accounts is whom."""


# ----- by the ABI


def kind(part: Mapping[str, Any]) -> str:
    """Write the type of a parameter; a tuple is written by its parts."""
    if not part["type"].startswith("tuple"):
        return str(part["type"])
    inside = ",".join(kind(one) for one in part["components"])
    return f"({inside}){part['type'].removeprefix('tuple')}"


def packed(name: str, function: str, *values: Any) -> str:
    """Write a call of a function of a contract, or what its constructor is given."""
    [entry] = [one for one in COMPILED[name]["abi"] if one.get("name", one["type"]) == function]
    kinds = [kind(one) for one in entry["inputs"]]
    selector = keccak(f"{function}({','.join(kinds)})".encode())[:4] if "name" in entry else b""
    return "0x" + (selector + encode(kinds, values)).hex()


# ----- matches


class Order(NamedTuple):
    """As the exchange takes it."""

    hash: bytes
    maker: str
    side: int
    asset: int
    shares: int
    money: int
    fee: int


def order(fill: Fill, number: int) -> Order:
    side = 0 if fill.side == "BUY" else 1
    name = number.to_bytes(32, "big")
    return Order(name, fill.wallet, side, int(fill.asset), fill.size, fill.usdc, fill.fee)


def matched(fill: Fill, somebody: str, number: int) -> tuple[Any, ...]:
    """Let an order meet two halves of the other side; in the first era it is the maker of the match."""
    other = fill._replace(wallet=somebody, side="SELL" if fill.side == "BUY" else "BUY", fee=0)
    half = other._replace(size=fill.size // 2, usdc=fill.usdc // 2)
    rest = other._replace(size=fill.size - half.size, usdc=fill.usdc - half.usdc)
    theirs = [order(half, number + 1), order(rest, number + 2)]
    mine = order(fill, number)
    return ([mine, *theirs] if fill.era == "V1" else [*theirs, mine], [], [], 0)


def completed(fill: Fill, somebody: str, number: int) -> tuple[Any, ...]:
    """Let two purchases meet, or two sales: of both outcomes of a market, which are made or taken back."""
    complement = str(int(fill.asset) ^ 1)
    theirs = fill._replace(wallet=somebody, asset=complement, usdc=fill.size - fill.usdc, fee=0)
    both = [int(fill.asset), int(complement)]
    made, gone = (both, []) if fill.side == "BUY" else ([], both)
    return ([order(theirs, number + 1), order(fill, number)], made, gone, fill.size)


# ----- the node


class OnChain:
    """Our contracts on a node, and accounts that may trade there; it mines when it is told to."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._accounts = [one.lower() for one in ask(url, "eth_accounts")]
        self.leaders = [self._accounts[one] for one in LEADERS]
        self._number = 0
        self.wait_to_mine()
        self.money = {era: self._put("Money") for era in ("V1", "V2")}
        self.shares = self._put("Shares")
        self.exchanges = {era: self._exchange(era) for era in ("V1", "V2")}
        self.foreign = self._exchange("V2")
        for account in self._accounts[: 2 + len(LEADERS)]:
            self._fund(account)

    @property
    def contracts(self) -> Contracts:
        """What copytrade is told; nobody tells it of the foreign exchange."""
        return Contracts(
            exchanges=(*self.exchanges.values(),), money=(*self.money.values(),), tokens=(self.shares,)
        )

    @property
    def height(self) -> int:
        return int(ask(self.url, "eth_blockNumber"), 16)

    def wait_to_mine(self) -> None:
        """Tell the node to mine on demand; one that was started again has forgotten it."""
        ask(self.url, "evm_setAutomine", False)

    def mine(self) -> None:
        ask(self.url, "evm_mine")

    def act(self, on: Stage, *deeds: Deed, listed: bool = False) -> list[str]:
        """Let deeds happen in one block, and note them under the names that the node gave them."""
        sent = [self._send(*self._call(one)) for one in deeds]
        self.mine()
        for one, transaction in zip(deeds, sent, strict=True):
            self._receipt(transaction)
            for part in parted(one._replace(transaction=transaction)):
                on.leaders.act(part, mined=False, listed=listed)
        return sent

    def receipt(self, transaction: str) -> Any:
        return ask(self.url, "eth_getTransactionReceipt", transaction)

    # ----- calls

    def _call(self, deed: Deed) -> tuple[str, str, str]:
        """Say who calls which contract, and with what."""
        first = deed.fills[0]
        if deed.kind == "split":
            both = [int(first.asset), int(first.asset) ^ 1]
            return (
                first.wallet,
                self.shares,
                packed("Shares", "split", self.money[first.era], both, first.size),
            )
        exchange = self.foreign if deed.kind == "foreign" else self.exchanges[first.era]
        meet = completed if deed.kind == "mint" else matched
        somebody = self._accounts[SOMEBODY]
        matches = [meet(one, somebody, self._next()) for one in deed.fills]
        return self._accounts[OPERATOR], exchange, packed("Exchange", "settle", matches)

    def _next(self) -> int:
        self._number += 10
        return self._number

    def _send(self, sender: str, to: str | None, data: str) -> str:
        asked = {"from": sender, "data": data, "gas": hex(5_000_000)}
        return str(ask(self.url, "eth_sendTransaction", asked if to is None else {**asked, "to": to}))

    def _done(self, sender: str, to: str | None, data: str) -> dict[str, Any]:
        sent = self._send(sender, to, data)
        self.mine()
        return self._receipt(sent)

    def _receipt(self, transaction: str) -> dict[str, Any]:
        found: dict[str, Any] = self.receipt(transaction)
        if found["status"] != "0x1":
            raise ValueError(f"{transaction} was reverted by its contract")
        return found

    # ----- the beginning

    def _put(self, name: str, *values: Any) -> str:
        data = COMPILED[name]["bytecode"]
        if values:
            data += packed(name, "constructor", *values).removeprefix("0x")
        return str(self._done(self._accounts[OPERATOR], None, data)["contractAddress"])

    def _exchange(self, era: str) -> str:
        return self._put("Exchange", self.money[era], self.shares, era == "V2", FEES)

    def _fund(self, account: str) -> None:
        """Give an account money of both eras and shares of all outcomes, and let the exchanges move them."""
        exchanges = [*self.exchanges.values(), self.foreign]
        for money in self.money.values():
            self._done(account, money, packed("Money", "mint", account, 2 * MARKETS * PLENTY))
            for spender in (*exchanges, self.shares):
                self._done(account, money, packed("Money", "approve", spender, 2**256 - 1))
            for market in range(MARKETS):
                self._done(account, self.shares, packed("Shares", "split", money, outcomes(market), PLENTY))
        for spender in exchanges:
            self._done(account, self.shares, packed("Shares", "setApprovalForAll", spender, True))


def parted(deed: Deed) -> list[Deed]:
    """Part a deed by leader: the journal and the list know one of each."""
    wallets = dict.fromkeys(one.wallet for one in deed.fills)
    return [
        deed._replace(fills=tuple(one for one in deed.fills if one.wallet == wallet)) for wallet in wallets
    ]


def outcomes(market: int) -> Sequence[int]:
    """Name the two outcomes of a market, as the stand-in of Gamma does."""
    return [10**70 + 2 * market, 10**70 + 2 * market + 1]
