"""Whales in the demo: fills on a feed that repeats, shifts and stalls, and a chat that loses its answers."""

from __future__ import annotations

import json
import time
import urllib.request
from collections import Counter
from pathlib import Path
from typing import Any

from onefold.worlds.chat import TOKEN, ChatWorld
from onefold.worlds.demo.account import kept_in
from onefold.worlds.demo.naive import remember, remembered
from onefold.worlds.mischief import Mischief
from onefold.worlds.polymarket import Polymarket

FILLS = 120
SUBSCRIBERS: list[dict[str, Any]] = [
    {"chat": "all"},
    {"chat": "large", "min_notional": 50_000},
    {"chat": "crypto", "categories": ["crypto"]},
]


class Whales:
    """Fills, three subscribers, one chat service."""

    name = "whales"

    def start(self, folder: Path, seed: int) -> str:
        tricks = {"stall": 0.1, "error": 0.03, "busy": 0.03, "cut-before": 0.02, "half": 0.02, "stale": 0.03}
        self.data = Polymarket(Mischief(seed, tricks, 0.15))  # type: ignore[arg-type]
        self.chat = ChatWorld(Mischief(seed + 1, {"stall": 0.5, "cut-after": 0.03, "error": 0.03}, 0.5))
        self.data.__enter__()
        self.chat.__enter__()
        self._fills = self.data.draw(seed, FILLS, int(time.time()))
        self._shown = 0
        return (
            f'chat_token = "env:DEMO_CHAT_TOKEN"\nevery = "300ms"\npage = 20\nlag = "2m"\nlease = "5s"\n'
            f'since = "forever"\nbackoff = ["200ms", "2s"]\nattempts = 50\n'
            f'data_url = "{self.data.url}"\ngamma_url = "{self.data.url}"\nchat_url = "{self.chat.url}"\n'
            "chat_pace = [0.0, 0.0, 0.0]\n"
        )

    def setup(self) -> dict[str, Any]:
        return {"whales.subscribers": SUBSCRIBERS}

    def happen(self, share: float) -> None:
        until = min(int(share * FILLS) + 1, FILLS)
        while self._shown < until:
            # Those of one transaction come together, with the second in which they come.
            row = self._fills[self._shown]
            together = [
                one for one in self._fills[self._shown :] if one["transactionHash"] == row["transactionHash"]
            ]
            now = int(time.time())
            self.data.happen(*({**one, "timestamp": now} for one in together))
            self._shown += len(together)

    def calm(self) -> None:
        self.data.mischief.stop()
        self.chat.mischief.stop()

    def expected(self) -> Counter[str]:
        found: Counter[str] = Counter()
        for line in self.data.journal.of("fill"):
            found.update(f"{who}/{line['transactionHash']}" for who in self._audience(line))
        return found

    def _audience(self, line: dict[str, Any]) -> list[str]:
        tags = {row["conditionId"]: row["tags"][0]["slug"] for row in self.data.markets}
        large = line["size"] * line["price"] >= 50_000
        crypto = tags[line["conditionId"]] == "crypto"
        return ["all", *(["large"] if large else []), *(["crypto"] if crypto else [])]

    def happened(self) -> Counter[str]:
        return Counter(
            f"{line['chat']}/{line['text'].rpartition('/tx/')[2].partition(chr(34))[0]}"
            for line in self.chat.journal.of("message")
        )

    def filtered(self) -> int:
        fills = self.data.journal.of("fill")
        return len(fills) * len(SUBSCRIBERS) - self.expected().total()

    def named(self, row: dict[str, Any]) -> str | None:
        kept = kept_in(row)
        record = kept.get("record", {}).get("body") or {}
        return f"{kept['for']}/{record.get('transactionHash')}" if kept.get("for") else None

    def naive(self) -> dict[str, Any]:
        return {"data": self.data.url, "chat": f"{self.chat.url}/bot{TOKEN}/sendMessage"}

    def close(self) -> None:
        self.data.__exit__(None, None, None)
        self.chat.__exit__(None, None, None)


# ----- as seed 000 has it


def naive(facts: dict[str, Any], folder: Path) -> None:
    """Mark before processing, key by transaction, stop at the cursor, send again when no answer came."""
    cursor = remembered(folder, "cursor.json", "")
    processed = set(remembered(folder, "processed.json", []))
    with urllib.request.urlopen(f"{facts['data']}/trades?limit=100", timeout=2) as answer:
        trades = json.load(answer)
    for trade in trades:
        transaction = trade["transactionHash"]
        if transaction == cursor:
            break
        if transaction in processed:
            continue
        processed.add(transaction)
        remember(folder, "processed.json", sorted(processed))
        for who in _naive_audience(trade):
            _naive_send(facts["chat"], who, trade)
    if trades:
        remember(folder, "cursor.json", trades[0]["transactionHash"])
    time.sleep(0.3)


def _naive_audience(trade: dict[str, Any]) -> list[str]:
    large = trade["size"] * trade["price"] >= 50_000
    return ["all", *(["large"] if large else [])]


def _naive_send(url: str, chat: str, trade: dict[str, Any]) -> None:
    text = f'{trade["size"]} at {trade["price"]} <a href="https://polygonscan.com/tx/{trade["transactionHash"]}">tx</a>'
    body = json.dumps({"chat_id": chat, "text": text}).encode()
    request = urllib.request.Request(url, body, {"Content-Type": "application/json"})
    for _ in range(3):
        try:
            urllib.request.urlopen(request, timeout=2).close()
            return
        except OSError:
            continue
