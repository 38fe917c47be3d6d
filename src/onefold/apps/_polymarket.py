"""What Polymarket's public services show: fills of the Data API, and markets of Gamma.

Rows come from outside and are checked here, once: what they say, and that they answer what was asked.
Numbers are decimals of the text that was sent, because floats of this service carry artefacts; addresses are
lower case. It keeps a cache of markets, no more.
"""

from __future__ import annotations

import json
import logging
import re
from collections import Counter, OrderedDict
from collections.abc import Callable, Container, Hashable, Iterable, Mapping, Sequence
from decimal import Decimal, InvalidOperation
from itertools import product
from typing import Any, Literal, NamedTuple
from urllib.parse import urlencode

from onefold.core.errors import Refused
from onefold.core.record import Broken
from onefold.core.rows import rows_of
from onefold.core.wire import Unreadable, flaw, parse, quoted
from onefold.runtime import monotonic
from onefold.sources.web import Manners, Web

log = logging.getLogger("onefold.apps")

DATA = "https://data-api.polymarket.com"
GAMMA = "https://gamma-api.polymarket.com"
SITE = "https://polymarket.com"
CHAIN = "https://polygonscan.com"

Side = Literal["BUY", "SELL"]
By = Literal["condition_ids", "clob_token_ids"]

DIGITS = 28
"""How many digits an amount may have: as many as decimals are computed with, so that none is rounded."""

LARGEST = 18
"""Amounts below a ten to this power, and not smaller than one part of it, are believed."""

_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)


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
        _whole(row.get("outcomeIndex") or 0, "outcomeIndex"),
        "BUY" if side == "BUY" else "SELL",
        amount(row.get("size"), "size"),
        checked_price(amount(row.get("price"), "price")),
        _whole(row.get("timestamp"), "timestamp"),
        str(row.get("title") or ""),
        str(row.get("slug") or ""),
        str(row.get("outcome") or ""),
        str(row.get("name") or row.get("pseudonym") or ""),
        _whole(row.get("repeat", 0), "repeat"),
    )


def fill_parts(row: Mapping[str, Any]) -> tuple[str, ...]:
    """Name a fill. One transaction holds several; fills that look exactly alike are counted."""
    one = fill(row)
    amount, price = plain(one.size), plain(one.price)
    return (one.transaction, one.wallet, one.asset, one.side, amount, price, str(one.repeat))


def fill_name(row: Mapping[str, Any]) -> tuple[str, ...]:
    """Say what two fills that look exactly alike have in common."""
    one = fill(row)
    return (one.transaction, one.wallet, one.asset, one.side, plain(one.size), plain(one.price))


def former_parts(row: Mapping[str, Any]) -> list[tuple[str, ...]]:
    """Name a fill as earlier versions did, wherever that differs from its name now.

    They wrote an amount as it was sent, so that 10, 10.0 and "10.00" were three fills; and they counted as
    alike what was sent in the same words.
    """
    now = fill_parts(row)
    number = str(row.get("alike", row.get("repeat", 0)))
    spelled = product(_spellings(row["size"]), _spellings(row["price"]))
    found = [(*now[:4], size, price, number) for size, price in spelled]
    return [parts for parts in dict.fromkeys(found) if parts != now]


def _spellings(value: Any) -> list[str]:
    number = Decimal(str(value))
    text = plain(number)
    return list(dict.fromkeys((format(number, "f"), text, text if "." in text else f"{text}.0")))


def counted(body: Any, name: Callable[[Mapping[str, Any]], Hashable] = fill_name) -> list[Any]:
    """Number the rows of one page that look exactly alike, by what `name` says of them.

    Only within a page: a row that slid into the next page while we read is the same row, not a second fill.
    """
    if not isinstance(body, list):
        return body  # type: ignore[no-any-return]
    seen: Counter[Hashable] = Counter()
    worded: Counter[str] = Counter()
    rows: list[Any] = []
    for row in body:
        try:
            mine, words = name(row), json.dumps(row, sort_keys=True)
        except (ValueError, TypeError, AttributeError):  # it says what is wrong when it is read
            rows.append(row)
            continue
        numbers = {"repeat": seen[mine]}
        if worded[words] != seen[mine]:
            numbers["alike"] = worded[words]
        rows.append({**{field: one for field, one in row.items() if field != "alike"}, **numbers})
        seen[mine] += 1
        worded[words] += 1
    return rows


