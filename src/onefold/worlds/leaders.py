"""Leaders who trade: each trade is mined on a chain and shown by `/activity`, and stands in one journal.

A transaction may hold several orders of a leader, of one asset or of several, and both sides; the chain shows
every order, the list one row per wallet, asset and side. What is no trade is mined and listed beside them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from random import Random
from typing import Any, Literal, NamedTuple

from onefold.worlds.chain import Chain, Transaction
from onefold.worlds.feed import Feed, Row
from onefold.worlds.journal import Journal
from onefold.worlds.matches import MILLION, Fill, converted, foreign, match, merged, minted, redeemed, split
from onefold.worlds.polymarket import Polymarket
from onefold.worlds.site import Response

Kind = Literal["trade", "mint", "redeem", "split", "merge", "convert", "foreign"]

LISTED: Mapping[Kind, str] = {
    "redeem": "REDEEM",
    "split": "SPLIT",
    "merge": "MERGE",
    "convert": "CONVERSION",
}
"""How the list calls what is no trade."""

LEADERS = tuple(f"0x{number:040x}" for number in (0xA11CE, 0xB0B0, 0xCA401))
UNKNOWN = "0x" + "77" * 20


class Deed(NamedTuple):
    """What a leader does in one transaction."""

    kind: Kind
    transaction: str
    fills: tuple[Fill, ...]


class Leaders:
    """Lets leaders act; the journal has a line for every trade that is to be copied, and for what is not."""

    def __init__(self, chain: Chain, data: Polymarket, journal: Journal | None = None) -> None:
        self.chain = chain
        self.data = data
        self.journal = journal or Journal()
        self.activity = _Activity("/activity", page=100, max_offset=5_000, journal=Journal())
        data.routes |= self.activity.routes
        self._number = 0

    def act(self, *deeds: Deed, listed: bool = True, mined: bool = True) -> None:
        """Let deeds happen together: in one block, and on the list if it shows them."""
        if mined:
            self.chain.mine(*[Transaction(one.transaction, self._logs(one)) for one in deeds])
        for one in deeds:
            for row in self._rows(one):
                self.journal.note("deed", copied=one.kind in ("trade", "mint"), **_named(row))
        if listed:
            self.show(*deeds)

    def show(self, *deeds: Deed, at: int | None = None) -> None:
        """Show deeds on the list, by default with the time of the newest block; the journal is not told."""
        for one in deeds:
            for row in self._rows(one) if one.kind != "foreign" else ():
                self._number += 1
                stamp = {} if at is None else {"timestamp": at}
                self.activity.add({**row, **stamp, "id": f"row-{self._number}"})

    def hide(self, *transactions: str) -> None:
        """Take the rows of transactions off the list, as if they had never happened."""
        self.activity.remove(*self.activity.ids("transactionHash", transactions))

    def draw(self, seed: int, number: int, kinds: Sequence[Kind] = ("trade",)) -> list[Deed]:
        """Draw deeds, by a seed."""
        random = Random(seed)
        return [
            self._deed(random, f"0x{seed:032x}{place:032x}", random.choice(kinds)) for place in range(number)
        ]

    def _deed(self, random: Random, transaction: str, kind: Kind) -> Deed:
        wallet = random.choice(LEADERS)
        fills = [self._fill(random, wallet)]
        while kind == "trade" and random.random() < 0.4:
            # The same order again, in another part; the other side; or another asset.
            twist = random.randrange(3)
            last = fills[-1]
            fills.append(
                last if twist == 0
                else last._replace(side="SELL" if last.side == "BUY" else "BUY") if twist == 1
                else self._fill(random, wallet)
            )  # fmt: skip
        return Deed(kind, transaction, tuple(fills))

    def _fill(self, random: Random, wallet: str) -> Fill:
        market = random.choice([row for row in self.data.markets if not row["closed"]])
        size = random.randrange(20, 2_000) * MILLION
        price = random.randrange(10, 90)
        era: Literal["V1", "V2"] = random.choice(("V1", "V2"))
        asset = random.choice(json.loads(market["clobTokenIds"]))
        side: Literal["BUY", "SELL"] = random.choice(("BUY", "SELL"))
        return Fill(wallet, asset, side, size, size * price // 100, size // 100, era)

    def _logs(self, deed: Deed) -> list[dict[str, Any]]:
        first, number = deed.fills[0], int(deed.transaction[-16:], 16) + 1
        pair = [first.asset, str(int(first.asset) ^ 1)]
        match deed.kind:
            case "trade":
                return match(deed.fills, number)
            case "mint":
                return minted(first, pair[1], number)
            case "redeem":
                return redeemed(first.wallet, first.asset, first.size)
            case "split":
                return split(first.wallet, pair, first.size)
            case "merge":
                return merged(first.wallet, pair, first.size)
            case "convert":
                return converted(first.wallet, pair[0], [pair[1], str(int(pair[1]) + 4)], first.size)
            case "foreign":
                return foreign(first, UNKNOWN)

    def _rows(self, deed: Deed) -> list[Row]:
        """List a deed as the Data API does: orders of one asset and side together."""
        groups: dict[tuple[str, str], list[Fill]] = {}
        for fill in deed.fills:
            groups.setdefault((fill.asset, fill.side), []).append(fill)
        return [self._row(deed, fills) for fills in groups.values()]

    def _row(self, deed: Deed, fills: Sequence[Fill]) -> Row:
        first, size = fills[0], sum(one.size for one in fills)
        row: Row = {
            "proxyWallet": first.wallet.upper().replace("0X", "0x"),
            "timestamp": self.chain.head.timestamp,
            "transactionHash": deed.transaction,
            "size": size / MILLION,
            "usdcSize": sum(one.usdc + one.fee for one in fills) / MILLION,
            "type": "TRADE",
            "asset": first.asset,
            "side": first.side,
            "price": sum(one.usdc for one in fills) / size,
            **self._market(first.asset),
        }
        if deed.kind in LISTED:
            row |= {"type": LISTED[deed.kind], "asset": "", "side": "", "price": 0, "outcomeIndex": 999}
        return row

    def _market(self, asset: str) -> Row:
        for market in self.data.markets:
            assets = json.loads(market.get("positionIds") or market["clobTokenIds"])
            if asset in assets:
                place = assets.index(asset)
                outcome = json.loads(market["outcomes"])[place]
                known = {
                    "conditionId": market["conditionId"],
                    "slug": market["slug"],
                    "title": market["question"],
                }
                return {**known, "outcome": outcome, "outcomeIndex": place}
        return {"conditionId": "", "slug": "", "title": "", "outcome": "", "outcomeIndex": 999}


class _Activity(Feed):
    """Rows of one user, of the types that are asked for; they carry no id."""

    def _shown(self, query: Mapping[str, str]) -> list[Row]:
        user, kinds = query.get("user", "").lower(), query.get("type", "").split(",")
        mine = [row for row in super()._shown(query) if row["proxyWallet"].lower() == user]
        return [row for row in mine if not kinds[0] or row["type"] in kinds]

    def _body(self, page: list[Row], following: str | None = None) -> Response:
        return super()._body([{k: v for k, v in row.items() if k != "id"} for row in page], following)


def reference(leader: str, transaction: str, asset: str, side: str) -> str:
    """Name a trade as its copies do."""
    return f"{leader.lower()}/{transaction}/{asset}/{side}"


def _named(row: Row) -> Row:
    name = reference(row["proxyWallet"], row["transactionHash"], row["asset"], row["side"])
    return {"name": name, "type": row["type"], "size": row["size"], "transaction": row["transactionHash"]}
