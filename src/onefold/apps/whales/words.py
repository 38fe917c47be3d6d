"""The alert: one message, in the few tags that a chat knows. Everything from outside is escaped."""

from __future__ import annotations

from decimal import Decimal

from onefold.apps._polymarket import CHAIN, SITE, Fill, fill
from onefold.core.record import Record
from onefold.sinks.markup import escaped


def alert(record: Record) -> str:
    """Write the message about a fill."""
    return told(fill(record.body))


def told(one: Fill) -> str:
    """Tell of a fill."""
    dot = "🟢" if one.side == "BUY" else "🔴"
    market = escaped(one.title or "a market")
    link = f'<a href="{SITE}/market/{escaped(one.slug)}">{market}</a>' if one.slug else market
    outcome = f" {escaped(one.outcome)}" if one.outcome else ""
    return (
        f"<b>{money(one.notional)} trade</b>\n"
        f"{link}\n"
        f"{dot} {one.side}{outcome} at {percent(one.price)}, {one.size:,.0f} shares\n"
        f'<a href="{SITE}/profile/{escaped(one.wallet)}">{escaped(short(one))}</a>, '
        f'<a href="{CHAIN}/tx/{escaped(one.transaction)}">transaction</a>'
    )


def money(amount: Decimal) -> str:
    """Write dollars, with cents below a thousand."""
    return f"${amount:,.0f}" if amount >= 1000 else f"${amount:,.2f}"


def percent(price: Decimal) -> str:
    return f"{price * 100:.1f} %"


def short(one: Fill) -> str:
    """Name the trader: what they call themselves, and enough of the wallet to know it again."""
    wallet = f"{one.wallet[:6]}…{one.wallet[-4:]}"
    return f"{one.trader[:40]} ({wallet})" if one.trader else wallet
