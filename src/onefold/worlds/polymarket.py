"""Polymarket's public services: fills as `/trades` shows them, and markets as Gamma does.

Fills come several to a transaction and to a second, some of them exactly alike, with titles that would break
markup. The journal has a line for every fill that truly happened. Markets may be closed, or not known yet.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from random import Random
from typing import Any
from urllib.parse import parse_qs

from onefold.worlds.feed import Feed, Row
from onefold.worlds.journal import Journal
from onefold.worlds.mischief import Mischief
from onefold.worlds.site import Request, Response, Site

TITLES = (
    "Will BTC close above $100k?",
    "Fed <cuts> rates & inflation < 2%?",
    'Will "the Rock" run for president?',
    "Lakers vs. Celtics",
)
TAGS = ("crypto", "economy", "politics", "sports")


class Polymarket(Site):
    """The Data API and Gamma on one port."""

    def __init__(
        self, mischief: Mischief | None = None, journal: Journal | None = None, *, markets: int = 8
    ) -> None:
        self.journal = journal or Journal()
        self.trades = _Fills("/trades", page=100, max_offset=10_000, journal=Journal())
        self.markets = [_market(number) for number in range(markets)]
        self.unknown_for: Counter[str] = Counter()
        """How often a market is still answered as if it did not exist."""
        super().__init__({**self.trades.routes, ("GET", "/markets"): self._markets}, mischief)
        self._number = 0

    def happen(self, *fills: Row) -> None:
        """Let fills happen."""
        for fill in fills:
            self._number += 1
            self.journal.note("fill", number=self._number, **fill)
            self.trades.add({**fill, "id": f"fill-{self._number}"})

    def draw(self, seed: int, number: int, at: int) -> list[Row]:
        """Draw fills that end at a time, oldest first: ties, several to a transaction, some exactly alike."""
        random = Random(seed)
        rows: list[Row] = []
        while len(rows) < number:
            at_once = [_fill(random, self.markets, f"{seed:x}{len(rows):06x}")]
            while random.random() < 0.3:
                at_once.append(_fill(random, self.markets, at_once[0]["transactionHash"][2:]))
            if random.random() < 0.1:
                at_once.append(dict(at_once[-1]))
            rows += at_once
        rows = rows[:number]
        times = sorted(at - int(random.random() * number / 5) for _ in range(number))
        stamps: dict[str, int] = {}
        for row, time in zip(rows, times, strict=True):
            row["timestamp"] = stamps.setdefault(row["transactionHash"], time)
        return rows

    def renew(self, number: int) -> tuple[str, str]:
        """Make a market one of the third exchange, whose tokens are positions; return them."""
        row, ids = self.markets[number], (str(7 * 2**104 + 2 * number), str(7 * 2**104 + 2 * number + 1))
        row |= {"version": "v2", "positionIds": json.dumps(ids), "clobTokenIds": "[]"}
        return ids

    def _markets(self, request: Request) -> Response:
        asked = parse_qs(request.raw_query)
        closed = request.query.get("closed", "false") == "true"
        limit = int(request.query.get("limit", 20))
        found = [row for row in self.markets if row["closed"] == closed and self._is_wanted(row, asked)]
        return Response(found[:limit])

    def _is_wanted(self, row: Row, asked: Mapping[str, Sequence[str]]) -> bool:
        wanted = {
            *({row["conditionId"]} & set(asked.get("condition_ids", ()))),
            *(set(json.loads(row["clobTokenIds"])) & set(asked.get("clob_token_ids", ()))),
            *(set(json.loads(row.get("positionIds", "[]"))) & set(asked.get("position_ids", ()))),
        }
        if not wanted:
            return False
        if self.unknown_for[row["conditionId"]] > 0:
            self.unknown_for[row["conditionId"]] -= 1
            return False
        return True


class _Fills(Feed):
    """A feed whose rows carry no id: the service shows none."""

    def _body(self, page: list[Row], following: str | None = None) -> Response:
        return super()._body([{k: v for k, v in row.items() if k != "id"} for row in page], following)


def _market(number: int) -> dict[str, Any]:
    return {
        "conditionId": f"0x{number:064x}",
        "slug": f"market-{number}",
        "question": TITLES[number % len(TITLES)],
        "outcomes": json.dumps(["Up", "Down"] if number % 2 else ["Yes", "No"]),
        "clobTokenIds": json.dumps([str(10**70 + 2 * number), str(10**70 + 2 * number + 1)]),
        "tags": [{"slug": TAGS[number % len(TAGS)], "label": TAGS[number % len(TAGS)].title()}],
        "closed": number % 3 == 2,
        "orderPriceMinTickSize": 0.01,
        "negRisk": False,
    }


def _fill(random: Random, markets: Sequence[dict[str, Any]], transaction: str) -> Row:
    market = random.choice(markets)
    index = random.randrange(2)
    return {
        "proxyWallet": f"0x{random.randrange(20):040X}",
        "side": random.choice(("BUY", "SELL")),
        "asset": json.loads(market["clobTokenIds"])[index],
        "conditionId": market["conditionId"],
        "size": round(random.uniform(1, 200_000), 6),
        "price": random.choice((0.5, 0.123, 0.860000001148, 0.99)),
        "timestamp": 0,
        "title": market["question"],
        "slug": market["slug"],
        "outcome": json.loads(market["outcomes"])[index],
        "outcomeIndex": index,
        "name": random.choice(("", "<b>bob</b>", "whale & co")),
        "transactionHash": f"0x{transaction:0>64}",
    }