def plain(value: Decimal) -> str:
    """Write an amount in the one way in which it names something: 10, 10.0 and 10.00 are `10`."""
    return format(value.normalize(), "f")


def amount(value: Any, name: str) -> Decimal:
    """Read an amount above zero; a ValueError says what is wrong with it."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise ValueError(f"its {name} is {value!r:.60}, no number")
    try:
        number = Decimal(str(value))
    except InvalidOperation:
        raise ValueError(f"its {name} is {value!r:.60}, no number") from None
    if not number.is_finite() or number <= 0:
        raise ValueError(f"its {name} is {value!s:.60}, not above zero")
    if not _NUMBER.fullmatch(str(value)):
        raise ValueError(f"its {name} is {value!r:.60}, no number as JSON writes it")
    if len(number.as_tuple().digits) > DIGITS or not -LARGEST <= number.adjusted() < LARGEST:
        raise ValueError(f"its {name} is {value!s:.60}, larger, smaller or longer than any amount")
    return number


def checked_price(price: Decimal) -> Decimal:
    """Refuse a price that no outcome can have: a share is worth a dollar at most."""
    if not 0 < price <= 1:
        raise ValueError(f"its price is {price:.6f}, outside of 0 and 1")
    return price


def _text(row: Mapping[str, Any], name: str) -> str:
    value = row.get(name)
    if not isinstance(value, str) or not value:
        raise ValueError(f"its {name} is {value!r:.60}, no text")
    return value


def _whole(value: Any, name: str) -> int:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise ValueError(f"its {name} is {value!r:.60}, no whole number")
    return int(value)


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
    """Read a market, whose lists are JSON inside of JSON; a ValueError says what is wrong with it."""
    shown = row.get("tags")
    tags = [tag for tag in shown if isinstance(tag, dict)] if isinstance(shown, list) else []
    words = {str(tag[name]).lower() for tag in tags for name in ("slug", "label") if tag.get(name)}
    if row.get("category"):
        words.add(str(row["category"]).lower())
    return Market(
        _text(row, "conditionId").lower(),
        str(row.get("slug") or ""),
        str(row.get("question") or ""),
        tuple(sorted(words)),
        tuple(_list(row.get("outcomes"))),
        _assets(row),
        _flag(row, "closed"),
        _tick(row.get("orderPriceMinTickSize")),
        _flag(row, "negRisk"),
    )


def _assets(row: Mapping[str, Any]) -> tuple[str, ...]:
    """Name the tokens of a market: markets of the third exchange list them as positions."""
    names = ("positionIds", "clobTokenIds") if row.get("version") == "v2" else ("clobTokenIds",)
    return next((tuple(found) for name in names if (found := _list(row.get(name)))), ())


def _list(value: Any) -> list[str]:
    if isinstance(value, str):
        try:
            value = parse(value)
        except Unreadable:
            return []
    listed = value if isinstance(value, list) else []
    return [str(one) for one in listed if isinstance(one, str | int) and not isinstance(one, bool)]


def _flag(row: Mapping[str, Any], name: str) -> bool:
    """Read a flag, which may come as a text: `"false"` is false."""
    match row.get(name):
        case None:
            return False
        case bool() as said:
            return said
        case str() as text if text.lower() in ("true", "false"):
            return text.lower() == "true"
        case other:
            raise ValueError(f"its {name} is {other!r:.40}, neither true nor false")


def _tick(value: Any) -> Decimal | None:
    """Read a step of prices; None if the market does not say one."""
    if value is None or value == "":
        return None
    step = amount(value, "orderPriceMinTickSize")
    if step >= 1:
        raise ValueError(f"its orderPriceMinTickSize is {step:.6f}, no step between 0 and 1")
    return step


def answered(rows: Sequence[Any], by: By, asked: Container[str]) -> tuple[dict[str, Market], list[Broken]]:
    """Read the markets of an answer by the ids that were asked for; what is none of them is set apart."""
    found: dict[str, Market] = {}
    broken: list[Broken] = []
    for row in rows:
        try:
            one = _sound_market(row)
        except ValueError as error:
            broken.append(Broken(quoted(row), str(error)))
            continue
        names = [one.condition] if by == "condition_ids" else one.assets
        mine = [name for name in names if name in asked]
        if not mine:
            broken.append(
                Broken(quoted(row), f"it is the market {one.condition[:20]}, which was not asked for")
            )
        for name in mine:
            found.setdefault(name, one)
    return found, broken


def _sound_market(row: Any) -> Market:
    wrong = flaw(row)
    if wrong is None and not isinstance(row, dict):
        wrong = f"it is no object, but {type(row).__name__}"
    if wrong is not None:
        raise ValueError(wrong)
    return market(row)


class Markets:
    """Looks markets up: many at a time, closed ones too, each remembered for a while."""

    BATCH = 50

    def __init__(
        self,
        url: str = GAMMA,
        *,
        by: By = "condition_ids",
        remember: float = 300.0,
        limit: int = 20_000,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self._web = Web(f"{url.rstrip('/')}/markets", {}, Manners(timeout=10.0, tries=2))
        self._by = by
        self._remember = remember
        self._limit = limit
        self._clock = clock
        self._known: OrderedDict[str, tuple[float, Market]] = OrderedDict()
        self._reasons: dict[str, str] = {}
        """What was wrong with the last answer to a question for these ids."""

    async def get(self, wanted: Iterable[str]) -> dict[str, Market]:
        """Return what is known of markets; those that Gamma does not know yet are left out."""
        now = self._clock()
        ids = list(dict.fromkeys(wanted))
        missing = [one for one in ids if not self._fresh(one, now)]
        for one in missing:
            self._reasons.pop(one, None)
        for at in range(0, len(missing), self.BATCH):
            await self._look_up(missing[at : at + self.BATCH], now)
        return {one: self._known[one][1] for one in ids if one in self._known}

    async def one(self, wanted: str) -> Market:
        """Return one market, or refuse: what is not there yet may be in a moment."""
        found = (await self.get([wanted])).get(wanted)
        if found is None:
            said = self._reasons.pop(wanted, "")
            raise Refused(
                f"Gamma does not know the market {wanted[:20]}… yet"
                + (f"; a row of its answer was set apart: {said}" if said else "")
            )
        return found

    def _fresh(self, wanted: str, now: float) -> bool:
        return wanted in self._known and now - self._known[wanted][0] < self._remember

    async def _look_up(self, ids: Sequence[str], now: float) -> None:
        left = list(ids)
        # A token may be one of the older markets, or a position of a newer one; an id does not tell reliably.
        names = ("clob_token_ids", "position_ids") if self._by == "clob_token_ids" else (self._by,)
        # Closed markets are left out unless they are asked for, even by their id.
        for name, closed in product(names, ("false", "true")):
            if not left:
                return
            pairs = [(name, one) for one in left]
            query = urlencode(
                [*pairs, ("closed", closed), ("limit", str(len(left))), ("include_tag", "true")]
            )
            rows = await self._web.get(f"{self._web.url}?{query}", _rows)
            self._take(rows, left, now)
            left = [one for one in left if not self._fresh(one, now)]

    def _take(self, rows: Sequence[Any], asked: Sequence[str], now: float) -> None:
        found, broken = answered(rows, self._by, frozenset(asked))
        if broken:
            # One line, however many there are: a query that Gamma does not know is answered with all markets.
            first = broken[0]
            log.warning(
                "%d rows of Gamma's answer are set apart; the first: %s: %.200s",
                len(broken),
                first.reason,
                first.raw,
            )
        for name in asked:
            if name in found:
                self._known[name] = (now, found[name])
                self._known.move_to_end(name)
            elif broken:
                self._reasons[name] = broken[0].reason
        while len(self._known) > self._limit:
            self._known.popitem(last=False)
        if len(self._reasons) > self._limit:
            self._reasons.clear()


def _rows(body: Any) -> list[Any]:
    return rows_of(body, None)
