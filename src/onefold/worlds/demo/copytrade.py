"""Copytrade in the demo: leaders on a chain that forks and a list that lags; an order book that stalls."""

from __future__ import annotations

import json
import time
import urllib.request
from collections import Counter
from pathlib import Path
from typing import Any

from onefold.worlds.chain import Chain, Node
from onefold.worlds.demo.account import kept_in
from onefold.worlds.demo.naive import remember, remembered
from onefold.worlds.leaders import LEADERS, Kind, Leaders, reference
from onefold.worlds.mischief import Mischief
from onefold.worlds.orders import OrderBook
from onefold.worlds.polymarket import Polymarket

DEEDS = 60
BLOCKS = 90
KINDS: tuple[Kind, ...] = ("trade", "trade", "trade", "mint", "redeem", "split", "foreign")
RULE: dict[str, Any] = {
    "ratio": 0.1,
    "max_order": 1e9,
    "max_orders": 1000,
    "max_loss": 1e9,
    "min_order": 0,
    "only_held": False,
}


class Copytrade:
    """Three leaders, one node, one list, one order book."""

    name = "copytrade"

    def start(self, folder: Path, seed: int) -> str:
        tricks = {"stall": 0.05, "error": 0.03, "busy": 0.03, "cut-before": 0.02, "half": 0.02}
        lines = Mischief(seed + 2, {"drop": 0.05, "repeat": 0.05, "swap": 0.05, "cut-before": 0.01}, 0.1)
        self.chain = Chain()
        self.node = Node(self.chain, Mischief(seed + 1, tricks, 0.1), lines, nulls=1)  # type: ignore[arg-type]
        self.data = Polymarket(Mischief(seed + 3, tricks, 0.1))  # type: ignore[arg-type]
        self.leaders = Leaders(self.chain, self.data)
        self.orders = OrderBook(Mischief(seed + 4, {"stall": 0.5, "cut-after": 0.1, "error": 0.03}, 0.5))
        for world in (self.node, self.data, self.orders):
            world.__enter__()
        self._deeds = self.leaders.draw(seed, DEEDS, KINDS)
        self._done = self._mined = 0
        wallets = ", ".join(f'"{one}"' for one in LEADERS)
        return (
            f'leaders = [{wallets}]\norders_url = "{self.orders.url}"\n'
            f'streams = ["{self.node.stream.url}"]\nnodes = ["{self.node.url}"]\nprivate = true\ndepth = 8\n'
            f'data_url = "{self.data.url}"\ngamma_url = "{self.data.url}"\nevery = "1s"\nsettle = "1s"\n'
            'receipt = "3s"\nlease = "5s"\nbackoff = ["200ms", "2s"]\nattempts = 50\n'
        )

    def setup(self) -> dict[str, Any]:
        return {"copytrade.rules": {"*": RULE}}

    def happen(self, share: float) -> None:
        while self._mined < min(int(share * BLOCKS) + 1, BLOCKS):
            self._mined += 1
            due = max(int(share * DEEDS) + 1, 0)
            self.leaders.act(*self._deeds[self._done : due])
            self._done = max(self._done, min(due, DEEDS))
            if self._mined % 20 == 0:
                self.chain.fork(2)

    def calm(self) -> None:
        for world in (self.node.site, self.node.stream, self.data, self.orders):
            world.mischief.stop()

    def expected(self) -> Counter[str]:
        return Counter(line["name"] for line in self.leaders.journal.of("deed") if line["copied"])

    def happened(self) -> Counter[str]:
        return Counter(self.orders.names())

    def filtered(self) -> int:
        return sum(not line["copied"] for line in self.leaders.journal.of("deed"))

    def named(self, row: dict[str, Any]) -> str | None:
        body = kept_in(row).get("record", {}).get("body") or {}
        if "leader" not in body:
            return None
        return reference(body["leader"], body["transaction"], body["asset"], body["side"])

    def naive(self) -> dict[str, Any]:
        return {"data": self.data.url, "orders": f"{self.orders.url}/orders", "leaders": LEADERS}

    def close(self) -> None:
        for world in (self.node, self.data, self.orders):
            world.__exit__(None, None, None)


# ----- as seed 004 has it


def naive(facts: dict[str, Any], folder: Path) -> None:
    """Fill a set at the first poll, key by leader and transaction, order first and save after."""
    seen: dict[str, set[str]] = {}
    while True:
        for leader in facts["leaders"]:
            rows = _naive_rows(facts["data"], leader)
            fresh = [row for row in rows if row["transactionHash"] not in seen.get(leader, set())]
            if leader in seen:
                for row in reversed(fresh):
                    _naive_process(facts["orders"], folder, leader, row)
            seen.setdefault(leader, set()).update(row["transactionHash"] for row in rows)
        time.sleep(0.5)


def _naive_rows(url: str, leader: str) -> list[dict[str, Any]]:
    try:
        with urllib.request.urlopen(
            f"{url}/activity?user={leader}&type=TRADE&limit=100", timeout=2
        ) as answer:
            rows: list[dict[str, Any]] = json.load(answer)
            return rows
    except (OSError, ValueError):
        return []


def _naive_process(url: str, folder: Path, leader: str, row: dict[str, Any]) -> None:
    processed = set(remembered(folder, "processed_trade.json", []))
    name = f"{leader}/{row['transactionHash']}"
    if name in processed:
        return
    order = {
        "reference": reference(leader, row["transactionHash"], row["asset"], row["side"]),
        "size": str(row["size"]),
        "price": str(row["price"]),
    }
    request = urllib.request.Request(url, json.dumps(order).encode(), {"Content-Type": "application/json"})
    for _ in range(2):  # a new order each time
        try:
            urllib.request.urlopen(request, timeout=0.4).close()
            break
        except OSError:
            continue
    remember(folder, "processed_trade.json", sorted({*processed, name}))
