"""What Polymarket's public services show: fills of the Data API, and markets of Gamma.

Rows come from outside and are checked here, once. Numbers are decimals of the text that was sent, because
floats of this service carry artefacts; addresses are lower case. It keeps a cache of markets, no more.
"""

from __future__ import annotations

import json
import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from decimal import Decimal, InvalidOperation
from itertools import product
from typing import Any, Literal, NamedTuple
from urllib.parse import urlencode

from onefold.core.errors import Refused
from onefold.sources.web import Manners, Web

DATA = "https://data-api.polymarket.com"
GAMMA = "https://gamma-api.polymarket.com"
SITE = "https://polymarket.com"
CHAIN = "https://polygonscan.com"

Side = Literal["BUY", "SELL"]


class Fill(NamedTuple):
    """One fill of an order, as the Data API shows it."""

    transaction: str
    wallet: str
    asset: str
    condition: str
    outcome_index: int
    side: Side
    size: Decimal
    price: Decimal
    timestamp: int
    title: str
    slug: str
    outcome: str
    trader: str
    repeat: int
    """Which of several rows that look exactly alike; 0 for the first."""

    @property
    def notional(self) -> Decimal:
        """What was paid, in dollars."""
        return self.size * self.price


def fill(row: Mapping[str, Any]) -> Fill:
    """Read a row of `/trades`; a ValueError says what is wrong with it."""
    side = str(row.get("side", "")).upper()
    if side not in ("BUY", "SELL"):
        raise ValueError(f"its side is {row.get('side')!r:.40}, neither BUY nor SELL")
    return Fill(
        _text(row, "transactionHash").lower(),
        _text(row, "proxyWallet").lower(),
        _text(row, "asset"),
        _text(row, "conditionId").lower(),
        int(row.get("outcomeIndex", 0) or 0),
        "BUY" if side == "BUY" else "SELL",
        _number(row, "size"),
        _number(row, "price"),
        int(row["timestamp"]),
        str(row.get("title") or ""),
        str(row.get("slug") or ""),
        str(row.get("outcome") or ""),
        str(row.get("name") or row.get("pseudonym") or ""),
        int(row.get("repeat", 0)),
    )


def fill_parts(row: Mapping[str, Any]) -> tuple[str, ...]:
    """Name a fill. One transaction holds several; fills that look exactly alike are counted."""
    one = fill(row)
    amount, price = format(one.size, "f"), format(one.price, "f")
    return (one.transaction, one.wallet, one.asset, one.side, amount, price, str(one.repeat))


def counted(body: Any) -> list[Any]:
    """Number the rows of one page that look exactly alike.

    Only within a page: a row that slid into the next page while we read is the same row, not a second fill.
    """
    if not isinstance(body, list):
        return body  # type: ignore[no-any-return]
    seen: Counter[str] = Counter()
    rows: list[Any] = []
    for row in body:
        if not isinstance(row, dict):
            rows.append(row)
            continue
        alike = json.dumps(row, sort_keys=True)
        rows.append({**row, "repeat": seen[alike]})
        seen[alike] += 1
    return rows


def _text(row: Mapping[str, Any], name: str) -> str:
    value = row.get(name)
    if not isinstance(value, str) or not value:
        raise ValueError(f"its {name} is {value!r:.60}, no text")
    return value


def _number(row: Mapping[str, Any], name: str) -> Decimal:
    try:
        value = Decimal(str(row.get(name)))
    except InvalidOperation:
        raise ValueError(f"its {name} is {row.get(name)!r:.60}, no number") from None
    if not value.is_finite() or value <= 0:
        raise ValueError(f"its {name} is {value}, not above zero")
    return value


# ----- markets


class Market(NamedTuple):
    """What Gamma knows of a market."""

    condition: str
    slug: str
    question: str
    tags: tuple[str, ...]
    """Slugs and labels, lower case."""
    outcomes: tuple[str, ...]
    assets: tuple[str, ...]
    closed: bool
    tick: Decimal | None = None
    neg_risk: bool = False


