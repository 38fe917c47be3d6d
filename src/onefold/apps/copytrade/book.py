"""What was ordered in a day and what is held of an asset, as texts that are changed by swap.

Pure functions from a text to the next one. An order is counted before it is sent and corrected after, by its
own id, so that a crash, a repeat or a second worker never counts it twice and no limit is ever passed.
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Any

Text = dict[str, Any]

REMEMBERED = 100
"""How many fills of an asset are remembered by id; a fill is booked again only while its order is open."""


# ----- a day


def count(
    day: Mapping[str, Any] | None, order: str, loss: Decimal, buys: bool, most: tuple[int, float]
) -> Text | str:
    """Count an order with the loss that it may bring; a text says which limit forbids it."""
    orders = dict((day or {}).get("orders", {}))
    if order in orders:
        return {"orders": orders}
    if len(orders) >= most[0]:
        return f"{most[0]} orders a day are the limit"
    if buys and lost(orders) >= Decimal(str(most[1])):
        return f"{most[1]:.2f} dollars were lost today, which is the limit"
    return {"orders": {**orders, order: format(loss, "f")}}


def correct(day: Mapping[str, Any] | None, order: str, loss: Decimal | None) -> Text | None:
    """Put the true loss of an order, or take it back with None; None if there is nothing to change."""
    orders = dict((day or {}).get("orders", {}))
    if order not in orders:
        return None
    known = orders.pop(order)
    if loss is not None:
        orders[order] = format(loss, "f")
        if orders[order] == known:
            return None
    return {"orders": orders}


def lost(orders: Mapping[str, str]) -> Decimal:
    """Sum a day's losses; gains count against them."""
    return sum((Decimal(one) for one in orders.values()), Decimal(0))


# ----- what is held of one asset


def available(held: Mapping[str, Any] | None, order: str) -> Decimal:
    """Say how much may be sold by this order: what is held, less what others are selling."""
    text = held or {}
    others = (Decimal(size) for one, size in text.get("selling", {}).items() if one != order)
    return max(Decimal(text.get("size", "0")) - sum(others, Decimal(0)), Decimal(0))


def sell(held: Mapping[str, Any] | None, order: str, size: Decimal) -> Text | None:
    """Set aside what an order wants to sell, or as much as there is; None if there is nothing."""
    granted = min(size, available(held, order))
    if granted <= 0 or held is None:
        return None
    return {**held, "selling": {**held.get("selling", {}), order: format(granted, "f")}}


def let_go(held: Mapping[str, Any] | None, order: str) -> Text | None:
    """Give back what was set aside for an order that will not happen."""
    if held is None or order not in held.get("selling", {}):
        return None
    return {**held, "selling": {one: size for one, size in held["selling"].items() if one != order}}


def book(held: Mapping[str, Any] | None, order: str, side: str, size: Decimal, usdc: Decimal) -> Text | None:
    """Book what was filled, once."""
    text: Text = {"size": "0", "cost": "0", "selling": {}, "booked": [], **(held or {})}
    if order in text["booked"]:
        return None
    owned, cost = Decimal(text["size"]), Decimal(text["cost"])
    if side == "BUY":
        owned, cost = owned + size, cost + usdc
    else:
        sold = min(size, owned)
        cost -= unit_cost(text) * sold
        owned -= sold
    selling = {one: left for one, left in text["selling"].items() if one != order}
    booked = [*text["booked"], order][-REMEMBERED:]
    return {"size": format(owned, "f"), "cost": format(cost, "f"), "selling": selling, "booked": booked}


def unit_cost(held: Mapping[str, Any] | None) -> Decimal:
    """Say what a share that is held has cost on average."""
    size = Decimal((held or {}).get("size", "0"))
    return Decimal((held or {})["cost"]) / size if size else Decimal(0)
