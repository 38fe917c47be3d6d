"""Copytrade in the simulation: leaders on a chain that forks, nodes that lie, a list, and an order book.

Some trades are shown by the chain alone, some by the list alone, and most by both, so each source has to be
right on its own. What must be copied is counted from the journals, from the blocks and from the rows that are
left at the end. Where the application promises neither, as for a leader who is removed while a trade is
under way, both are accepted. It decides nothing for the application and calls none of its functions.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from decimal import ROUND_FLOOR, Decimal
from functools import partial
from pathlib import Path
from random import Random
from types import TracebackType
from typing import Any, Literal, NamedTuple, Self, cast

from onefold.core.documents import named as document
from onefold.core.entry import Entry
from onefold.core.key import Key
from onefold.testing.virtual import VirtualLoop
from onefold.worlds.chain import Block, Chain, Node, Transaction
from onefold.worlds.leaders import LEADERS, Deed, Kind, Leaders, reference
from onefold.worlds.matches import Fill, Side
from onefold.worlds.mischief import Mischief, Trick
from onefold.worlds.orders import OrderBook
from onefold.worlds.polymarket import Polymarket
from proof.apps.part import Act, Look, Part, Setting

Fate = Literal["must", "may", "never"]
Plan = list[tuple[float, Act | Setting]]

LIST_TRICKS: tuple[Trick, ...] = ("stall", "error", "busy", "cut-before", "half", "stale", "empty", "garbage")
NODE_TRICKS: tuple[Trick, ...] = ("stall", "error", "busy", "cut-before", "cut-after", "half")
STREAM_TRICKS: tuple[Trick, ...] = (
    "drop", "repeat", "swap", "cut-before", "stall", "garbage", "half-open"
)  # fmt: skip
ORDER_TRICKS: tuple[Trick, ...] = (*NODE_TRICKS, "stale", "garbage")

NO_TRADES: tuple[Kind, ...] = ("redeem", "split", "merge", "convert", "foreign")
DEEPEST_FORK = 3
NOTICED = 12.0
"""Seconds after which workers know of a change of leaders, though a question or two to the store fail."""
CENT = Decimal("0.01")
ANOTHER_CHAIN = 1

CHAIN_CURSOR = document("cursors", "copytrade", "chain")
WATCHED = document("copytrade", "watched")
FOLLOWED = document("copytrade", "leaders")


class Change(NamedTuple):
    """Who is copied from a time on."""

    at: float
    leaders: tuple[str, ...]


class Drop(NamedTuple):
    """A transaction that a fork took away: from which block on, and whether it comes back."""

    at: int
    comes_back: bool


class Trade(NamedTuple):
    """One line of the leaders' journal."""

    name: str
    leader: str
    transaction: str
    asset: str
    side: str
    size: Decimal
    copied: bool
    """Whether it is a trade at all."""

    @property
    def key(self) -> Key:
        return Key("copytrade", self.leader, self.transaction, self.asset, self.side)


