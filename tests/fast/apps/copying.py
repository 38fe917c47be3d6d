"""A stage for copytrade: leaders, a chain with nodes, the list, an order book, and workers between them."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from onefold import Key, Ledger
from onefold.apps.copytrade import Settings, pipelines
from onefold.apps.copytrade.sizing import Rule
from onefold.core.entry import Entry
from onefold.core.terms import Terms
from onefold.runtime import now
from onefold.worker import Worker
from onefold.worker.settings import Live
from onefold.worlds.chain import Chain, Node
from onefold.worlds.leaders import LEADERS, Deed, Leaders
from onefold.worlds.matches import MILLION, Fill
from onefold.worlds.mischief import Mischief
from onefold.worlds.orders import OrderBook
from onefold.worlds.polymarket import Polymarket
from tests.fast.worker.stage import run_until

ALL = Rule(ratio=0.5, max_order=1e9, max_orders=1000, only_held=False)
QUICK = Terms(lease=60, backoff=(0.05, 0.3), attempts=20)
"""Nobody dies on this stage; so a lease outlasts whatever holds the machine up, and no attempt is lost."""


def fill(leader: int = 0, market: int = 0, **more: Any) -> Fill:
    """Make an order: 100 shares at 50 cents, unless told otherwise."""
    asset = str(10**70 + 2 * market)
    return Fill(LEADERS[leader], asset, "BUY", 100 * MILLION, 50 * MILLION)._replace(**more)


def deed(number: int, *fills: Fill) -> Deed:
    """Make a trade of one transaction."""
    return Deed("trade", f"0x{number:064x}", fills or (fill(),))


def entry(url: str, name: str) -> Entry | None:
    """Look up what the store knows of a trade."""
    ledger = Ledger(url)
    try:
        return ledger.look(Key("copytrade", *name.split("/")))
    finally:
        ledger.close()


def kept(url: str, name: str) -> str:
    """Say why a trade is parked, if it is, and what its entry keeps."""
    found = entry(url, name)
    assert found is not None
    return f"{found.why} {found.body}"


def is_done(url: str, names: Sequence[str]) -> bool:
    """Say whether all these trades are done with, copied or not."""
    found = [entry(url, name) for name in names]
    return all(one is not None and one.state == "done" for one in found)


class Stage(NamedTuple):
    """Everything outside."""

    leaders: Leaders
    nodes: Sequence[Node]
    orders: OrderBook

    @property
    def chain(self) -> Chain:
        return self.leaders.chain

    @property
    def data(self) -> Polymarket:
        return self.leaders.data

    def wanted(self) -> Counter[str]:
        """Name what should be copied, from the leaders' own journal."""
        return Counter({line["name"]: 1 for line in self.leaders.journal.of("deed") if line["copied"]})

    def copied(self) -> Counter[str]:
        """Name what was ordered, from the order book's own journal."""
        return Counter(self.orders.names())

    def is_through(self) -> bool:
        return self.copied().total() >= self.wanted().total()


@contextmanager
def stage(
    *,
    data: Mischief | None = None,
    orders: Mischief | None = None,
    nodes: Sequence[dict[str, Any]] = ({},),
    clock: Callable[[], float] = now,
) -> Iterator[Stage]:
    chain = Chain(clock=clock)
    market = Polymarket(data, markets=8)
    made = [Node(chain, **one) for one in nodes]
    book = OrderBook(orders)
    with market, book:
        for node in made:
            node.__enter__()
        try:
            yield Stage(Leaders(chain, market), made, book)
        finally:
            for node in made:
                node.__exit__(None, None, None)


def settings(on: Stage, **more: Any) -> Settings:
    return Settings(
        **{
            "leaders": LEADERS,
            "rules": {"*": ALL},
            "orders_url": on.orders.url,
            "streams": tuple(node.stream.url for node in on.nodes),
            "nodes": tuple(node.url for node in on.nodes),
            "private": True,
            "data_url": on.data.url,
            "gamma_url": on.data.url,
            "every": "100ms",
            "settle": "10ms",
            "receipt": "2s",
            "sweep": "1s",
            "depth": 4,
            **more,
        }
    )


def worker(said: Settings, store: Any, only: Sequence[str] = (), terms: Terms = QUICK) -> Worker:
    """Make a worker; `only` names the sources that it may read, all of them if nothing is said."""
    live = Live("copytrade.", every=0.1)
    made = pipelines(said, live)
    sources = {name: one for name, one in made.sources.items() if not only or name.startswith(tuple(only))}
    plan = dataclasses.replace(made, terms=terms, sources=sources)
    return Worker([plan], store=store, grace=5, beside=[live.attend])


def run(on: Stage, store: Any, only: Sequence[str] = (), **more: Any) -> Worker:
    """Run a worker until everything is copied that should be."""
    one = worker(settings(on, **more), store, only)
    run_until(one, on.is_through)
    return one


def retractions(url: str) -> list[Any]:
    """List the retractions that wait for a person."""
    ledger = Ledger(url)
    try:
        found = [(key, entry) for key, entry in ledger.entries("copytrade", "parked")]
    finally:
        ledger.close()
    return [entry for key, entry in found if entry.why == "by-hand"]


class Script:
    """Does one step after another, each when its condition holds; through when all are done."""

    def __init__(self, *steps: tuple[Any, Any]) -> None:
        self._steps = list(steps)

    def __call__(self) -> bool:
        while self._steps and self._steps[0][0]():
            self._steps.pop(0)[1]()
        return not self._steps
