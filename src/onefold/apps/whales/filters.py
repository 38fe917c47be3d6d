"""Who wants to hear of which trade: filters as values, and one pure decision.

A filter that asks for a market's categories cannot be decided without the market: then the market is needed,
and nobody is passed over in silence because it is not there yet.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Literal

import msgspec

from onefold.apps._polymarket import Fill, Market


class Subscriber(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One chat, and what it wants to hear of. What is left out does not limit."""

    chat: str
    enabled: bool = True
    min_notional: float = 0.0
    min_price: float = 0.0
    max_price: float = 1.0
    sides: tuple[Literal["BUY", "SELL"], ...] = ()
    markets: tuple[str, ...] = ()
    """Condition ids or slugs."""
    categories: tuple[str, ...] = ()
    exclude_categories: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not self.chat:
            raise ValueError("a subscriber has no chat")
        if not 0 <= self.min_price <= self.max_price <= 1:
            raise ValueError(f"the prices of {self.chat} are no range within 0 and 1")


def wants(subscriber: Subscriber, fill: Fill) -> bool:
    """Decide what the fill alone can decide."""
    price = float(fill.price)
    return (
        subscriber.enabled
        and fill.notional >= Decimal(str(subscriber.min_notional))
        and subscriber.min_price <= price <= subscriber.max_price
        and (not subscriber.sides or fill.side in subscriber.sides)
        and (not subscriber.markets or bool({fill.condition, fill.slug} & _lower(subscriber.markets)))
    )


def needs_market(subscriber: Subscriber) -> bool:
    """Say whether a subscriber's filter asks for what only the market knows."""
    return bool(subscriber.categories or subscriber.exclude_categories)


def fits(subscriber: Subscriber, market: Market) -> bool:
    """Decide what the market decides."""
    tags = set(market.tags)
    if tags & _lower(subscriber.exclude_categories):
        return False
    return not subscriber.categories or bool(tags & _lower(subscriber.categories))


def _lower(words: tuple[str, ...]) -> set[str]:
    return {word.lower() for word in words}
