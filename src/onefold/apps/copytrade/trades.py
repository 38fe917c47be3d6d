"""A leader's trade: what names it, whichever source shows it, and how rows of a list are summed into one.

The chain shows orders and the list shows sums, so the name is (leader, transaction, asset, side) and the size
is summed over a closed group: everything of one transaction. Numbers are decimals of the text that was sent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Any, Literal, NamedTuple

from onefold.apps._polymarket import fill, plain
from onefold.core.record import Broken, Record

Side = Literal["BUY", "SELL"]


class Trade(NamedTuple):
    """All that a leader bought, or sold, of one asset in one transaction."""

    leader: str
    transaction: str
    asset: str
    side: Side
    size: Decimal
    usdc: Decimal
    """What it cost before fees; a fee in shares does not lessen the size."""
    timestamp: int
    condition: str = ""
    """Known where a list shows it; the chain does not know markets."""
    title: str = ""
    outcome: str = ""
    block: int | None = None

    @property
    def price(self) -> Decimal:
        return self.usdc / self.size

    @property
    def parts(self) -> tuple[str, str, str, str]:
        """What makes two sightings the same trade."""
        return (self.leader, self.transaction, self.asset, self.side)

    def body(self) -> dict[str, Any]:
        """Write it as a record's body."""
        return {**self._asdict(), "size": format(self.size, "f"), "usdc": format(self.usdc, "f")}


def trade(body: Mapping[str, Any]) -> Trade:
    """Read a trade back from a record."""
    return Trade(**{**body, "size": Decimal(body["size"]), "usdc": Decimal(body["usdc"])})


def key(record: Record) -> tuple[str, str, str, str] | None:
    """Name a trade; a record that only tells how far the chain was read is passed over."""
    return trade(record.body).parts if "leader" in record.body else None


def summed(trades: Iterable[Trade]) -> list[Trade]:
    """Sum what has one name, in the order of first sight."""
    found: dict[tuple[str, ...], Trade] = {}
    for one in trades:
        known = found.get(one.parts)
        found[one.parts] = (
            one if known is None else known._replace(size=known.size + one.size, usdc=known.usdc + one.usdc)
        )
    return list(found.values())


# ----- rows of /activity


def row_name(row: Mapping[str, Any]) -> tuple[str, ...]:
    """Say everything by which rows of `/activity` differ; a ValueError says what is wrong with a row.

    Two orders of one transaction may have one size and two prices. Rows of other types lack most fields.
    """
    kind = row.get("type")
    if not isinstance(kind, str) or not kind:
        raise ValueError(f"its type is {kind!r:.40}, no text")
    if kind != "TRADE":
        names = ("proxyWallet", "transactionHash", "asset", "side", "conditionId", "size", "usdcSize")
        return (kind, *(str(row.get(name, "")) for name in names))
    one = fill(row)
    paid = row.get("usdcSize", "")
    return (
        *(kind, one.wallet, one.transaction, one.asset, one.side, one.condition, str(one.outcome_index)),
        *(plain(one.size), plain(one.price)),
        plain(Decimal(str(paid))) if isinstance(paid, int | float) else str(paid),
    )


def row_id(row: Mapping[str, Any]) -> str:
    """Name a row of `/activity`."""
    return "/".join((*row_name(row), str(row.get("repeat", 0))))


def row_of(leader: str) -> Callable[[Mapping[str, Any]], str]:
    """Return what names the rows of one leader, and refuses the rows of anybody else."""

    def named(row: Mapping[str, Any]) -> str:
        wallet = row.get("proxyWallet")
        if not isinstance(wallet, str) or wallet.lower() != leader:
            raise ValueError(f"its proxyWallet is {wallet!r:.60}, but {leader} was asked for")
        return row_id(row)

    return named


def is_trade(row: Mapping[str, Any]) -> bool:
    """Say whether a row may be copied; redemptions, splits, merges and whatever else comes are not."""
    return row.get("type") == "TRADE"


def listed(row: Mapping[str, Any]) -> Trade:
    """Read a row of `/activity`; a ValueError says what is wrong with it."""
    one = fill(row)
    return Trade(
        one.wallet, one.transaction, one.asset, one.side, one.size, one.size * one.price, one.timestamp,
        one.condition, one.title, one.outcome,
    )  # fmt: skip


def closed(records: Sequence[Record], settled: float) -> tuple[list[Record], list[Broken]]:
    """Sum rows to trades, of closed groups alone: a later row was seen, or they are older than `settled`.

    A transaction has one time, so a group is never cut by where a round begins.
    """
    newest = max((one.at for one in records), default=0)
    trades: list[Trade] = []
    broken: list[Broken] = []
    for record in records:
        if not is_trade(record.body) or not (record.at < newest or record.at <= settled):
            continue
        try:
            trades.append(listed(record.body))
        except (ValueError, KeyError, TypeError) as error:
            broken.append(Broken(str(record.body)[:2000], f"{type(error).__name__}: {error}"))
    return [Record("/".join(one.parts), one.body(), one.timestamp) for one in summed(trades)], broken
