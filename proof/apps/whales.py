"""Whales in the simulation: a feed with ties, repeats and late fills, and a chat that loses its answers."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

from onefold.apps._polymarket import fill_parts
from onefold.core.entry import Entry, Seen
from onefold.core.key import Key
from onefold.worker.progress import cursor_key
from onefold.worker.work import is_kept
from onefold.worlds.chat import TOKEN, ChatWorld
from onefold.worlds.mischief import Mischief, Trick
from onefold.worlds.polymarket import Polymarket
from onefold.worlds.serving import StandIn
from proof.apps.part import Act, Look, Part, Setting

FEED_TRICKS: tuple[Trick, ...] = ("stall", "error", "busy", "cut-before", "half", "stale", "empty", "garbage")
CHAT_TRICKS: tuple[Trick, ...] = ("stall", "error", "busy", "cut-before", "cut-after", "half")

CURSOR = cursor_key("whales", "trades")

NEWCOMER = "newcomer"
NOTICED = 15.0
"""Seconds in which every worker has noticed a live setting, whatever befalls the store."""

ALIKE = 4
"""More fills than are ever exactly alike."""

SUBSCRIBERS: list[dict[str, Any]] = [
    {"chat": "all"},
    {"chat": "large", "min_notional": 50_000},
    {"chat": "crypto", "categories": ["crypto"]},
]

_HASH = re.compile(r"/tx/(0x[0-9a-f]+)")


class Whales(Part):
    """Fills, up to three subscribers, one chat service."""

    name = "whales"

    def __init__(self, random: Random, clock: Callable[[], float], folder: Path) -> None:
        super().__init__(random, clock, folder)
        self.data = Polymarket(_drawn(random, FEED_TRICKS, 0.15), markets=6)
        self.chat = ChatWorld(_drawn(random, CHAT_TRICKS, 0.2))
        self.every = random.choice((8, 15, 25))
        self.lookback = random.choice((1, 12, 40))
        self.page = random.choice((2, 3, 5, 20))
        self.joins = random.uniform(8, 15) if random.random() < 0.5 else None
        """When one more subscriber is added."""
        self._began = clock()
        (folder / "token").write_text(TOKEN)

    def services(self) -> Sequence[StandIn]:
        return self.data, self.chat

    def section(self) -> Mapping[str, Any]:
        return {
            "chat_token": f"file:{self.folder / 'token'}",
            "every": f"{self.every}s",
            "page": self.page,
            "lag": f"{self.lookback}s",
            "since": "forever",
            "lease": "20s",
            "backoff": ["5s", "20s"],
            "attempts": 60,
            "data_url": self.data.url,
            "gamma_url": self.data.url,
            "chat_url": self.chat.url,
            "chat_pace": [0.0, 0.0, 0.0],
        }

    def settings(self) -> Sequence[Setting]:
        return [Setting("subscribers", SUBSCRIBERS)]

    def plan(self) -> Sequence[tuple[float, Act | Setting]]:
        fills = self.data.draw(self.random.randrange(2**32), self.random.randint(3, 10), 0)
        plan: list[tuple[float, Act | Setting]] = []
        if self.joins is not None:
            plan.append((self.joins, Setting("subscribers", [*SUBSCRIBERS, {"chat": NEWCOMER}])))
        # Some fills come one by one, some in a burst that is read in many pages.
        number = self.random.choice((1, 3, 10))
        moments = [1.0, *(self.random.uniform(5, self.span * 0.8) for _ in range(number))]
        while fills:
            together = [one for one in fills if one["transactionHash"] == fills[0]["transactionHash"]]
            fills = fills[len(together) :]
            at = self.random.choice(moments)
            late = self.random.uniform(0, self.lookback * 0.8) if self.random.random() < 0.4 else 0.0
            plan.append((at, partial(self._happen, together, late)))
        return plan

    def _happen(self, rows: Sequence[dict[str, Any]], late: float) -> None:
        """Let the fills of one transaction happen; the feed may show them only some seconds later."""
        at = int(self.clock() - late)
        self.data.happen(*({**row, "timestamp": at, "appeared": self.clock()} for row in rows))

    def calm(self) -> None:
        self.data.mischief.stop()
        self.chat.mischief.stop()

    def expected(self) -> Counter[str]:
        tags = {row["conditionId"]: row["tags"][0]["slug"] for row in self.data.markets}
        found: Counter[str] = Counter()
        for line in self.data.journal.of("fill"):
            found[f"all/{line['transactionHash']}"] += 1
            if line["size"] * line["price"] >= 50_000:
                found[f"large/{line['transactionHash']}"] += 1
            if tags[line["conditionId"]] == "crypto":
                found[f"crypto/{line['transactionHash']}"] += 1
            if self._is_after_joining(line):
                found[f"{NEWCOMER}/{line['transactionHash']}"] += 1
        return found

    def _is_after_joining(self, line: Mapping[str, Any]) -> bool:
        """Say whether the newcomer has to hear of a fill; around the change that is left to chance."""
        return self.joins is not None and line["appeared"] > self._began + self.joins + NOTICED

    def happened(self) -> Counter[str]:
        after = {
            line["transactionHash"] for line in self.data.journal.of("fill") if self._is_after_joining(line)
        }
        told = [(line["chat"], _transaction(line["text"])) for line in self.chat.journal.of("message")]
        return Counter(f"{chat}/{fill}" for chat, fill in told if chat != NEWCOMER or fill in after)

    def named(self, key: Key, entry: Entry) -> str | None:
        kept = json.loads(entry.body or "{}")
        record = (kept.get("record") or {}).get("body") or {}
        return f"{kept['for']}/{record.get('transactionHash')}" if kept.get("for") else None

    def did_happen(self, key: Key, entry: Entry, look: Look) -> bool | None:
        """Count messages of the very text. Fills that are exactly alike are told in messages that are alike.

        So they are counted together, and nothing is said while one of them is still open.
        """
        kept = json.loads(entry.body or "{}")
        chat, *fill = kept["for"], *fill_parts(kept["record"]["body"])
        alike = [Key(key.scope, *fill[:-1], str(number), chat) for number in range(ALIKE)]
        others = [seen for one, seen in zip(alike, look(alike), strict=True) if one.id != key.id]
        if any(self._may_be_on_its_way(one) for one in others):
            return None
        told = sum(one.entry is not None and one.entry.state == "done" for one in others)
        [text, *_] = kept["request"]["texts"]
        return self.chat.arrived[chat, text] > told

    def moved(self, key: Key, entry: Entry, look: Look) -> Iterator[str]:
        """Hold the cursor against the feed: whatever it showed further back is done, parked or kept."""
        if key != CURSOR:
            return
        place = json.loads(entry.body or "{}").get("at")
        if place is None:
            return
        alike: Counter[tuple[str, ...]] = Counter()
        for line in self.data.journal.of("fill"):
            parts = fill_parts(line)
            alike[parts] += 1
            named = (*parts[:-1], str(alike[parts] - 1))
            mine = Key(self.name, *named, "all")
            # A fill whose subscribers could not be asked is kept without a name.
            unnamed = Key(f"{self.name}.each", *named)
            if line["timestamp"] < place - self.lookback and not any(
                _is_accounted(seen.entry) for seen in look([mine, unnamed])
            ):
                yield f"the cursor stands at {place}, and a fill of {line['timestamp']} is open: {mine}"

    def _may_be_on_its_way(self, seen: Seen) -> bool:
        entry = seen.entry
        if entry is None or entry.state in ("done", "free"):
            return False
        return entry.state == "held" or seen.idle < self.patience


def _is_accounted(entry: Entry | None) -> bool:
    return entry is not None and (entry.state in ("done", "parked") or is_kept(entry))


def _transaction(text: str) -> str:
    found = _HASH.search(text)
    return found[1] if found else text


def _drawn(random: Random, tricks: Sequence[Trick], most: float) -> Mischief:
    """Draw how a service misbehaves in one history: some of its tricks, each at a rate of its own."""
    chosen = random.sample(tricks, random.randint(0, len(tricks)))
    share = most / max(len(chosen), 1)
    rates = {trick: random.uniform(0.2, 1.0) * share * 2 for trick in chosen}
    return Mischief(random.randrange(2**32), rates, random.choice((0.5, 3.0, 12.0)))