class Copytrade(Part):
    """Up to three leaders, up to three nodes, one list, one order book."""

    name = "copytrade"
    span = 36.0

    def __init__(self, random: Random, clock: Callable[[], float], folder: Path) -> None:
        super().__init__(random, clock, folder)
        self.depth = random.choice((4, 5))
        self.limit = random.choice((None, None, None, 2, 5))
        """Purchases of a day per leader; then sales are of what is held alone, too. None: copy everything."""
        self.ratios = [0.1]
        self.chain = Chain(clock=clock)
        self.data = Polymarket(_drawn(random, LIST_TRICKS, 0.1), markets=4 if self.limit is None else 1)
        self.leaders = Leaders(self.chain, self.data)
        self.orders = OrderBook(_drawn(random, ORDER_TRICKS, 0.25))
        self.nodes = self._drawn_nodes()
        self.streams = self.nodes[: random.choice((1, 1, 1, 3))]
        random.shuffle(self.nodes)
        self.has_dead_node = random.random() < 0.3
        self.miner = Miner(self.chain, random)
        self.every = random.choice((10, 20, 30))
        self.sweep = random.choice((12, 30, 60, 60))
        self.blocks_at_once = random.choice((30, 500, 500))
        self.changes = [Change(0.0, self._chosen())]
        self.drops: dict[str, Drop] = {}
        self.retracted: dict[bytes, str] = {}
        """By its key, which trade was retracted."""
        self.watched: dict[str, set[str]] = {}
        """By transaction, the trades in it that a worker wrote down to be watched."""
        self._watched_last: set[str] = set()
        """Transactions that were watched when somebody last wrote that down."""
        self._acted: dict[str, float] = {}
        self._unlisted: dict[str, tuple[Deed, int]] = {}
        """What the list does not show yet, and the time that it will show with it."""
        self._quiet: float | None = None
        self._shifted: set[str] = set()
        """Transactions in blocks that a fork replaced: their time is another one since."""
        self._followed: list[Change] = []
        """When workers wrote down whom they follow."""
        self._passed = 0

    def _chosen(self) -> tuple[str, ...]:
        """Draw who is copied."""
        return tuple(self.random.sample(LEADERS, self.random.choice((1, 2, 2, 3, 3))))

    def _drawn_nodes(self) -> list[Node]:
        """Draw a node that can be used, and up to two that are behind, silent or of another chain."""
        first = self._node(
            nulls=self.random.choice((0, 0, 0, 0, 1, 3)),
            tells_removed=self.random.random() < 0.7,
            late_logs=self.random.choice((0, 0, 1)),
            span=self.random.choice((15, 2_000, 2_000, 2_000)),
            behind=self.random.choice((0, 0, 0, 1)),
        )
        kinds: list[dict[str, Any]] = [
            {},
            {"behind": self.random.randint(1, 12)},
            {"chain_id": ANOTHER_CHAIN},
            {"nulls": 100},  # it shows no receipt at all
        ]
        return [
            first,
            *(self._node(**one) for one in self.random.sample(kinds, self.random.choice((0, 0, 0, 1, 1, 2)))),
        ]

    def _node(self, **how: Any) -> Node:
        rest = _drawn(self.random, NODE_TRICKS, 0.1), _drawn(self.random, STREAM_TRICKS, 0.15)
        return Node(self.chain, *rest, **how)

    def services(self) -> Sequence[AbstractAsyncContextManager[object]]:
        return [*self.nodes, self.data, self.orders, self.miner]

    def section(self) -> Mapping[str, Any]:
        return {
            "leaders": list(self.changes[0].leaders),
            "orders_url": self.orders.url,
            "streams": [one.stream.url for one in self.streams],
            "nodes": [
                *(["http://127.0.0.1:9/"] if self.has_dead_node else []),
                *(one.url for one in self.nodes),
            ],
            "private": True,
            "depth": self.depth,
            "span": self.blocks_at_once,
            # Long enough for every history, and short enough for a first start to read few blocks.
            "max_age": "4m",
            "receipt": "6s",
            "silence": "15s",
            "sweep": f"{self.sweep}s",
            "every": f"{self.every}s",
            "settle": "3s",
            "data_url": self.data.url,
            "gamma_url": self.data.url,
            "lease": "20s",
            "backoff": ["5s", "20s"],
            "attempts": 60,
        }

    def settings(self) -> Sequence[Setting]:
        return [self._rules()]

    def _rules(self) -> Setting:
        rule = {
            "ratio": self.ratios[-1],
            "min_order": 0,
            "max_order": 1e9,
            "max_loss": 1e9,
            "max_orders": 1000 if self.limit is None else self.limit,
            "only_held": self.limit is not None,
        }
        return Setting("rules", {"*": rule})

    # ----- what happens

    def plan(self) -> Sequence[tuple[float, Act | Setting]]:
        plan: Plan = []
        at = self._moment()
        for one in self._draw(self.random.randint(3, 6)):
            at = at if self.random.random() < 0.2 else self._moment()
            plan.append((at, partial(self._act, one)))
        for since, until in self.outages:
            # Where nobody can write anything down, only the chain shows what happened.
            # Soon after the beginning: later their connections are down, too.
            for one in self._draw(2):
                at = min(since + self.random.uniform(0, min(until - since, 4)), self.span * 0.9)
                plan.append((at, partial(self._act, self._of_a_leader(one), "chain", losing=0.0)))
        for at, _ in self.random.sample(plan, self.random.choice((0, 0, 1, 2, 3))):
            # Soon after a trade: what is older is too deep for a fork.
            plan.append((at + self.random.uniform(0.1, 6), self._fork))
        gone = self._shown_and_gone
        special = self.random.choice(
            (None, self._lost_and_passed, gone, gone, self._shown_and_hidden, self._removed_and_back)
        )
        plan += special() if special else []
        for _ in range(self.random.choice((0, 1, 2))):
            plan.append((self._moment(), self._trouble))
        for _ in range(self.random.choice((0, 0, 1, 2))):
            plan += self._listed(self._moment() / 2, self._chosen())
        if self.random.random() < 0.3:
            self.ratios.append(0.25)
            plan.append((self._moment(), self._rules()))
        if self.limit is not None and self.random.random() < 0.5:
            plan += self._rejected_and_sold()
        elif self.random.random() < 0.2:
            since = self._moment()
            plan += [(since, partial(self._refuse, "not enough balance"))]
            plan += [(since + self.random.uniform(1, 20), partial(self._refuse, None))]
        return plan

    def _rejected_and_sold(self) -> Plan:
        """Plan a purchase, a sale that is rejected, and another one before anybody retries the first."""
        at, deeds = self.random.uniform(2, 6), self._draw(3)
        [fill, *_] = _of(self.changes[0].leaders[0], deeds[0].fills)
        sides: tuple[Side, ...] = ("BUY", "SELL", "SELL")
        bought, rejected, sold = (
            one._replace(kind="trade", fills=(fill._replace(side=side),))
            for one, side in zip(deeds, sides, strict=True)
        )
        return [
            (at, partial(self._act, bought, "chain", losing=0.0)),
            (at + 9, partial(self._refuse, "not enough balance")),
            (at + 10, partial(self._act, rejected, "chain", losing=0.0)),
            (at + 15, partial(self._refuse, None)),
            (at + 16, partial(self._act, sold, "chain", losing=0.0)),
        ]

    def _lost_and_passed(self) -> Plan:
        """Plan a trade that every stream loses, and one that they show when the first is deep."""
        lost, shown = (self._of_a_leader(one) for one in self._draw(2))
        at = self.random.uniform(4, 12)
        return [
            (at, partial(self._act, lost, "chain", losing=1.0)),
            (at + self.random.uniform(15, 22), partial(self._act, shown, "chain", losing=0.0)),
        ]

    def _shown_and_gone(self) -> Plan:
        """Plan a trade that workers have time to see before a fork takes its block away."""
        [deed] = self._draw(1)
        at = self.random.uniform(6, self.span * 0.85)
        return [
            (at, partial(self._act, self._of_a_leader(deed), "chain", losing=0.0)),
            (at + self.random.uniform(0.5, 3), partial(self._fork_once_watched, deed.transaction, 5)),
        ]

    def _fork_once_watched(self, transaction: str, patience: int) -> None:
        """Fork when a worker has written down that it watches a transaction, or after so many seconds."""
        if patience and transaction not in self.watched:
            again = partial(self._fork_once_watched, transaction, patience - 1)
            asyncio.get_running_loop().call_later(1.0, again)
        elif self._quiet is None:
            self._fork()

    def _shown_and_hidden(self) -> Plan:
        """Plan a trade that workers see, and whose receipt no node shows any more when it is deep."""
        [deed] = self._draw(1)
        at = self.random.uniform(4, 8)
        return [
            (at, partial(self._act, self._of_a_leader(deed), "chain", losing=0.0)),
            (at + self.random.uniform(1, 6), partial(self._hide_receipt, deed.transaction)),
        ]

    def _removed_and_back(self) -> Plan:
        """Plan a leader who comes back and trades while workers may know of the removal alone."""
        [deed] = self._draw(1)
        leaders = self.changes[0].leaders
        others = tuple(one for one in leaders if one != leaders[0]) or (self._nobody(leaders),)
        at = self.random.uniform(5, self.span * 0.6)
        back = at + self.random.uniform(1.5, 2.8)
        return [
            *self._listed(at, others),
            *self._listed(back, leaders),
            (
                back + self.random.uniform(0.02, 0.5),
                partial(self._act, deed._replace(fills=_of(leaders[0], deed.fills)), "both", losing=0.0),
            ),
        ]

    def _nobody(self, leaders: Sequence[str]) -> str:
        """Name somebody who is not among these leaders; a list of nobody is refused."""
        return next(one for one in LEADERS if one not in leaders)

    def _listed(self, at: float, leaders: tuple[str, ...]) -> Plan:
        """Plan that an operator puts a list of leaders."""
        return [(at, partial(self._change, leaders)), (at, Setting("leaders", list(leaders)))]

    def _of_a_leader(self, deed: Deed) -> Deed:
        return deed._replace(fills=_of(self.random.choice(self.changes[0].leaders), deed.fills))

    def _moment(self) -> float:
        return self.random.uniform(0, self.span * 0.85)

    def _draw(self, number: int) -> list[Deed]:
        kinds: tuple[Kind, ...] = (*("trade",) * 6, "mint", self.random.choice(NO_TRADES))
        deeds = self.leaders.draw(self.random.randrange(2**32), number, kinds)
        if self.limit is None:
            return deeds
        # Of few leaders and one market, so that limits are reached and sales meet each other.
        few = self.changes[0].leaders[:2]
        return [one._replace(fills=_of(self.random.choice(few), one.fills)) for one in deeds]

    def _act(self, deed: Deed, place: str = "", losing: float = 0.25) -> None:
        """Let a leader trade: on the chain, on the list, or both; the list may show it only later.

        `losing` is how likely it is for each stream to lose the trade.
        """
        now = self.clock()
        place = place or self.random.choice(("both", "late", "chain", "chain", "chain", "list"))
        if self._quiet is not None and place == "late":
            place = "both"
        self._acted[deed.transaction] = now
        for node in self.nodes:
            if self.random.random() < losing:
                node.loses.add(deed.transaction)
        if self.random.random() < 0.2:
            self.data.unknown_for[self.random.choice(self.data.markets)["conditionId"]] = 3
        self.leaders.act(deed, listed=False, mined=place != "list")
        if place == "chain":
            return
        self._unlisted[deed.transaction] = (deed, int(now))
        if place == "late":
            wait = self.random.uniform(0, 20)
            asyncio.get_running_loop().call_later(wait, self._show, deed.transaction)
        else:
            self._show(deed.transaction)

    def _show(self, transaction: str) -> None:
        """Show a transaction on the list, unless it is there or a fork took it away meanwhile."""
        found = self._unlisted.pop(transaction, None)
        if found is not None:
            self.leaders.show(found[0], at=found[1])

    def _change(self, leaders: tuple[str, ...]) -> None:
        self.changes.append(Change(self.clock(), leaders))

    def _refuse(self, reason: str | None) -> None:
        self.orders.refuses = reason

    def _hide_receipt(self, transaction: str) -> None:
        for node in self.nodes:
            node.forgets.add(transaction)

    def _fork(self) -> None:
        """Replace the last blocks; some of their transactions are gone for good, some come back later."""
        depth = self._depth_of_fork()
        if depth < 1:
            return
        taken = [one for block in self.chain.blocks[-depth:] for one in block.transactions]
        dropped = [one for one in taken if one.hash not in self.drops and self.random.random() < 0.9]
        self.chain.fork(depth, [one.hash for one in dropped])
        self._shifted |= {one.hash for one in taken}
        head = self.chain.head.number
        for one in dropped:
            comes_back = self.random.random() < 0.5
            # Workers hear of a fork at the first block that it replaced, and count from there.
            self.drops[one.hash] = Drop(head - depth + 1, comes_back)
            if comes_back:
                wait = self.random.choice((1, 1, 2, 2, self.depth))
                self.miner.waiting.append((head + wait, one))
            elif self.random.random() < 0.5:
                self._unlisted.pop(one.hash, None)
                self.leaders.hide(one.hash)

    def _depth_of_fork(self) -> int:
        """Draw how many blocks a fork replaces: mostly as many as take the last trade away."""
        most = min(DEEPEST_FORK, len(self.chain.blocks) - 2)
        if self.random.random() < 0.3:
            return min(self.random.randint(1, DEEPEST_FORK), most)
        return next((one for one in range(1, most + 1) if self.chain.blocks[-one].transactions), most)

    def _trouble(self) -> None:
        """Spoil the network between workers and one service."""
        network = cast(VirtualLoop, asyncio.get_running_loop()).network
        sites = [
            self.data,
            self.orders,
            *(one.site for one in self.nodes),
            *(one.stream for one in self.streams),
        ]
        where = self.random.choice(sites).address
        match self.random.choice(("cut", "half-open", "stall", "refuse", "black hole")):
            case "cut":
                network.cut(where)
            case "half-open":
                network.half_open(where)
            case "stall":
                network.stall(self.random.uniform(1, 20), where)
            case "refuse":
                network.refuse(where)
                asyncio.get_running_loop().call_later(self.random.uniform(1, 20), network.heal, where)
            case _:
                network.black_hole(where)
                asyncio.get_running_loop().call_later(self.random.uniform(1, 20), network.heal, where)

    def calm(self) -> None:
        self.orders.refuses = None
        self._quiet = self.clock()
        for world in (self.data, self.orders, *self._parts_of_nodes()):
            world.mischief.stop()
        for node in self.nodes:
            node.behind = node.late_logs = node.nulls = 0
            node.loses.clear()
            node.forgets.clear()
        self.data.unknown_for.clear()
        for transaction in list(self._unlisted):
            self._show(transaction)
        # Of whoever was removed long ago, nothing may be copied any more.
        for deed in self._draw(2):
            self._act(deed)

    def _parts_of_nodes(self) -> Iterator[Any]:
        for node in self.nodes:
            yield from (node.site, node.stream)

    # ----- the truth

    def trades(self) -> Iterator[Trade]:
        """Read what leaders did, from their journal."""
        for line in self.leaders.journal.of("deed"):
            leader, transaction, asset, side = line["name"].split("/")
            size = Decimal(str(line["size"]))
            yield Trade(line["name"], leader, transaction, asset, side, size, line["copied"])

    def fate(self, one: Trade) -> Fate:
        """Say whether a trade has to be copied, as far as it and its leader tell."""
        asked = self._asked_for(one)
        return asked if asked != "must" or self._is_shown(one.transaction) else "may"

    def _asked_for(self, one: Trade) -> Fate:
        """Say whether a trade has to be copied, by who its leader is and when it was made."""
        first, *later = (one.leader in change.leaders for change in self.changes)
        if not one.copied or not (first or any(later)):
            return "never"
        acted = self._acted[one.transaction]
        added, removed = self._last(one.leader, True), self._last(one.leader, False)
        if one.leader not in self.changes[-1].leaders:
            return "never" if self._is_known(removed, acted) else "may"
        if acted >= self._put_that_was_heard(one.leader, added):
            return "must"
        if acted >= added:
            return "may"
        # The time of a trade is in whole seconds, and another one if a fork moved it. And the leaders of the
        # beginning are copied from before they were named: they may be named before any worker looked.
        early = int(acted) < int(added) and one.transaction not in self._shifted and not removed
        known = bool(self._followed) and self._followed[0].at < added
        return "never" if early and known else "may"

    def _put_that_was_heard(self, leader: str, added: float) -> float:
        """Return when the list of leaders was put by which workers heard of a leader.

        A list that is replaced before any worker reads it is heard by nobody. Then the next one counts.
        """
        wrote = (one.at for one in self._followed if one.at >= added and leader in one.leaders)
        first = next(wrote, float("inf"))
        return max((one.at for one in self.changes if added <= one.at <= first), default=added)

    def _is_known(self, change: float, at: float) -> bool:
        """Say whether every worker knows at a time of a change: workers of the quiet began after it.

        Others ask every three seconds, and believe what they know for longer while the store is away.
        """
        if self._quiet is not None and at >= self._quiet:
            return True
        return at >= change + NOTICED and not self.outages

    def _last(self, leader: str, is_in: bool) -> float:
        """Return when a leader was added, or removed, for the last time; 0 if there was no such change."""
        at, was = 0.0, leader in self.changes[0].leaders
        for change in self.changes[1:]:
            now = leader in change.leaders
            if now != was and now == is_in:
                at = change.at
            was = now
        return at

    def _is_shown(self, transaction: str) -> bool:
        """Say whether the chain or the list shows a transaction, or will."""
        drop = self.drops.get(transaction)
        coming = drop is not None and drop.comes_back
        return coming or self._block_of(transaction) is not None or self._is_listed(transaction)

    def _block_of(self, transaction: str) -> Block | None:
        for block in self.chain.blocks:
            if any(one.hash == transaction for one in block.transactions):
                return block
        return None

    def _is_listed(self, transaction: str) -> bool:
        return bool(self.leaders.activity.ids("transactionHash", (transaction,)))

    def expected(self) -> Counter[str]:
        ordered, found = Counter(self.orders.names()), Counter[str]()
        for one in self.trades():
            fate = self.fate(one)
            if fate == "may" or (fate == "must" and self.limit is not None):
                found[one.name] = min(ordered[one.name], 1)
            elif fate == "must":
                found[one.name] = 1
        for leader, number in self._purchases(ordered).items():
            found[f"purchases after {leader}"] = self._allowed(leader, number)
        return found + self._retractions()

    def _purchases(self, ordered: Counter[str]) -> dict[str, int]:
        if self.limit is None:
            return {}
        bought = [name.split("/")[0] for name in ordered.elements() if name.endswith("/BUY")]
        return {leader: bought.count(leader) for leader in LEADERS}

    def _allowed(self, leader: str, number: int) -> int:
        """Return the number of purchases if it may be, and otherwise the nearest that may."""
        assert self.limit is not None, "only limits allow"
        mine = [self.fate(one) for one in self.trades() if one.leader == leader and one.side == "BUY"]
        least = min(self.limit, mine.count("must"))
        most = min(self.limit, mine.count("must") + mine.count("may"))
        return min(max(number, least), most)

    def _retractions(self) -> Counter[str]:
        """Say which retractions there should be: of what is gone for good, once, if a worker watched it."""
        found: Counter[str] = Counter()
        happened = Counter(self.retracted.values())
        for transaction, drop in self.drops.items():
            block = self._block_of(transaction)
            in_time = block is not None and block.number - drop.at < self.depth
            for one in self.trades():
                if one.transaction != transaction:
                    continue
                is_known = one.name in self.watched.get(transaction, ())
                if not drop.comes_back and is_known:
                    found[_retraction(one.name)] = 1
                elif not in_time:
                    found[_retraction(one.name)] = min(happened[_retraction(one.name)], 1)
        return found

    def happened(self) -> Counter[str]:
        ordered = Counter(self.orders.names())
        bought = {f"purchases after {leader}": number for leader, number in self._purchases(ordered).items()}
        return ordered + Counter(bought) + Counter(self.retracted.values())

    def named(self, key: Key, entry: Entry) -> str | None:
        body = (json.loads(entry.body or "{}").get("record") or {}).get("body") or {}
        if "leader" not in body:
            return None
        return reference(body["leader"], body["transaction"], body["asset"], body["side"])

    def is_final(self, key: Key, entry: Entry) -> bool:
        """A retraction waits for a person, who may sell or not."""
        return entry.state == "parked" and entry.why == "by-hand"

    def is_deadly(self, key: Key, entry: Entry) -> bool:
        """Let a worker die that has just written that it no longer watches what a fork took away."""
        if key != WATCHED:
            return False
        gone = self._watched_last - json.loads(entry.body or "{}").keys()
        is_lost = any(one in self.drops and not self.drops[one].comes_back for one in gone)
        return is_lost and self.random.random() < 0.7

    def moved(self, key: Key, entry: Entry, look: Look) -> Iterator[str]:
        if key == WATCHED:
            text = json.loads(entry.body or "{}")
            self._watched_last = set(text)
            for transaction, (_, _, bodies, _) in text.items():
                names = (reference(*(one[part] for part in PARTS)) for one in bodies)
                self.watched.setdefault(transaction, set()).update(names)
        elif key == FOLLOWED:
            self._followed.append(Change(self.clock(), tuple(json.loads(entry.body or "{}")["since"])))
        elif key == CHAIN_CURSOR:
            yield from self._behind(json.loads(entry.body or "{}").get("at"), look)
        elif self.is_final(key, entry):
            self.retracted[key.id] = _retraction(self.named(key, entry) or str(key))

    def _behind(self, at: int | None, look: Look) -> Iterator[str]:
        """Complain of trades that no worker will read again, and that have no entry."""
        until = 0 if at is None else int(at) - self.depth
        blocks = [one for one in self.chain.blocks if self._passed <= one.number < until]
        self._passed = max(self._passed, until)
        behind = {one.hash for block in blocks for one in block.transactions}
        trades = [one for one in self.trades() if one.transaction in behind and self._is_followed(one)]
        for one, seen in zip(trades, look([one.key for one in trades]), strict=True):
            if seen.entry is None:
                yield f"the cursor of the chain is at block {at}, and nobody accounted for {one.name}"

    def _is_followed(self, one: Trade) -> bool:
        added = self._last(one.leader, True)
        known = not added or self._is_known(added, self._acted[one.transaction])
        return known and self._asked_for(one) == "must"

    def wrong(self) -> Iterator[str]:
        trades = {one.name: one for one in self.trades()}
        held: Counter[tuple[str, str]] = Counter()
        for order in self.orders.journal.of("order"):
            one, size = trades[order["reference"]], Decimal(order["size"])
            if one.side == "BUY" and size not in {self._share(one.size, ratio) for ratio in self.ratios}:
                yield f"{one.name} is of {one.size}, and {size} was ordered"
            held[one.leader, one.asset] += cast(int, size if one.side == "BUY" else -size)
            if self.limit is not None and held[one.leader, one.asset] < 0:
                yield f"{one.name} sells more than is held: {held[one.leader, one.asset]} are left"

    def _share(self, size: Decimal, ratio: float) -> Decimal:
        return (size * Decimal(str(ratio))).quantize(CENT, ROUND_FLOOR)


