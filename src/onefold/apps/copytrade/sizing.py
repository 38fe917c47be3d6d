"""How much to copy, and at which price at most: pure decisions from a trade, a rule and what is known.

Every way not to copy is an answer with a reason, never silence. Limits bound new risk: what is bought, and
what is sold without being held. Prices are kept inside of the tolerance and on the tick.
"""

from __future__ import annotations

from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from typing import Literal, NamedTuple

import msgspec

from onefold.apps.copytrade.book import SHARE
from onefold.apps.copytrade.trades import Side, Trade


class Rule(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """How a leader is copied; amounts are dollars, and days are of UTC."""

    mode: Literal["ratio", "fixed"] = "ratio"
    ratio: float = 0.1
    """Of the leader's size, in mode ratio. A sale of what is held follows the share that the leader sold."""
    amount: float = 10.0
    """Of every purchase, in mode fixed."""
    min_order: float = 1.0
    """A smaller purchase is not copied."""
    max_order: float = 100.0
    """A larger purchase is cut."""
    max_orders: int = 100
    """In a day; sales of what is held are not counted."""
    max_loss: float = 100.0
    """In a day; when it is reached nothing more is bought, but still sold."""
    tolerance: float = 0.05
    """By which share a price may be worse than the leader's."""
    sides: tuple[Side, ...] = ("BUY", "SELL")
    only_held: bool = True
    """Sell only what was bought as a copy."""

    def __post_init__(self) -> None:
        if self.ratio <= 0 or self.amount <= 0:
            raise ValueError("ratio and amount must be above zero")
        if not 0 <= self.min_order <= self.max_order:
            raise ValueError(f"min_order is {self.min_order} and max_order {self.max_order}: no range")
        if not 0 <= self.max_orders <= 1000:
            raise ValueError(f"max_orders is {self.max_orders}: write 0 to 1000")
        if not 0 <= self.tolerance < 1 or self.max_loss < 0:
            raise ValueError("tolerance must be below 1, and max_loss not below zero")


class Order(NamedTuple):
    """What is to be ordered, at this price or better."""

    side: Side
    size: Decimal
    price: Decimal


class Skip(NamedTuple):
    """Why a trade is not copied."""

    reason: str


def plan(trade: Trade, rule: Rule, tick: Decimal, age: float, max_age: float) -> Order | Skip:
    """Decide how a trade is copied that takes new risk, as far as the trade alone tells."""
    if age > max_age:
        return Skip(f"it is {age:.0f} s old")
    priced = at_limit(trade, rule, tick)
    if isinstance(priced, Skip):
        return priced
    wanted = (
        trade.size * _decimal(rule.ratio) if rule.mode == "ratio" else _decimal(rule.amount) / trade.price
    )
    size = min(wanted, _decimal(rule.max_order) / priced.price).quantize(SHARE, ROUND_FLOOR)
    worth = size * priced.price
    if size <= 0 or worth < _decimal(rule.min_order):
        return Skip(f"{worth:.2f} dollars are below the least of {rule.min_order:.2f}")
    return priced._replace(size=size)


def at_limit(trade: Trade, rule: Rule, tick: Decimal) -> Order | Skip:
    """Decide whether a trade may be copied at all, and at which price at most; the size is the leader's."""
    if trade.side not in rule.sides:
        return Skip(f"{trade.side} is not copied")
    if not 0 < trade.price <= 1:  # of an entry that an earlier version kept
        return Skip(f"its price is {trade.price:.4f}, outside of 0 and 1")
    price = limit(trade.side, trade.price, _decimal(rule.tolerance), tick)
    if price is None:
        return Skip(f"no price on the tick of {tick} is within the tolerance of {trade.price:.4f}")
    return Order(trade.side, trade.size, price)


def limit(side: Side, price: Decimal, tolerance: Decimal, tick: Decimal) -> Decimal | None:
    """Find the worst price on the tick that is within the tolerance, inside of 0 and 1; None if none is."""
    if side == "BUY":
        found = min(_on_tick(price * (1 + tolerance), tick, ROUND_FLOOR), 1 - tick)
    else:
        found = max(_on_tick(price * (1 - tolerance), tick, ROUND_CEILING), tick)
    return found if 0 < found < 1 else None


def _on_tick(price: Decimal, tick: Decimal, rounding: str) -> Decimal:
    return (price / tick).to_integral_value(rounding) * tick


def _decimal(value: float) -> Decimal:
    return Decimal(str(value))
