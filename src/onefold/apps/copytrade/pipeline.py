"""The pipeline of copytrade: leaders by chain and by list, one key, and copies of what they do."""

from __future__ import annotations

from decimal import Decimal
from functools import partial
from typing import Any

import msgspec

from onefold.apps._polymarket import DATA, GAMMA, Markets, counted
from onefold.apps.copytrade.activity import Activity
from onefold.apps.copytrade.chain import ChainTrades, Reading
from onefold.apps.copytrade.copies import EVERYBODY, Copies, Rules
from onefold.apps.copytrade.following import Following
from onefold.apps.copytrade.leaders import WALLET, Leaders, Wallets
from onefold.apps.copytrade.logs import Contracts
from onefold.apps.copytrade.orders import Exchange, Paper, Remote
from onefold.apps.copytrade.rpc import Rpc, probe_http, probe_stream
from onefold.apps.copytrade.sizing import Rule
from onefold.apps.copytrade.trades import key, row_name, row_of
from onefold.core.cursor import Cursor
from onefold.core.endpoints import Demands
from onefold.core.errors import Misconfigured
from onefold.core.ports import Source
from onefold.core.terms import Terms, forever_or_seconds, seconds
from onefold.runtime import current
from onefold.sources.poll import Offset, Poll
from onefold.worker.endpoints import Pool
from onefold.worker.file import File, located
from onefold.worker.pipeline import Pipeline
from onefold.worker.settings import Live, Setting

LIVE: dict[str, Any] = {"rules": Rules, "leaders": Wallets}

DEEPEST = 5_000
"""The Data API answers 400 to a larger offset of `/activity`."""

BLOCK = 2.0
"""Seconds between two blocks of Polygon."""

Addresses = tuple[str | dict[str, Any], ...]


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """What `[apps.copytrade]` may say."""

    leaders: tuple[str, ...]
    """Wallets: the proxy wallet that Polymarket shows, not the one that signs.

    Until `copytrade.leaders` is put as a live setting.
    """
    rules: dict[str, Rule] = msgspec.field(default_factory=lambda: {EVERYBODY: Rule()})
    """By leader, or `*` for all other leaders; until `copytrade.rules` is put as a live setting."""
    orders_url: str = ""
    """An order service; without it copies are made on paper."""
    orders_window: str = "24h"
    """For how long the order service remembers the ids of orders."""
    paper: File = File("copytrade-paper.db")
    """The file of the paper exchange."""
    streams: Addresses = ("wss://polygon-bor-rpc.publicnode.com",)
    nodes: Addresses = ("https://polygon-bor-rpc.publicnode.com", "https://polygon-rpc.com")
    private: bool = False
    """Whether nodes may be in a private network."""
    chain: int = 137
    depth: int = 32
    """Blocks after which a trade counts as final, and one that a fork took away as gone."""
    span: int = 500
    """Blocks that a node is asked for at once."""
    receipt: str = "15s"
    """How long a receipt is waited for."""
    silence: str = "30s"
    """A stream without a head for so long is given up."""
    sweep: str = "30s"
    """How often the blocks behind the head are read again: streams lose single logs."""
    max_age: str = "10m"
    """An older trade is not copied; a first start looks back so far."""
    every: str = "2s"
    settle: str = "5s"
    """How long after its time a transaction on the list may still get rows."""
    lag: str = "10m"
    keep: str = "forever"
    tick: float = 0.01
    """Where a market's own is not known."""
    data_url: str = DATA
    gamma_url: str = GAMMA
    contracts: Contracts = Contracts()

    def __post_init__(self) -> None:
        if not self.leaders:
            raise ValueError("leaders is empty: name the wallets to be copied")
        for one in (*self.leaders, *(name for name in self.rules if name != EVERYBODY)):
            if not WALLET.fullmatch(one):
                raise ValueError(f"{one!r:.60} is no wallet: write 0x and 40 hexadecimal digits")
        if len({one.lower() for one in self.leaders}) != len(self.leaders):
            raise ValueError("a leader is named twice")
        if self.depth < 1 or self.span < 1:
            raise ValueError(f"depth is {self.depth} and span {self.span}: write 1 or more")
        if not 0 < self.tick < 1:
            raise ValueError(f"tick is {self.tick}: write a step between 0 and 1")


def pipelines(settings: Settings, live: Live) -> Pipeline:
    """Say what is to be done."""
    leaders = Leaders(settings.leaders, live)
    rules: Setting[Rules] = live.setting("rules", LIVE["rules"], dict(settings.rules))
    max_age = seconds(settings.max_age, "max_age")
    sources: dict[str, Source] = {
        "chain": _chain(settings, leaders, live),
        "activity": _following(settings, leaders, max_age),
    }
    return Pipeline(
        "copytrade",
        sources=sources,
        key=key,
        sink=Copies(
            _exchange(settings),
            rules,
            Markets(settings.gamma_url, by="clob_token_ids"),
            live,
            leaders=leaders,
            tick=Decimal(str(settings.tick)),
            max_age=max_age,
        ),
        terms=Terms(lease="1m", keep=settings.keep),
        timeout="1m",
        lag_alarm="15m",
    )


def _chain(settings: Settings, leaders: Leaders, live: Live) -> ChainTrades:
    how = Reading(
        settings.depth,
        int(seconds(settings.max_age, "max_age") / BLOCK),
        settings.span,
        seconds(settings.receipt, "receipt"),
        seconds(settings.silence, "silence"),
        seconds(settings.sweep, "sweep"),
    )
    demands = Demands(version=settings.chain, behind=settings.depth)
    streams = Pool(
        "copytrade-streams",
        [*settings.streams],
        probe=probe_stream,
        demands=demands,
        private=settings.private,
    )
    nodes = Pool(
        "copytrade-nodes",
        [*settings.nodes],
        probe=probe_http,
        demands=demands,
        private=settings.private,
        schemes=("http", "https"),
    )
    rpc = Rpc(nodes, settings.chain)
    return ChainTrades(leaders, settings.contracts, streams, rpc, live, how, settings.chain)


def _following(settings: Settings, leaders: Leaders, max_age: float) -> Following:
    # No shorter than `max_age`: what is copied at all is read again after a restart, whoever's list it is on.
    lag = max(seconds(settings.lag, "lag"), max_age)
    return Following(
        leaders,
        lambda leader, since: _activity(settings, leader, since, lag),
        lambda: current().time() - max_age,
        lag,
    )


def _activity(settings: Settings, leader: str, since: float, lag: float) -> Activity:
    async def begins(_: Cursor) -> float:
        return since

    poll = Poll(
        f"{settings.data_url.rstrip('/')}/activity",
        order="newest-first",
        at="timestamp",
        unit="s",
        id=row_of(leader),
        rows=partial(counted, name=row_name),
        paging=Offset(100, max=DEEPEST),
        params={"user": leader, "type": "TRADE", "sortBy": "TIMESTAMP", "sortDirection": "DESC"},
        # A constant URL is answered from the edge's cache for minutes; this documented parameter varies it.
        vary=lambda now: {"end": str(int(now) + 60)},
        since=begins,
        every=settings.every,
        lag=lag,
    )
    return Activity(poll, seconds(settings.settle, "settle"))


def _exchange(settings: Settings) -> Exchange:
    if not settings.orders_url:
        return Paper(located(settings.paper))
    if not settings.orders_url.startswith(("http://", "https://")):
        raise Misconfigured(f"orders_url is {settings.orders_url!r:.60}: write https://host")
    return Remote(settings.orders_url, forever_or_seconds(settings.orders_window, "orders_window"))