def market(row: Mapping[str, Any]) -> Market:
    """Read a market; its lists are JSON inside of JSON, and parallel."""
    tags = [tag for tag in row.get("tags") or () if isinstance(tag, dict)]
    words = {str(tag[name]).lower() for tag in tags for name in ("slug", "label") if tag.get(name)}
    if row.get("category"):
        words.add(str(row["category"]).lower())
    tick = row.get("orderPriceMinTickSize")
    return Market(
        str(row.get("conditionId", "")).lower(),
        str(row.get("slug") or ""),
        str(row.get("question") or ""),
        tuple(sorted(words)),
        tuple(_list(row.get("outcomes"))),
        _assets(row),
        bool(row.get("closed")),
        None if tick is None else Decimal(str(tick)),
        bool(row.get("negRisk")),
    )


def _assets(row: Mapping[str, Any]) -> tuple[str, ...]:
    """Name the tokens of a market: markets of the third exchange list them as positions."""
    names = ("positionIds", "clobTokenIds") if row.get("version") == "v2" else ("clobTokenIds",)
    return next((tuple(found) for name in names if (found := _list(row.get(name)))), ())


def _list(value: Any) -> list[str]:
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError:
            return []
    return [str(one) for one in value] if isinstance(value, list) else []


class Markets:
    """Looks markets up: many at a time, closed ones too, each remembered for a while."""

    BATCH = 50

    def __init__(
        self,
        url: str = GAMMA,
        *,
        by: Literal["condition_ids", "clob_token_ids"] = "condition_ids",
        remember: float = 300.0,
        limit: int = 20_000,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._web = Web(f"{url.rstrip('/')}/markets", {}, Manners(timeout=10.0, tries=2))
        self._by = by
        self._remember = remember
        self._limit = limit
        self._clock = clock
        self._known: OrderedDict[str, tuple[float, Market]] = OrderedDict()

    async def get(self, wanted: Iterable[str]) -> dict[str, Market]:
        """Return what is known of markets; those that Gamma does not know yet are left out."""
        now = self._clock()
        ids = list(dict.fromkeys(wanted))
        missing = [one for one in ids if not self._fresh(one, now)]
        for at in range(0, len(missing), self.BATCH):
            await self._look_up(missing[at : at + self.BATCH], now)
        return {one: self._known[one][1] for one in ids if one in self._known}

    async def one(self, wanted: str) -> Market:
        """Return one market, or refuse: what is not there yet may be in a moment."""
        found = (await self.get([wanted])).get(wanted)
        if found is None:
            raise Refused(f"Gamma does not know the market {wanted[:20]}… yet")
        return found

    def _fresh(self, wanted: str, now: float) -> bool:
        return wanted in self._known and now - self._known[wanted][0] < self._remember

    async def _look_up(self, ids: Sequence[str], now: float) -> None:
        left = list(ids)
        # A token may be one of the older markets, or a position of a newer one; an id does not tell reliably.
        names = ("clob_token_ids", "position_ids") if self._by == "clob_token_ids" else (self._by,)
        async with self._web.client() as client:
            # Closed markets are left out unless they are asked for, even by their id.
            for name, closed in product(names, ("false", "true")):
                if not left:
                    return
                pairs = [(name, one) for one in left]
                query = urlencode(
                    [*pairs, ("closed", closed), ("limit", str(len(left))), ("include_tag", "true")]
                )
                rows = await self._web.get(client, f"{self._web.url}?{query}", _rows)
                self._take(rows, now)
                left = [one for one in left if not self._fresh(one, now)]

    def _take(self, rows: Sequence[Any], now: float) -> None:
        for row in rows:
            found = market(row)
            names = [found.condition] if self._by == "condition_ids" else found.assets
            for name in names:
                self._known[name] = (now, found)
                self._known.move_to_end(name)
        while len(self._known) > self._limit:
            self._known.popitem(last=False)


def _rows(body: Any) -> list[Any]:
    return [row for row in body if isinstance(row, dict)] if isinstance(body, list) else []
