"""The sink of copytrade: a trade becomes an order, made and stored once, sent under an id from its key.

Preparing decides, with everything that may be missing, so a failure there leaves the key to the other source.
What is sent was stored before, and every attempt repeats it. Limits are counted before and corrected after.
They bound new risk, and no sale of what is held.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from onefold.apps._polymarket import Markets
from onefold.apps.copytrade import book
from onefold.apps.copytrade.leaders import Leaders, Since
from onefold.apps.copytrade.orders import Exchange, Placed, Request
from onefold.apps.copytrade.sizing import Order, Rule, Skip, at_limit, plan
from onefold.apps.copytrade.trades import Trade, trade
from onefold.core.claims import Happened
from onefold.core.documents import load, named, save
from onefold.core.entry import Effect
from onefold.core.errors import Later, Refused, Rejected
from onefold.core.key import Key
from onefold.core.ports import Claim
from onefold.core.record import Record
from onefold.core.terms import Seconds
from onefold.runtime import current, now
from onefold.worker.settings import Live, Setting

EVERYBODY = "*"

GAMMA_PATIENCE = 5.0
"""Seconds that a look-up of a market may take before the trade is left to the other source."""

AGAIN = 0.5
"""Seconds after which a sale looks again whether the purchase before it has come to its end."""

Rules = dict[str, Rule]


class Copies:
    """Copies trades to an exchange."""

    effect: Effect = "keyed"

    def __init__(
        self,
        exchange: Exchange,
        rules: Setting[Rules],
        markets: Markets,
        live: Live,
        *,
        leaders: Leaders,
        tick: Decimal,
        max_age: Seconds,
        clock: Callable[[], float] = now,
    ) -> None:
        self.window = exchange.window
        self._exchange = exchange
        self._rules = rules
        self._markets = markets
        self._live = live
        self._leaders = leaders
        self._tick = tick
        self._max_age = max_age
        self._clock = clock
        self._turn = asyncio.Lock()

    # ----- before

    async def prepare(self, claim: Claim, record: Record) -> Request:
        """Decide, and make the order that every attempt sends; or say why there is none."""
        one, order = trade(record.body), client_id(claim.key)
        # What is skipped is skipped for good, so a list of a few seconds ago must not decide it.
        reason = _passed_over(one, await self._leaders.since())
        if reason and (reason := _passed_over(one, await self._leaders.fresh())):
            return {"skip": reason}
        await self._note(one, order)
        request = await self._decided(claim, one, order)
        if "skip" in request:
            await self._changed(held_key(one), lambda stands: book.let_go(stands, order))
        return request

    async def _note(self, one: Trade, order: str) -> None:
        """Note what the leader did, copied or not: the share of a later sale is counted from it."""
        size, now = one.size if one.side == "BUY" else -one.size, self._clock()

        def change(stands: Any) -> Any:
            seen = book.saw(stands, order, one.timestamp, size)
            return book.buying(seen, order, now) if seen and one.side == "BUY" else seen

        await self._changed(held_key(one), change)

    async def _decided(self, claim: Claim, one: Trade, order: str) -> Request:
        rules = {name.lower(): rule for name, rule in (await self._rules.value()).items()}
        rule = rules.get(one.leader) or rules.get(EVERYBODY)
        if rule is None:
            return {"skip": "no rule says how this leader is copied"}
        tick, closed = await self._market(one)
        if closed:
            return {"skip": "the market is closed"}
        planned = plan(one, rule, tick, self._clock() - one.timestamp, self._max_age)
        leaves = False
        if one.side == "SELL":
            planned, leaves = await self._leaving(one, order, rule, tick, planned)
        if isinstance(planned, Skip):
            return {"skip": planned.reason}
        return await self._request(claim.key, one, planned, rule, leaves)

    async def _market(self, one: Trade) -> tuple[Decimal, bool]:
        """Find the tick of a trade's market, and whether it is closed.

        The chain does not know markets, so its trade waits for Gamma; a list does, so its trade need not.
        """
        try:
            async with asyncio.timeout(GAMMA_PATIENCE):
                market = await self._markets.one(one.asset)
        except Exception as error:
            if one.condition:
                return self._tick, False
            raise Refused(
                f"nothing is known of the market of {'/'.join(one.parts)}: {error!r:.200}"
            ) from None
        return market.tick or self._tick, market.closed

    async def _leaving(
        self, one: Trade, order: str, rule: Rule, tick: Decimal, risky: Order | Skip
    ) -> tuple[Order | Skip, bool]:
        """Follow a sale of the leader with what is held, and say whether that is all that is sold.

        Where a rule lets more be sold than is held, that takes new risk: `risky` is what its limits allow.
        """
        priced = at_limit(one, rule, tick)
        if isinstance(priced, Skip):
            return priced, False
        more = risky.size if isinstance(risky, Order) and not rule.only_held else Decimal(0)
        waits: list[bool] = []

        def change(stands: Any) -> Any:
            waits[:] = [rule.only_held and book.awaits(stands, order, self._clock())]
            return None if waits[0] else book.sell(stands, order, max(book.part(stands, order), more))

        held = await self._changed(held_key(one), change)
        if waits[0]:
            raise Later("what the leader bought before is being bought", AGAIN)
        granted = Decimal((held or {}).get("selling", {}).get(order, "0"))
        size = max(granted, more)
        if size <= 0:
            known = book.available(held, order)
            return Skip(
                f"of {known} that are held less than {book.SHARE} is to be sold"
                if known
                else "nothing of it is held"
            ), False
        return priced._replace(size=size), size <= granted

    async def _request(self, key: Key, one: Trade, planned: Order, rule: Rule, leaves: bool) -> Request:
        [held] = await self._live.ask(load([held_key(one)]))
        order = {
            "client_id": client_id(key),
            "reference": "/".join(one.parts),
            "asset": one.asset,
            "side": planned.side,
            "size": format(planned.size, "f"),
            "price": format(planned.price, "f"),
            "type": "FAK",
        }
        return {
            "order": order,
            "cost": format(book.unit_cost(held.value if held else None), "f"),
            "day": datetime.fromtimestamp(self._clock(), UTC).date().isoformat(),
            "limits": [rule.max_orders, rule.max_loss],
            "leaves": leaves,
        }

    # ----- the order

    async def put(self, work: Sequence[tuple[Claim, Record]]) -> Sequence[Any | Exception]:
        return [await self._copied(claim, record) for claim, record in work]

    async def _copied(self, claim: Claim, record: Record) -> Any:
        request, one = claim.request, trade(record.body)
        if "skip" in request:
            return {"skipped": request["skip"]}
        try:
            if request.get("leaves") and not await self._set_aside(one, request):
                return {"skipped": "what it was to sell was sold by another order"}
            forbidden = await self._count(one, request)
            if forbidden:
                await self._let_go(one, request)
                return {"skipped": forbidden}
            return await self._booked(one, request, await self._exchange.place(request["order"]))
        except Rejected as error:
            await self._take_back(one, request)
            return error
        except Exception as error:
            return error

    async def probe(self, claim: Claim, record: Record) -> Happened | None:
        """Look for an order in doubt by its own id; one that is not found may still come."""
        if not claim.request or "skip" in claim.request:
            return None
        found = await self._exchange.find(claim.request["order"]["client_id"])
        if found is None:
            return None
        return Happened(await self._booked(trade(record.body), claim.request, found))

    async def aclose(self) -> None:
        """Let go of connections."""
        await self._exchange.aclose()

    # ----- the book

    async def _set_aside(self, one: Trade, request: Request) -> bool:
        """Set aside what a sale sells, unless that is so already; False if it is not there any more.

        The shares of a rejected order were given back, and another sale may have taken them before a person
        retried it. It gets all of them or none: every attempt sends the same order.
        """
        order, size = request["order"]["client_id"], Decimal(request["order"]["size"])
        granted: list[bool] = []

        def change(stands: Any) -> Any:
            known = book.is_known(stands, order)
            granted[:] = [known or book.available(stands, order) >= size]
            return None if known or not granted[0] else book.sell(stands, order, size)

        await self._changed(held_key(one), change)
        return granted[0]

    async def _count(self, one: Trade, request: Request) -> str | None:
        """Count an order into its day, before it is sent; say which limit forbids it."""
        said: list[str] = []
        order = request["order"]
        loss = _loss(request, Decimal(order["size"]), Decimal(order["price"]))
        # What an earlier version prepared does not say it.
        leaves = request.get("leaves", one.side == "SELL")

        def change(stands: Any) -> Any:
            counted = book.count(
                stands, order["client_id"], loss, one.side == "BUY", tuple(request["limits"]), leaves
            )
            said[:] = [counted] if isinstance(counted, str) else []
            return None if said or counted == stands else counted

        await self._changed(day_key(one, request), change)
        return said[0] if said else None

    async def _booked(self, one: Trade, request: Request, placed: Placed) -> dict[str, str]:
        """Book what was filled, and put its true loss in the place of the worst one."""
        order, usdc = request["order"]["client_id"], placed.size * placed.price
        loss = _loss(request, placed.size, placed.price)
        await self._changed(held_key(one), lambda held: book.book(held, order, one.side, placed.size, usdc))
        await self._changed(day_key(one, request), lambda day: book.correct(day, order, loss))
        return {"order": placed.order, "size": format(placed.size, "f"), "price": format(placed.price, "f")}

    async def _take_back(self, one: Trade, request: Request) -> None:
        """An order that will never be is counted no longer."""
        await self._changed(
            day_key(one, request), lambda day: book.correct(day, request["order"]["client_id"], None)
        )
        await self._let_go(one, request)

    async def _let_go(self, one: Trade, request: Request) -> None:
        await self._changed(held_key(one), lambda held: book.let_go(held, request["order"]["client_id"]))

    async def _changed(self, key: Key, change: Callable[[Any], Any]) -> Mapping[str, Any] | None:
        """Change a text of the book. Across workers the swap is what holds; the lock only spares rounds."""
        async with self._turn:
            document = await self._live.ask(save(key, current().token(), change))
        return document.value if document else None


def _passed_over(one: Trade, since: Since) -> str | None:
    """Say why a trade is not copied whose leader is not, or was not when it was made."""
    if one.leader not in since:
        return f"{one.leader} is not one of the leaders that are copied"
    if one.timestamp < since[one.leader]:
        return "the trade was made before its leader was added"
    return None


def client_id(key: Key) -> str:
    """Name an order by the key of its trade: whoever makes it, and whenever, gives it the same name."""
    return key.id.hex()[:32]


def day_key(one: Trade, request: Request) -> Key:
    """Name the text in which a day's orders after one leader are counted."""
    return named("copytrade", "day", one.leader, request["day"])


def held_key(one: Trade) -> Key:
    """Name the text in which stands what is held of an asset after one leader."""
    return named("copytrade", "held", one.leader, one.asset)


def _loss(request: Request, size: Decimal, price: Decimal) -> Decimal:
    """Say what a sale loses against what was paid; a gain is below zero, a purchase loses nothing."""
    cost = Decimal(request["cost"])
    return (cost - price) * size if request["order"]["side"] == "SELL" and cost else Decimal(0)
