"""What was ordered in a day, and what we and its leader hold of an asset, as texts that are changed by swap.

Pure functions from a text to the next one. An order is counted before it is sent and corrected after, by its
own id, so that a crash, a repeat or a second worker never counts it twice and no limit is ever passed.
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from fractions import Fraction
from typing import Any

Text = dict[str, Any]

_NOTHING: Text = {"size": "0", "cost": "0", "selling": {}, "booked": []}

REMEMBERED = 100
"""How many fills of an asset are remembered by id; a fill is booked again only while its order is open."""

SALES = 100
"""How many sales of a day are remembered by id; of earlier ones, only what they lost in all."""

SEEN = 100
"""How many of a leader's trades in an asset are remembered by id; of earlier ones, only their sum."""

PATIENCE = 60.0
"""Seconds that a sale waits for a purchase under way; then it sells what is held."""

SHARE = Decimal("0.01")
"""The smallest part of a share that is ordered."""


# ----- a day


def count(
    day: Mapping[str, Any] | None,
    order: str,
    loss: Decimal,
    buys: bool,
    most: tuple[int, float],
    leaves: bool = False,
) -> Text | str:
    """Count an order with the loss that it may bring; a text says which limit forbids it.

    An order that leaves a position takes no new risk: its loss counts, but no limit forbids it.
    """
    text = dict(day or {"orders": {}})
    if order in text["orders"] or order in text.get("sales", {}):
        return text
    if leaves:
        return _sold(text, order, loss)
    if len(text["orders"]) >= most[0]:
        return f"{most[0]} orders a day are the limit"
    if buys and lost(text) >= Decimal(str(most[1])):
        return f"{most[1]:.2f} dollars were lost today, which is the limit"
    return {**text, "orders": {**text["orders"], order: format(loss, "f")}}


def _sold(text: Text, order: str, loss: Decimal) -> Text:
    sales = {**text.get("sales", {}), order: format(loss, "f")}
    earlier = Decimal(text.get("earlier", "0"))
    while len(sales) > SALES:
        earlier += Decimal(sales.pop(next(iter(sales))))
    return {**text, "sales": sales, "earlier": format(earlier, "f")}


def correct(day: Mapping[str, Any] | None, order: str, loss: Decimal | None) -> Text | None:
    """Put the true loss of an order, or take it back with None; None if there is nothing to change."""
    text = day or {}
    place = next((one for one in ("orders", "sales") if order in text.get(one, {})), None)
    if place is None:
        return None
    orders = dict(text[place])
    known = orders.pop(order)
    if loss is not None:
        orders[order] = format(loss, "f")
        if orders[order] == known:
            return None
    return {**text, place: orders}


def lost(day: Mapping[str, Any]) -> Decimal:
    """Sum a day's losses; gains count against them."""
    known = [*day["orders"].values(), *day.get("sales", {}).values(), day.get("earlier", "0")]
    return sum(map(Decimal, known), Decimal(0))


# ----- what a leader holds of one asset, as far as it was seen


def saw(held: Mapping[str, Any] | None, order: str, at: int, size: Decimal) -> Text | None:
    """Note a trade of the leader under the id of our order, once; what they sold is below zero."""
    text: Text = {**_NOTHING, **(held or {})}
    seen = dict(text.get("seen", {}))
    if order in seen:
        return None
    seen[order] = [at, format(size, "f")]
    before = Decimal(text.get("before", "0"))
    while len(seen) > SEEN:
        first = _in_order(seen)[0]
        before = max(before + Decimal(seen.pop(first)[1]), Decimal(0))
    return {**text, "seen": seen, "before": format(before, "f")}


def share(held: Mapping[str, Any] | None, order: str) -> Fraction:
    """Say which share of what they held a leader sold by a trade.

    Whoever sells more than was seen to be bought held more than is known: then it counts as everything.
    """
    text = held or {}
    owned = Decimal(text.get("before", "0"))
    for one in _in_order(text.get("seen", {})):
        size = Decimal(text["seen"][one][1])
        if one == order:
            return Fraction(-size) / Fraction(owned) if owned + size >= SHARE else Fraction(1)
        owned = max(owned + size, Decimal(0))
    return Fraction(1)