def _of(wallet: str, fills: Sequence[Fill]) -> tuple[Fill, ...]:
    return tuple(one._replace(wallet=wallet) for one in fills)


PARTS = ("leader", "transaction", "asset", "side")


class Miner:
    """Mines a block every few seconds, with the transactions that come back after a fork."""

    def __init__(self, chain: Chain, random: Random) -> None:
        self.waiting: list[tuple[int, Transaction]] = []
        """What comes back, from which block on."""
        self._chain = chain
        self._random = Random(random.getrandbits(64))
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        self._task = asyncio.create_task(self._mine())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._task is not None, "it was entered"
        self._task.cancel()

    async def _mine(self) -> None:
        while True:
            await asyncio.sleep(self._random.uniform(1.5, 3.5))
            due = [one for at, one in self.waiting if at <= self._chain.head.number + 1]
            self.waiting = [one for one in self.waiting if one[1] not in due]
            self._chain.mine(*due)


def _retraction(name: str) -> str:
    return f"retraction of {name}"


def _drawn(random: Random, tricks: Sequence[Trick], most: float) -> Mischief:
    """Draw how a service misbehaves in one history: some of its tricks, each at a rate of its own."""
    chosen = random.sample(tricks, random.randint(0, len(tricks)))
    share = most / max(len(chosen), 1)
    rates = {trick: random.uniform(0.2, 1.0) * share * 2 for trick in chosen}
    return Mischief(random.randrange(2**32), rates, random.choice((0.5, 3.0, 12.0)))