def _in_order(seen: Mapping[str, Any]) -> list[str]:
    """Sort trades by their time, whenever they were heard of; of one second, purchases first."""
    return sorted(seen, key=lambda one: (seen[one][0], Decimal(seen[one][1]) < 0))


# ----- what is held of one asset


def available(held: Mapping[str, Any] | None, order: str) -> Decimal:
    """Say how much may be sold by this order: what is held, less what others are selling."""
    text = held or {}
    others = (Decimal(size) for one, size in text.get("selling", {}).items() if one != order)
    return max(Decimal(text.get("size", "0")) - sum(others, Decimal(0)), Decimal(0))


def part(held: Mapping[str, Any] | None, order: str) -> Decimal:
    """Say how much to sell, so that the share is sold that the leader sold."""
    return SHARE * int(Fraction(available(held, order)) * share(held, order) / Fraction(SHARE))


def sell(held: Mapping[str, Any] | None, order: str, size: Decimal) -> Text | None:
    """Set aside what an order wants to sell, or as much as there is; None if there is nothing."""
    granted = min(size, available(held, order))
    if granted <= 0 or held is None:
        return None
    return {**held, "selling": {**held.get("selling", {}), order: format(granted, "f")}}


def is_known(held: Mapping[str, Any] | None, order: str) -> bool:
    """Say whether shares are set aside for an order, or were sold by it."""
    text = held or {}
    return order in text.get("selling", {}) or order in text.get("booked", ())


def let_go(held: Mapping[str, Any] | None, order: str) -> Text | None:
    """Give back what was set aside for an order that will not happen, and wait for it no longer."""
    places = [name for name in ("selling", "buying") if order in (held or {}).get(name, {})]
    if held is None or not places:
        return None
    return {**held, **{name: _without(held[name], order) for name in places}}


def _without(orders: Mapping[str, Any], order: str) -> Text:
    return {one: known for one, known in orders.items() if one != order}


def buying(held: Mapping[str, Any] | None, order: str, since: float) -> Text:
    """Note a purchase that is under way: a sale that follows it must not find that nothing is held."""
    text: Text = {**_NOTHING, **(held or {})}
    known = {one: at for one, at in text.get("buying", {}).items() if since - at < PATIENCE}
    return {**text, "buying": {order: since, **known}}


def awaits(held: Mapping[str, Any] | None, order: str, now: float) -> bool:
    """Say whether a sale has to wait for a purchase that the leader made before it."""
    text = held or {}
    seen = text.get("seen", {})
    mine = seen[order][0] if order in seen else now
    return any(
        now - at < PATIENCE and one in seen and seen[one][0] <= mine
        for one, at in text.get("buying", {}).items()
    )


def book(held: Mapping[str, Any] | None, order: str, side: str, size: Decimal, usdc: Decimal) -> Text | None:
    """Book what was filled, once."""
    text: Text = {**_NOTHING, **(held or {})}
    if order in text["booked"]:
        return None
    owned, cost = Decimal(text["size"]), Decimal(text["cost"])
    if side == "BUY":
        owned, cost = owned + size, cost + usdc
    else:
        sold = min(size, owned)
        cost -= unit_cost(text) * sold
        owned -= sold
    text |= let_go(text, order) or {}
    booked = [*text["booked"], order][-REMEMBERED:]
    return {**text, "size": format(owned, "f"), "cost": format(cost, "f"), "booked": booked}


def unit_cost(held: Mapping[str, Any] | None) -> Decimal:
    """Say what a share that is held has cost on average."""
    size = Decimal((held or {}).get("size", "0"))
    return Decimal((held or {})["cost"]) / size if size else Decimal(0)
